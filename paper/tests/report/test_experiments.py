"""Sections of experiments: tables beside the paper's, pictures, remarks and commands."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dtfixup_paper.report.cells import results_of
from dtfixup_paper.report.experiments import experiment_section
from dtfixup_paper.report.markdown import Picture, Section
from dtfixup_paper.tables.cells import Budget, Cell, Setup
from dtfixup_paper.tables.result_files import read_results

from paper.tests.made_up_results import cell, curve, experiment, reading_config, sql_config, write_result
from paper.tests.report_pages import depth_experiment, rows_of

FIXUP = sql_config("dt-fixup", 24)


def section_of(folder: Path, name: str, cells: Sequence[Cell]) -> Section:
    return experiment_section(experiment(name, cells), results_of(cells, read_results(folder)), Budget.GPU)


def pictures_of(section: Section) -> list[Picture]:
    return [block for block in section.blocks if isinstance(block, Picture)]


def test_remarks_and_commands_are_those_of_the_budget_and_the_encoder(tmp_path: Path) -> None:
    asked = replace(depth_experiment(), gpu_remark="Chosen by tuning.")
    own, paper, other = (
        str(experiment_section(asked, results_of(asked.cells(Setup(budget)), read_results(tmp_path)), budget, encoder))
        for budget, encoder in ((Budget.GPU, None), (Budget.PAPER, None), (Budget.GPU, "folder/mpnet"))
    )
    assert "A remark. Chosen by tuning." in own
    assert "dtfixup reproduce spider-depth --budget gpu --data spider\n" in own
    assert "Chosen" not in paper
    assert "dtfixup reproduce spider-depth --budget gpu --encoder folder/mpnet --data spider\n" in other


def test_captions_say_what_failed_means(tmp_path: Path) -> None:
    reading = reading_config("standard", 16)
    for seed, value in ((1, 68.0), (2, 20.0)):
        write_result(tmp_path, FIXUP, value, seed=seed)
        write_result(tmp_path, reading, value / 2 + 10, seed=seed)
    cells = [cell(FIXUP, column="Spider"), cell(reading, column="ReClor")]
    text = str(section_of(tmp_path, "spider-batch", cells))
    for part in (
        "On ReClor a run that diverged counts as chance.",
        "At chance: not more than three standard errors above it, or with the loss of equal probabilities",
        "Collapsed: below 30 % at the end. A cell in which some runs failed and others did not shows every run",
        "dtfixup reproduce spider-batch --budget gpu --data spider --reclor reclor\n",
    ):
        assert part in text, part


def test_depth_is_drawn_beside_the_papers_and_where_a_run_failed_there_are_dots(tmp_path: Path) -> None:
    cells = []
    for layers, values in ((8, (60.0, 62.0)), (24, (66.0, None)), (32, (68.0, 20.0))):
        for seed, value in enumerate(values, start=1):
            write_result(tmp_path, sql_config("dt-fixup", layers), value, seed=seed)
        cells.append(cell(sql_config("dt-fixup", layers), paper=f"{70 + layers / 8:.1f}"))
    (picture,) = pictures_of(section_of(tmp_path, "spider-depth", cells))
    assert str(picture).startswith("![dt-fixup: 61.0 at 8, 66.0 alone at 24, 68.0 and 20.0 at 32](figures/spider-depth")
    assert "Dots alone: a run failed and another did not." in picture.caption
    paper, ours, *_ = picture.figure.axes[0].lines
    assert (list(paper.get_xdata()), list(ours.get_xdata())) == ([8, 24, 32], [8]), "the paper's line goes on"


def test_bars_have_no_mean_where_a_run_failed(tmp_path: Path) -> None:
    write_result(tmp_path, FIXUP, 68.0)
    for value, words, bars in ((64.0, "66.0 ± 2.8", 1), (20.0, "68.0, 20.0", 0)):
        write_result(tmp_path, FIXUP, value, seed=2)
        (picture,) = pictures_of(section_of(tmp_path, "init-peers", [cell(FIXUP)]))
        assert str(picture).startswith(f"![dt-fixup, N = 24: {words}](figures/init-peers-spider.svg)")
        assert ("Dots alone" in picture.caption) == (bars == 0)
        assert len(picture.figure.axes[0].patches) == bars


def test_curves_are_drawn_and_say_when_they_reach_the_goal(tmp_path: Path) -> None:
    standard, fixup = sql_config("standard", 8), sql_config("dt-fixup", 8)
    write_result(tmp_path, standard, 55.0, curve=curve(20, 40, 55))
    for seed, values in ((1, (50, 61, 64)), (2, (62, 63, 66))):
        write_result(tmp_path, fixup, values[-1], seed=seed, curve=curve(*values))
    section = section_of(tmp_path, "spider-curves", [cell(standard, seeds=1), cell(fixup)])
    rows = rows_of(section)
    assert rows["standard, N = 8"] == ["never|1 seed · 16 epochs", "0 of 1", "55.0"]
    assert rows["dt-fixup, N = 8"] == ["3.0|2 seeds · 16 epochs", "2 of 2", "65.0 ± 1.4"]
    (picture,) = pictures_of(section)
    assert picture.label == "N = 8: standard 55.0 at the end; N = 8: dt-fixup 65.0 at the end"


def test_seeds_that_were_evaluated_at_other_epochs_are_drawn_where_they_meet(tmp_path: Path) -> None:
    fixup = sql_config("dt-fixup", 8)
    write_result(tmp_path, fixup, 64.0, seed=1, curve=curve(50, 61, 64))
    write_result(tmp_path, fixup, 62.0, seed=2, curve=curve(60, 62, every=4))
    (picture,) = pictures_of(section_of(tmp_path, "spider-curves", [cell(fixup)]))
    assert picture.label == "N = 8: dt-fixup 60.5 at the end", "the mean after epoch 4, the last they share"


def test_hardness_has_exact_match_and_execution(tmp_path: Path) -> None:
    for seed, easy in ((1, 88.0), (2, 90.0)):
        levels = {"dev_exact_easy": easy, "dev_execution_easy": easy - 4}
        write_result(tmp_path, FIXUP, 71.0, seed=seed, metrics=levels)
    rows = rows_of(section_of(tmp_path, "spider-hardness", [cell(FIXUP, row="DT-Fixup")]))
    assert rows["DT-Fixup SQL-SP, exact match"] == ["91.9", "80.9", "60.3", "48.8", "75.0"]
    assert rows["ours, DT-Fixup, exact match"][0] == "89.0 ± 1.4|2 seeds · 16 epochs"
    assert rows["ours, DT-Fixup, execution"][:2] == ["85.0 ± 1.4|2 seeds · 16 epochs", "not scored yet"]


def test_table_1_has_the_best_run_of_the_deepest(tmp_path: Path) -> None:
    for seed, value in ((1, 70.0), (2, 72.0)):
        write_result(tmp_path, FIXUP, value, seed=seed)
    cells = [cell(sql_config(layers=8), row="shallow", column="dev"), cell(FIXUP, row="deep", column="dev")]
    section = section_of(tmp_path, "spider-main", cells)
    rows = rows_of(section)
    assert rows["SQL-SP + minilm-fp16 (ours)|deep"] == ["72.0|the best of 2 seeds · 16 epochs", ""]
    assert rows["RAT-SQL v3 + BERT"] == ["69.7", "65.6"]
    assert rows["RAT-SQL + BERT"] == ["8", "no", "~200", "69.7"]
    assert str(section).count("not reproducible here") == 2


def test_tuning_says_what_it_cost(tmp_path: Path) -> None:
    write_result(tmp_path, sql_config(hold_out=20), 61.0, wall_seconds=120.0)
    text = str(section_of(tmp_path, "spider-tune", [cell(sql_config(hold_out=20), seeds=1)]))
    assert "1 run, 2.0 minutes in all" in text
    assert "exact match in percent on held-out databases of train" in text
