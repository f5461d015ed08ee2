"""The error analysis in the report: its runs, its numbers, and text of errors on a page of its own."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from dtfixup_paper.report.cells import results_of
from dtfixup_paper.report.errors import analysed, error_blocks, examples_page
from dtfixup_paper.report.page import build_report
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.paper_numbers import TABLE_7_MODELS
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.spider_errors import ErrorClass, RunErrors, write_errors
from dtfixup_paper.tables.spider_tables import error_cells

from dtfixup.errors import DataError
from dtfixup.files import file_sha256
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.predictions import Prediction, write_beams
from dtfixup.training.config import to_json
from paper.tests.made_up_results import cell, sql_config
from paper.tests.report_pages import rows_of
from tests.sql.sample_questions import ask_the_sample

F, C, S, B = ErrorClass
GOLD = "SELECT title FROM film"
HOSTILE = "<img src=x onerror=harm()>"
TUNED = 5
"""The seed of runs that were fine-tuned."""
Classes = Sequence[ErrorClass | None]
MODELS = (("standard", 4), ("dt-fixup", 4), ("dt-fixup", 24))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Four questions of our own over a bundled database, one of them hostile."""
    asked = ["What titles?", f"Which films? {HOSTILE}", "All titles?", "Every title?"]
    rows = [{"db_id": "film_festival", "question": question, "query": GOLD} for question in asked]
    return ask_the_sample(tmp_path / "data", dev=rows)


def write_run(folder: Path, config: SqlSpConfig, classes: Classes, seed: int = 1, beams: Path | None = None) -> None:
    """A file of errors."""
    digest = file_sha256(beams) if beams else ""
    run = {"config": to_json(config), "seed": seed, "is_tuned": seed == TUNED}
    clauses = {Clause.SELECT: dict.fromkeys(ErrorClass, 1)}
    errors = RunErrors("dev", 7, run, digest, (Hardness.EASY,) * len(classes), tuple(classes), clauses)
    name = f"errors-{config.model.strategy}-n{config.model.layers}-e{config.training.epochs}-seed{seed}.json"
    folder.mkdir(exist_ok=True)
    write_errors(folder / name, errors, "dtfixup sql errors", 0.0)


def write_three(folder: Path, seed: int = 1) -> None:
    write_run(folder, sql_config("standard", 4), (B, B, S, F), seed)
    write_run(folder, sql_config("dt-fixup", 4), (B, C, None, S), seed)
    write_run(folder, sql_config("dt-fixup", 24), (C, None, None, F), seed)


def texts_of(folder: Path) -> list[str]:
    """The blocks of a report on runs with the configurations of `write_three`."""
    models = [cell(sql_config(strategy, layers)) for strategy, layers in MODELS]
    results = read_results(folder)
    blocks, _ = error_blocks(analysed(results), results_of(models, results), Budget.GPU, has_examples=False)
    return list(map(str, blocks))


def test_table_7_has_the_papers_numbers_and_follows_the_files(tmp_path: Path) -> None:
    write_three(tmp_path)
    table = texts_of(tmp_path)[0]
    note = "|minilm · seed 1 · 16 epochs · made-up examples"
    assert rows_of(table) == {
        "": [f"{model}, {whose}" for model in TABLE_7_MODELS for whose in ("paper", "ours")],
        "false negative": ["39", "1", "35", "0", "42", "1"],
        "column": ["51", "0", "60", "1", "53", "1"],
        "sketch": ["92", "1", "83", "1", "77", "0"],
        "both": ["124", "2", "105", "1", "88", "0"],
        "all": ["306", f"4{note}", "283", f"3{note}", "260", f"2{note}"],
    }
    assert "on 7 random variants" in table
    write_run(tmp_path, sql_config("dt-fixup", 24), (C, S, S, F))
    assert rows_of(texts_of(tmp_path)[0])["sketch"][-1] == "2"


def test_figures_3_and_4_leave_false_negatives_out(tmp_path: Path) -> None:
    write_three(tmp_path)
    picture = texts_of(tmp_path)[1]
    # All three are wrong in the first example alone, some in all four; the last counts for the second model alone.
    assert "of the 1 questions that all three models get wrong (the paper: 190) and the 4 that any" in picture
    column = "50 % (standard, N = 4), 50 % (DT-Fixup, N = 4), 25 % (DT-Fixup, N = 24)"
    assert f"wrong in any model (4), column error: {column}" in picture
    sketch = "75 % (standard, N = 4), 50 % (DT-Fixup, N = 4), 0 % (DT-Fixup, N = 24)"
    assert f"wrong in any model (4), sketch error: {sketch}" in picture


def test_the_three_are_those_of_the_budget_and_the_encoder(tmp_path: Path) -> None:
    def wrong() -> list[str]:
        """Of the three models."""
        return [entry.split("|")[0] for entry in rows_of(texts_of(tmp_path)[0])["all"][1::2]]

    missing = "not analysed yet"
    for odd in (sql_config("dt-fixup", 24, epochs=10), sql_config("dt-fixup", 4, encoder="mpnet")):
        write_run(tmp_path, odd, (C, C, C, C), seed=2)
    assert wrong() == [missing] * 3
    _, note, runs, *_ = texts_of(tmp_path)
    assert "over all three models; standard, N = 4, DT-Fixup, N = 4, DT-Fixup, N = 24: not analysed yet." in note
    assert list(rows_of(runs)) == [
        "run",
        "DT-Fixup, N = 24|minilm · seed 2 · 10 epochs · made-up examples",
        "DT-Fixup, N = 4|mpnet · seed 2 · 16 epochs · made-up examples",
    ]
    write_run(tmp_path, sql_config("dt-fixup", 24), (C, C, C, C), seed=1)
    assert wrong() == [missing, missing, "4"]
    write_run(tmp_path, sql_config("standard", 4), (B, B, B, None), seed=3)
    assert wrong() == ["3", missing, "4"], "of another seed rather than none"
    write_three(tmp_path, seed=2)
    assert wrong() == ["4", "3", "2"], "of the seed that all three have"
    table, *_, runs, clauses, files, _, how_to_read = texts_of(tmp_path)
    assert "Ours: encoder minilm (22.7M parameters), budget gpu, 16 epochs, batch 32" in table
    assert len(rows_of(runs)) == 1 + 6
    assert rows_of(clauses)["select"] == ["4", "4", "4"]
    assert "errors-dt-fixup-n24-e10-seed2.json" in files
    assert "dtfixup report --data spider" in how_to_read


