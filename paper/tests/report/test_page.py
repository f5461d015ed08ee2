"""The report: every number comes from the files, nothing is left out silently, and nothing in a file can harm."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.report.cells import results_of, table_of
from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.result_files import read_results

from dtfixup.cli.main import main
from dtfixup.errors import DataError
from dtfixup.sql.model.config import minilm
from paper.tests.made_up_results import cell, curve, experiment, path_of, sql_config, write_result
from paper.tests.report_pages import Page, build, depth_cells

HOSTILE = "</code></pre>\"'><script>harm()</script><img src=x onerror=harm()>`|*_"


def test_the_longer_side_of_a_table_goes_down(tmp_path: Path) -> None:
    cells = [cell(sql_config("dt-fixup", layers), paper="70.0") for layers in (2, 4, 8)]
    page, _ = build(tmp_path, [experiment("spider-batch", cells)])
    assert page.row("spider-batch", "N = 4") == ["70.0", "not run yet|0 of 2 seeds · 16 epochs"]


def test_means_come_from_the_files_beside_the_papers_numbers(tmp_path: Path) -> None:
    for seed, value in ((1, 70.0), (2, 71.0)):
        write_result(tmp_path / "results", sql_config("dt-fixup"), value, seed=seed)
    page, text = build(tmp_path, [depth_cells()])
    missing = "not run yet|0 of 2 seeds · 16 epochs"
    assert page.row("spider-depth", "standard") == ["19.37 ± 0.16", missing]
    assert page.row("spider-depth", "dt-fixup") == ["73.79 ± 0.49", "70.5 ± 0.7|2 seeds · 16 epochs"]
    assert "| standard | 19.37 ± 0.16 | not run yet<br>0 of 2 seeds · 16 epochs |" in text
    assert "| dt-fixup | 73.79 ± 0.49 | **70.5 ± 0.7**<br>2 seeds · 16 epochs |" in text
    assert "2 of 4 runs" in text
    write_result(tmp_path / "results", sql_config("dt-fixup"), 61.0, seed=2)
    page, text = build(tmp_path, [depth_cells()])
    assert page.row("spider-depth", "dt-fixup")[-1] == "65.5 ± 6.4|2 seeds · 16 epochs"
    assert "**65.5 ± 6.4**" in text
    assert "70.5" not in text


def test_captions_name_encoder_budget_epochs_and_batch(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0)
    _, text = build(tmp_path, [depth_cells()])
    assert "encoder minilm-fp16 (22.7M parameters, stored in half precision), budget gpu, 16 epochs, batch 32" in text
    assert "The paper: RoBERTa-large (355M parameters), 60 epochs, batch 16." in text
    assert "A remark." in text
    assert "dtfixup reproduce spider-depth --budget gpu --data spider\n" in text


def test_runs_in_two_tables_are_counted_once(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0)
    large = experiment("spider-depth", [cell(sql_config(), seeds=3)])
    small = experiment("other", [cell(sql_config(), seeds=2), cell(sql_config(layers=8), seeds=1)])
    _, text = build(tmp_path, [large, small])
    assert "\n1 of 4 runs are there." in text
    assert "| all, each run once | **1** | **1.0** |" in text


def test_more_seeds_than_planned_are_shown_and_stand_in_for_no_others(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write_result(tmp_path / "results", sql_config(), 70.0, seed=seed)
    page, text = build(tmp_path, [depth_cells()])
    assert page.row("spider-depth", "dt-fixup")[-1] == "70.0 ± 0.0|3 seeds · 16 epochs"
    assert "\n2 of 4 runs are there." in text
    (tmp_path / "results" / f"{path_of(sql_config())}-seed1.json").unlink()
    assert "\n1 of 4 runs are there." in build(tmp_path, [depth_cells()])[1], "the third is none of the two"


def test_what_is_so_with_our_own_budget_alone_is_said_there_alone(tmp_path: Path) -> None:
    known = replace(depth_cells(), gpu_remark="Chosen by tuning.")
    own = build(tmp_path, [known])[1]
    assert "A remark. Chosen by tuning." in own
    assert "Chosen" not in build(tmp_path, [known], budget=Budget.PAPER)[1]
    assert build(tmp_path, [known], encoder="folder/minilm-fp16")[1] == own, "it is the budget's own"
    _, text = build(tmp_path, [known], encoder="folder/mpnet")
    assert "**ours is mpnet, trained with the budget gpu**. The settings were chosen with MiniLM." in text
    assert "dtfixup reproduce spider-depth --budget gpu --encoder folder/mpnet --data spider\n" in text


class Harm(HTMLParser):
    """What a page could do."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.actions: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: str(value) for name, value in attributes}
        self.actions += [tag for bad in ("script", "iframe", "form", "object") if tag == bad]
        self.actions += [name for name in values if name.startswith("on")]
        self.actions += [values["src"]] if not values.get("src", "data:").startswith("data:") else []
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []


