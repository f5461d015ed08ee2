"""Failed runs in the report: which there are, how they failed, and no mean of runs that train and runs that do not."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dtfixup_paper.report import experiments as report_experiments
from dtfixup_paper.report.cells import CellResult
from dtfixup_paper.report.curves import DepthLine, depth_figure

from paper.tests.made_up_results import cell, experiment, path_of, reading_config, sql_config, write_result
from paper.tests.report_pages import build, depth_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_failed_runs_are_counted_and_say_how(tmp_path: Path) -> None:
    results = tmp_path / "results"
    sql, reading = sql_config("t-fixup", 24), reading_config("standard", 16)
    for seed, value in ((1, 60.0), (2, None)):
        write_result(results, sql, value, seed=seed)
    for seed, accuracy in ((1, 44.0), (2, 30.0), (3, None)):
        write_result(results, reading, accuracy, seed=seed)
    cells = [cell(sql, column="Spider"), cell(reading, row="t-fixup", column="ReClor", seeds=3)]
    page, text = build(tmp_path, [experiment("init-peers", cells)])
    (spider,), (reclor,) = (page.row("init-peers", task) for task in ("Spider", "ReClor"))
    assert spider == "60.0, diverged|2 seeds · 16 epochs|1 of 2 diverged", (
        "no mean of runs that train and runs that do not"
    )
    assert reclor == "33.0 ± 9.8|3 seeds · 12 epochs|1 of 3 diverged, 1 of 3 at chance", "which counts as 25"
    assert "At chance: not more than three standard errors above it, or with the loss of equal probabilities" in text
    assert "<br>*1 of 2 diverged*" in text
    write_result(results, sql, None, seed=1)
    page, _ = build(tmp_path, [experiment("init-peers", cells)])
    assert page.row("init-peers", "Spider")[0] == "failed|2 seeds · 16 epochs|2 of 2 diverged"


def test_a_spider_run_that_ends_where_broken_models_do_has_collapsed(tmp_path: Path) -> None:
    for seed, value in ((1, 68.0), (2, 20.0), (3, 30.0)):
        write_result(tmp_path / "results", sql_config("dt-fixup", 24), value, seed=seed)
    page, text = build(tmp_path, [experiment("init-peers", [cell(sql_config("dt-fixup", 24))])])
    assert page.row("init-peers", "dt-fixup")[0] == "68.0, 20.0, 30.0|3 seeds · 16 epochs|1 of 3 collapsed"
    assert (
        "Collapsed: below 30 % at the end. A cell in which some runs failed and others did not shows every run" in text
    )
    assert "![dt-fixup, N = 24: 68.0, 20.0, 30.0](figures/init-peers-spider.svg)" in text
    assert "| DT-Fixup | 24 | 2 μ | **3** | **0** | **1** |" in text


def test_where_the_paper_tells_of_failed_runs_a_row_without_any_says_so(tmp_path: Path) -> None:
    asked = cell(sql_config("t-fixup", 24), paper="4 of 5 failed")
    assert CellResult(asked, ()).note == "0 of 2 seeds · 16 epochs"
    for seed in (1, 2):
        write_result(tmp_path / "results", sql_config("t-fixup", 24), 62.0, seed=seed)
    page, _ = build(tmp_path, [experiment("spider-main", [asked])])
    assert page.row("spider-main", "t-fixup")[-1] == "62.0 ± 0.0|2 seeds · 16 epochs · none failed"
    write_result(tmp_path / "results", sql_config("t-fixup", 24), None, seed=1)
    page, _ = build(tmp_path, [experiment("spider-main", [asked])])
    assert page.row("spider-main", "t-fixup")[-1] == "diverged, 62.0|2 seeds · 16 epochs|1 of 2 diverged"


def test_a_run_that_an_error_ended_is_told(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0)
    write_result(tmp_path / "results", sql_config(), None, seed=2, state="failed", reason="no room")
    write_result(tmp_path / "results", sql_config("standard"), None, state="failed", reason="no room")
    page, _ = build(tmp_path, [depth_cells()])
    assert page.row("spider-depth", "dt-fixup")[-1] == "70.0|1 of 2 seeds · 16 epochs|1 stopped by an error"
    assert page.row("spider-depth", "standard")[-1] == "not run yet|0 of 2 seeds · 16 epochs|1 stopped by an error"
    (tmp_path / "results" / "odd.json").write_text('{"state": "open"}')  # somebody else's
    asked = [cell(sql_config("t-fixup", 24), paper="4 of 5 failed")]
    for seed, state in ((1, "finished"), (2, "failed")):
        write_result(tmp_path / "results", sql_config("t-fixup", 24), 62.0, seed=seed, state=state)
    page, _ = build(tmp_path, [experiment("spider-main", asked)])
    told = "62.0|1 of 2 seeds · 16 epochs · none failed|1 stopped by an error"
    assert page.row("spider-main", "t-fixup")[-1] == told
    write_result(tmp_path / "results", sql_config(), 71.0, seed=2)
    page, _ = build(tmp_path, [depth_cells()])
    assert page.row("spider-depth", "dt-fixup")[-1] == "70.5 ± 0.7|2 seeds · 16 epochs", "it was trained again"


def test_runs_with_another_configuration_are_named(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(epochs=17), 70.0, file=f"{path_of(sql_config())}-seed1.json")
    page, _ = build(tmp_path, [depth_cells()])
    told = "70.0|1 of 2 seeds · 16 epochs|seed 1 was trained with another configuration"
    assert page.row("spider-depth", "dt-fixup")[-1] == told


def test_levels_of_hardness_say_which_runs_diverged(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 71.0, file="sql/minilm-seed1.json")
    write_result(tmp_path / "results", sql_config(), None, seed=2, file="sql/minilm-seed2.json")
    page, _ = build(tmp_path, [experiment("spider-hardness", [cell(sql_config(), row="DT-Fixup", path="sql/minilm")])])
    told = "71.0, diverged|1 seed · 16 epochs|1 of 2 diverged"
    assert page.row("spider-hardness", "ours, DT-Fixup, exact match")[-1] == told
    assert page.row("parser", "DT-Fixup, N = 24: exact match")[-1] == told
    write_result(tmp_path / "results", sql_config(), 20.0, seed=2, file="sql/minilm-seed2.json")
    page, _ = build(tmp_path, [experiment("spider-hardness", [cell(sql_config(), row="DT-Fixup", path="sql/minilm")])])
    told = "71.0, 20.0|2 seeds · 16 epochs|1 of 2 collapsed"
    assert page.row("spider-hardness", "ours, DT-Fixup, exact match")[-1] == told
    assert page.row("parser", "DT-Fixup, N = 24: exact match")[-1] == told


def test_where_a_run_failed_there_are_dots_and_the_papers_line_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = []
    for layers, values in ((8, (60.0, 62.0)), (24, (66.0, None)), (32, (68.0, 20.0))):
        for seed, value in enumerate(values, start=1):
            write_result(tmp_path / "results", sql_config("dt-fixup", layers), value, seed=seed)
        cells.append(cell(sql_config("dt-fixup", layers), paper=f"{70 + layers / 8:.1f}"))
    drawn: list[dict[str, Any]] = []

    def note(lines: Sequence[DepthLine], **options: Any) -> "Figure":
        drawn.append({"ours": lines, **options})
        return depth_figure(lines, **options)

    monkeypatch.setattr(report_experiments, "depth_figure", note)
    _, text = build(tmp_path, [experiment("spider-depth", cells)])
    (ours,), (paper,) = drawn[0]["ours"], drawn[0]["paper"]
    assert (list(ours.means), list(paper.means)) == ([8], [8, 24, 32])
    assert "![dt-fixup: 61.0 at 8, 66.0 alone at 24, 68.0 and 20.0 at 32]" in text
    assert "Dots alone: a run failed and another did not." in text


def test_bars_have_no_mean_where_a_run_failed(tmp_path: Path) -> None:
    for seed, value in ((1, 68.0), (2, 64.0)):
        write_result(tmp_path / "results", sql_config("dt-fixup", 24), value, seed=seed)
    cells, picture = [cell(sql_config("dt-fixup", 24))], tmp_path / "report" / "figures" / "init-peers-spider.svg"
    texts = []
    for value in (64.0, 20.0):
        write_result(tmp_path / "results", sql_config("dt-fixup", 24), value, seed=2)
        _, text = build(tmp_path, [experiment("init-peers", cells)])
        assert ("Dots alone" in text) == (value == 20.0)
        texts.append(picture.read_text(encoding="utf-8"))
    whole, split = texts
    assert "66.0 ± 2.8" in whole
    assert "68.0, 20.0" in split
    assert ("opacity: 0.45" in whole, "opacity: 0.45" in split) == (True, False), "the bar"