def test_the_models_of_every_budget_are_found_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    for model, classes in zip(error_cells(Setup(Budget.SMOKE)), ((B, S), (B, None), (None, None)), strict=True):
        config = model.config
        assert isinstance(config, SqlSpConfig)
        write_run(folder, replace(config, encoder="random-bert"), classes)
    _, text = build_report(folder, tmp_path / "smoke", budget=Budget.SMOKE, encoder="random-bert")
    assert "| all | 306 | **2**<br>random-bert · seed 1 · 1 epoch | 283 | **1**" in text.read_text(encoding="utf-8")
    assert "(#spider-errors): Table 7, Figures 3 and 4, 3 of 3 runs\n" in text.read_text(encoding="utf-8")
    _, text = build_report(folder, tmp_path / "gpu")
    assert "| all | 306 | not analysed yet | 283 | not analysed yet |" in text.read_text(encoding="utf-8")


def test_a_file_that_does_not_say_its_run_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, sql_config(), (C,))
    path = next(tmp_path.glob("*.json"))
    path.write_text(path.read_text().replace('"strategy"', '"strategies"'))
    with pytest.raises(DataError, match=r"seed1\.json does not name its run: .*strategies"):
        texts_of(tmp_path)


def report_of(folder: Path, dataset: Dataset, beams: Path | None) -> tuple[str, str]:
    """The report as Markdown, and the page of errors."""
    page, text = build_report(folder / "results", folder / "report", dataset=dataset, beams=beams, experiments={})
    return text.read_text(encoding="utf-8"), page.with_name("errors.md").read_text(encoding="utf-8")


def write_deep(folder: Path) -> None:
    """Errors and beams of a run of table 7's deep model."""
    runs = folder / "runs" / "deep"
    runs.mkdir(parents=True)
    queries = [[Prediction(query, -1.0)] for query in ("SELECT genre FROM film", f"SELECT '{HOSTILE}'", GOLD, GOLD)]
    beams = write_beams(runs / "beams.jsonl", range(4), queries)
    deep = error_cells(Setup(Budget.GPU))[-1].config
    assert isinstance(deep, SqlSpConfig)
    write_run(folder / "results", deep, (C, S, None, None), beams=beams)


def test_errors_can_be_read_only_with_data_and_beams(tmp_path: Path, dataset: Dataset) -> None:
    write_deep(tmp_path)
    for beams in (None, tmp_path / "data"):
        _, errors = report_of(tmp_path, dataset, beams)
        assert "What titles" not in errors
        assert "No beams.jsonl matches errors-dt-fixup-n24-e16-seed1.json" in errors
    report, errors = report_of(tmp_path, dataset, tmp_path / "runs")
    assert (
        "### column (1)\n\n- What titles? (film\\_festival, easy)\n"
        f"  - gold: `{GOLD}`\n  - predicted: `SELECT genre FROM film`" in errors
    )
    assert "### sketch (1)\n\n- Which films? &lt;img src=x onerror=harm()&gt; (" in errors
    assert f"  - predicted: `SELECT '{HOSTILE}'`" in errors
    assert "(errors.html)" in report
    assert "What titles" not in report, "text of the dataset is in no file that may be published"
    build_report(tmp_path / "results", tmp_path / "public", experiments={})
    assert not (tmp_path / "public" / "errors.html").exists()


def test_other_runs_than_those_of_table_7_are_there_to_read(tmp_path: Path, dataset: Dataset) -> None:
    results, wrong = tmp_path / "results", (None, None, B, None)
    of_the_table, other = sql_config("dt-fixup", 24), replace(sql_config("dt-fixup", 24), splits="train,train_others")
    for number, config in enumerate((other, of_the_table), 1):
        queries = [[Prediction(f"SELECT {number}", -1.0)]] * len(wrong)
        beams = write_beams(tmp_path / f"{number}-beams.jsonl", range(len(wrong)), queries)
        write_run(results, config, wrong, seed=number, beams=beams)
    write_run(results, sql_config("standard", 8), wrong, seed=TUNED)
    files = read_results(results)
    models = results_of([cell(sql_config(strategy, layers)) for strategy, layers in MODELS], files)
    errors = examples_page(analysed(files), models, dataset, tmp_path)
    assert re.findall(r"^## .*</a>(.*)$|predicted: (.*)$", errors, re.MULTILINE) == [
        ("DT-Fixup, N = 24 (1 error)", ""), ("", "`SELECT 2`"),
        ("errors-dt-fixup-n24-e16-seed1 (1 error)", ""), ("", "`SELECT 1`"),
    ]  # fmt: skip
    assert "No beams.jsonl matches errors-standard-n8-e16-seed5.json: give" in errors
    runs = list(rows_of(texts_of(results)[2]))
    assert runs[1] == "DT-Fixup, N = 24|minilm · seed 1 · 16 epochs · train and train_others · made-up examples"
    assert runs[-1] == "standard, N = 8|minilm · seed 5 · fine-tuned for 16 epochs · made-up examples"