def test_a_hostile_file_can_do_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    fields = {"encoder": HOSTILE, "hardware": HOSTILE, "command": HOSTILE}
    write_result(results, sql_config(), 70.0, file="sql/minilm-seed1.json", metrics={"dev_exact_easy": 9}, **fields)
    change = {"runs": [{"change": HOSTILE, "epochs": HOSTILE, "held_out_exact": 3.0}], "command": HOSTILE}
    (results / "sql/held-out-seed1.json").write_text(json.dumps(change))
    (results / "measurements").mkdir()
    (results / f"measurements/relation-attention-seed{HOSTILE[-4:-2]}.json").write_text(
        json.dumps({**fields, "metrics": {"x": []}})
    )
    own = experiment("spider-depth", [cell(sql_config(), row=HOSTILE, column=HOSTILE)], title=HOSTILE, remark=HOSTILE)
    page, text = build(tmp_path, [own])
    assert Harm((tmp_path / "report" / "index.html").read_text(encoding="utf-8")).actions == []
    assert [row[0] for row in page.rows].count(HOSTILE) == 2, "it is shown as it is, in both tables"
    outside = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "harm()" in outside
    assert "<script" not in outside


def test_the_page_needs_no_other_file_and_its_links_have_targets(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0)
    build(tmp_path, [depth_cells()])
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    page = Harm(text)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert {f"#{name}" for name in page.ids} == set(page.links) > {"#spider-depth"}
    assert len(set(page.ids)) == len(page.ids)
    assert 'src="data:image/svg+xml;base64,' in text
    assert page.actions == []
    assert not re.findall(r"@import|url\(", text)


def test_what_a_person_wrote_comes_first_and_may_be_missing(tmp_path: Path) -> None:
    agreement = tmp_path / "agreement.md"
    assert "Where we agree" not in build(tmp_path, [depth_cells()])[1]
    agreement.write_text("# Where\n\nDepth **pays**<!-- toy\nn8 -->.\n\n## Spider\n")
    page, text = build(tmp_path, [depth_cells()], agreement=agreement)
    assert "Depth **pays**." in page.texts["agreement"]
    assert "\n### Spider\n" in text, "below the section's own heading"
    assert list(page.texts)[:2] == ["agreement", "spider-depth"]


def test_what_a_person_wrote_is_found_beside_the_results_and_is_of_them_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = ["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    main(words)
    assert "no docs/results/agreement.md here or beside" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "agreement.md").write_text("# Where\n\nDepth pays.\n")
    for options, is_there in (([], True), (["--budget", "paper"], False), (["--encoder", "mpnet"], False)):
        main([*words, *options])
        assert ("Depth pays." in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")) == is_there
    assert "leaves it out" not in capsys.readouterr().out


def test_depth_and_curves_are_drawn(tmp_path: Path) -> None:
    results = tmp_path / "results"
    standard, fixup = sql_config("standard", 8), sql_config("dt-fixup", 8)
    write_result(results, standard, 55.0, curve=curve(20, 40, 55))
    for seed, values in ((1, (50, 61, 64)), (2, (62, 63, 66))):
        write_result(results, fixup, values[-1], seed=seed, curve=curve(*values))
    cells = [cell(standard, seeds=1, paper="66.86 ± 0.16"), cell(fixup, paper="73.24 ± 0.51")]
    page, text = build(tmp_path, [experiment("spider-depth", cells), experiment("spider-curves", cells)])
    assert page.row("spider-curves", "standard, N = 8") == ["never|1 seed · 16 epochs", "0 of 1", "55.0"]
    assert page.row("spider-curves", "dt-fixup, N = 8") == ["3.0|2 seeds · 16 epochs", "2 of 2", "65.0 ± 1.4"]
    assert "![standard: 55.0 at 8; dt-fixup: 65.0 at 8](figures/spider-depth.svg)" in text
    curves = (tmp_path / "report" / "figures" / "spider-curves.svg").read_text()
    write_result(results, fixup, 64, seed=1, curve=curve(50, 51, 64))
    page, _ = build(tmp_path, [experiment("spider-curves", cells)])
    assert page.row("spider-curves", "dt-fixup, N = 8")[0].startswith("4.0|")
    assert (tmp_path / "report" / "figures" / "spider-curves.svg").read_text() != curves


def test_seeds_that_were_evaluated_at_other_epochs_are_drawn_where_they_meet(tmp_path: Path) -> None:
    fixup = sql_config("dt-fixup", 8)
    write_result(tmp_path / "results", fixup, 64.0, seed=1, curve=curve(50, 61, 64))
    write_result(tmp_path / "results", fixup, 62.0, seed=2, curve=curve(60, 62, every=4))
    _, text = build(tmp_path, [experiment("spider-curves", [cell(fixup)])])
    assert "N = 8: dt-fixup 60.5 at the end" in text, "the mean after epoch 4, the last they share"


def test_hardness_has_exact_match_and_execution(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for seed, easy in ((1, 88.0), (2, 90.0)):
        levels = {"dev_exact_easy": easy, "dev_execution_easy": easy - 4}
        write_result(results, sql_config(), 71.0, seed=seed, file=f"sql/minilm-seed{seed}.json", metrics=levels)
    page, _ = build(tmp_path, [experiment("spider-hardness", [cell(sql_config(), row="DT-Fixup", path="sql/minilm")])])
    assert page.row("spider-hardness", "DT-Fixup SQL-SP, exact match") == ["91.9", "80.9", "60.3", "48.8", "75.0"]
    assert page.row("spider-hardness", "ours, DT-Fixup, exact match")[0] == "89.0 ± 1.4|2 seeds · 16 epochs"
    assert page.row("spider-hardness", "ours, DT-Fixup, execution")[0] == "85.0 ± 1.4|2 seeds · 16 epochs"
    assert page.row("spider-hardness", "ours, DT-Fixup, execution")[1] == "not scored yet"
    assert page.row("parser", "DT-Fixup, N = 24: exact match")[-1] == "71.0 ± 0.0|2 seeds · 16 epochs", (
        "the parser's own section"
    )


def test_table_1_has_the_best_run_of_the_deepest(tmp_path: Path) -> None:
    for seed, value in ((1, 70.0), (2, 72.0)):
        write_result(tmp_path / "results", sql_config(), value, seed=seed)
    cells = [cell(sql_config(layers=8), row="shallow", column="dev"), cell(sql_config(), row="deep", column="dev")]
    page, text = build(tmp_path, [experiment("spider-main", cells)])
    assert page.row("spider-main", "SQL-SP + minilm-fp16 (ours)|deep") == ["72.0|the best of 2 seeds · 16 epochs", ""]
    assert page.row("spider-main", "RAT-SQL v3 + BERT") == ["69.7", "65.6"]
    assert page.row("spider-main", "RAT-SQL + BERT") == ["8", "no", "~200", "69.7"]
    assert text.count("not reproducible here") == 2


def test_tuning_shows_what_was_tried_and_its_cost(tmp_path: Path) -> None:
    base = sql_config(hold_out=20)
    update = replace(base.training.update, learning_rate=8e-4)
    fast = replace(base, training=replace(base.training, update=update, warmup=350))
    write_result(tmp_path / "results", base, 61.0, wall_seconds=90.0)
    write_result(tmp_path / "results", fast, 64.0, wall_seconds=30.0)
    cells = [cell(each, row=str(place), seeds=1) for place, each in enumerate((base, fast))]
    page, text = build(tmp_path, [experiment("spider-tune", cells)])
    rows = [row for row in page.rows if row and row[0] == "DT-Fixup" and len(row) == 7]
    assert [row[2:] for row in rows] == [["0.00016", "0.0008", "350", "64.0|1 seed · 16 epochs", "0.5"],
                                         ["0.0001", "0.0005", "0", "61.0|1 seed · 16 epochs", "1.5"]]  # fmt: skip
    assert "| learning rate | warm-up, steps | held out exact, % |" in text
    assert "2 runs, 2.0 minutes in all" in text
    assert "exact match in percent on held-out databases of train" in text


def test_tuning_marks_what_was_chosen(tmp_path: Path) -> None:
    config = sql_config(hold_out=20)
    write_result(tmp_path / "results", config, 61.0)
    cells = [replace(cell(config, seeds=1), is_chosen=True)]
    page, _ = build(tmp_path, [experiment("spider-tune", cells)])
    assert "61.0|1 seed · 16 epochs · chosen" in {entry for row in page.rows for entry in row}


def test_stability_and_speed_say_what_is_there(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_result(results, sql_config(), 70.0, metrics={"skipped_steps": 3, "highest_growth": 4.25})
    write_result(results, sql_config(), 70.0, seed=2, metrics={"skipped_steps": 4, "highest_growth": 2.0})
    speed = {"metrics": {"step_ms": 11.71, "train_seconds": 362}, "hardware": "a GPU", "command": "x"}
    (results / "sql").mkdir()
    (results / "sql/batch16-seed1.json").write_text(json.dumps(speed))
    page, _ = build(tmp_path, [depth_cells()])
    assert ["DT-Fixup", "24", "2 μ", "2", "0", "0", "7 of 200", "4.2", ""] in page.rows
    assert page.row("speed", "a training step at batch 16") == ["11.7 ms|a GPU", "sql/batch16-seed1.json"]
    assert page.row("speed", "one question, beam 5: median and 95th percentile")[0] == "not run yet"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metrics": {"dev_exact": "high"}}, "'high' for its metric dev_exact"),
        ({"state": "odd"}, "the state 'odd'"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0, file="bad-seed1.json", **fields)
    with pytest.raises(DataError, match=rf"bad-seed1\.json has {message}"):
        build(tmp_path, [depth_cells()])


def test_two_cells_in_one_place_are_an_error(tmp_path: Path) -> None:
    found = results_of([cell(sql_config()), cell(sql_config(epochs=3))], read_results(tmp_path))
    with pytest.raises(ValueError, match="two cells of a table have one row and column"):
        table_of(found)


@pytest.mark.parametrize("budget", list(Budget))
def test_all_registered_experiments_have_their_section(budget: Budget, tmp_path: Path) -> None:
    first = EXPERIMENTS["spider-depth"].cells(Setup(budget))[0]
    write_result(tmp_path / "results", first.config, 33.0, file=f"{first.path}-seed1.json")
    page, text = build(tmp_path, list(EXPERIMENTS.values()), budget=budget)
    assert set(EXPERIMENTS) <= set(page.texts)
    assert all(f"dtfixup reproduce {name} --budget {budget}" in text for name in EXPERIMENTS)
    assert "33.0" in text
    assert "1 of " in text


def test_another_encoder_is_asked_for(tmp_path: Path) -> None:
    deepest = EXPERIMENTS["spider-depth"].cells(Setup(Budget.GPU, "roberta-large"))[-1]
    write_result(tmp_path / "results", deepest.config, 74.0, file=f"{deepest.path}-seed1.json")
    for encoder, found in ((None, "not run yet"), ("roberta-large", "74.0")):
        page, _ = build(tmp_path, [EXPERIMENTS["spider-depth"]], encoder=encoder)
        assert page.row("spider-depth", "N = 32")[-1].startswith(found)


def test_the_verb_builds_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    main(["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")])
    assert "index.html" in capsys.readouterr().out.replace("\n", "")
    assert (tmp_path / "out" / "index.html").exists()
    assert Page((tmp_path / "out" / "report.md").read_text(encoding="utf-8")).row("spider-depth", "N = 24")
    for options, message in ((["--budget", "huge"], "there is no budget 'huge'"), (["--results", "x"], "is no folder")):
        with pytest.raises(SystemExit):
            main(["report", "--out", str(tmp_path / "no"), *options])
        assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "no").exists()


def test_seeds_on_other_data_are_named(tmp_path: Path) -> None:
    config = sql_config()
    for seed, data in ((1, "one"), (2, "other")):
        write_result(tmp_path / "results", config, 70.0, seed=seed, data_hash=data)
    (found,) = results_of([cell(config)], read_results(tmp_path / "results"))
    assert found.note.endswith("· not all on the same data")
    assert found.note.startswith("2 seeds")


def test_the_python_of_its_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    write_result(tmp_path / "results", minilm(), 70.0, file="sql/minilm-seed1.json")
    exec(compile(program, "paper/README.md", "exec"), {"__name__": "documentation"})
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert Page(text).row("mine", "DT-Fixup") == ["73.79", "70.0|1 of 5 seeds · 28 epochs"]
    assert "dtfixup reproduce mine" not in text
