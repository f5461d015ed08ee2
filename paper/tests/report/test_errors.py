"""The error analysis in the report: which runs it is over, what it shows, and texts only where they are at hand."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from dtfixup_paper.report.cells import results_of
from dtfixup_paper.report.document import Block, Browser, Picture, Table
from dtfixup_paper.report.errors import error_blocks
from dtfixup_paper.report.page import build_report
from dtfixup_paper.tables.cells import Budget, Plan
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.spider_depth import error_cells
from dtfixup_paper.tables.spider_errors import ErrorClass, RunErrors, write_errors
from playwright.sync_api import Browser as PageBrowser

from dtfixup.errors import DataError
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.predictions import Prediction, write_beams
from dtfixup.training.config import to_json
from paper.tests.made_up_results import cell, sql_config
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
    digest = hashlib.sha256(beams.read_bytes()).hexdigest() if beams else ""
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


def blocks_of(folder: Path, dataset: Dataset | None = None, beams: Path | None = None) -> list[Block]:
    """Of runs with the configurations of `write_three`."""
    models = [cell(sql_config(strategy, layers)) for strategy, layers in MODELS]
    results = read_results(folder)
    return error_blocks(results, results_of(models, results), Budget.GPU, dataset, beams)[0]


def numbers(table: Table) -> dict[str, list[str]]:
    return {row[0].text: [entry.text for entry in row[1:]] for row in table.rows}


def only(blocks: Sequence[object], kind: type) -> list[object]:
    return [block for block in blocks if isinstance(block, kind)]


def test_table_7_stands_beside_the_papers_and_follows_the_files(tmp_path: Path) -> None:
    write_three(tmp_path)
    blocks = blocks_of(tmp_path)
    table = blocks[0]
    assert isinstance(table, Table)
    assert numbers(table) == {
        "false negative": ["39", "1", "35", "0", "42", "1"],
        "column": ["51", "0", "60", "1", "53", "1"],
        "sketch": ["92", "1", "83", "1", "77", "0"],
        "both": ["124", "2", "105", "1", "88", "0"],
        "all": ["306", "4", "283", "3", "260", "2"],
    }
    assert "on 7 random variants" in table.caption
    write_run(tmp_path, sql_config("dt-fixup", 24), (C, S, S, F))
    table = blocks_of(tmp_path)[0]
    assert isinstance(table, Table)
    assert numbers(table)["sketch"][-1] == "2"


def test_figures_3_and_4_leave_false_negatives_out(tmp_path: Path) -> None:
    write_three(tmp_path)
    (picture,) = only(blocks_of(tmp_path), Picture)
    assert isinstance(picture, Picture)
    # All three are wrong in the first example alone, some in all four; the last counts for the second model alone.
    assert "of the 1 questions that all three models get wrong (the paper: 190) and the 4 that any" in picture.caption
    column = "50 % (standard, N = 4), 50 % (DT-Fixup, N = 4), 25 % (DT-Fixup, N = 24)"
    assert f"wrong in any model (4), column error: {column}" in picture.label
    sketch = "75 % (standard, N = 4), 50 % (DT-Fixup, N = 4), 0 % (DT-Fixup, N = 24)"
    assert f"wrong in any model (4), sketch error: {sketch}" in picture.label


def test_the_three_are_those_of_the_budget_and_the_encoder(tmp_path: Path) -> None:
    for odd in (sql_config("dt-fixup", 24, epochs=10), sql_config("dt-fixup", 4, encoder="mpnet")):
        write_run(tmp_path, odd, (C, C, C, C), seed=2)
    table, note, runs, *_ = blocks_of(tmp_path)
    assert isinstance(table, Table)
    assert numbers(table)["all"] == ["306", "not analysed yet", "283", "not analysed yet", "260", "not analysed yet"]
    assert "over all three models; standard, N = 4, DT-Fixup, N = 4, DT-Fixup, N = 24: not analysed yet." in str(note)
    assert isinstance(runs, Table)
    assert [row[0].note for row in runs.rows] == [
        "minilm · seed 2 · 10 epochs · made-up examples",
        "mpnet · seed 2 · 16 epochs · made-up examples",
    ]
    for path in tmp_path.glob("*.json"):
        path.unlink()
    write_run(tmp_path, sql_config("dt-fixup", 24, epochs=10), (C, C, C, C), seed=2)
    write_run(tmp_path, sql_config("dt-fixup", 24), (C, C, C, C), seed=1)
    table = blocks_of(tmp_path)[0]
    assert isinstance(table, Table)
    assert numbers(table)["all"][1::2] == ["not analysed yet", "not analysed yet", "4"]
    write_run(tmp_path, sql_config("standard", 4), (B, B, B, None), seed=3)
    table = blocks_of(tmp_path)[0]
    assert isinstance(table, Table)
    assert numbers(table)["all"][1::2] == ["3", "not analysed yet", "4"], "of another seed rather than none"
    write_three(tmp_path, seed=2)
    table, *_, runs, clauses, files, _, how_to_read = blocks_of(tmp_path)
    assert isinstance(table, Table)
    assert numbers(table)["all"] == ["306", "4", "283", "3", "260", "2"], "of the seed that all three have"
    assert "Ours: encoder minilm (22.7M parameters), budget gpu, 16 epochs, batch 32" in table.caption
    assert isinstance(runs, Table)
    assert len(runs.rows) == 6
    assert isinstance(clauses, Table)
    assert numbers(clauses)["select"] == ["4", "4", "4"]
    assert "errors-dt-fixup-n24-e10-seed2.json" in str(files)
    assert "dtfixup report --data spider" in str(how_to_read)


def test_the_models_of_every_budget_are_found_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    for model, classes in zip(error_cells(Plan(Budget.SMOKE)), ((B, S), (B, None), (None, None)), strict=True):
        config = model.config
        assert isinstance(config, SqlSpConfig)
        write_run(folder, replace(config, encoder="random-bert"), classes)
    _, text = build_report(folder, tmp_path / "smoke", budget=Budget.SMOKE, encoder="random-bert")
    assert "| all | 306 | **2**<br>random-bert · seed 1 · 1 epoch | 283 | **1**" in text.read_text(encoding="utf-8")
    assert "(Table 7, Figures 3 and 4)\n\n3 of 3 runs are there." in text.read_text(encoding="utf-8")
    _, text = build_report(folder, tmp_path / "gpu")
    assert "| all | 306 | not analysed yet | 283 | not analysed yet |" in text.read_text(encoding="utf-8")


def test_a_file_that_does_not_say_its_run_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, sql_config(), (C,))
    path = next(tmp_path.glob("*.json"))
    path.write_text(path.read_text().replace('"strategy"', '"strategies"'))
    with pytest.raises(DataError, match=r"seed1\.json does not say of which run it is: .*strategies"):
        blocks_of(tmp_path)


def browse(folder: Path, dataset: Dataset) -> Path:
    """A report with examples to look through."""
    runs = folder / "runs" / "deep"
    runs.mkdir(parents=True)
    queries = [[Prediction(query, -1.0)] for query in ("SELECT genre FROM film", f"SELECT '{HOSTILE}'", GOLD, GOLD)]
    beams = write_beams(runs / "beams.jsonl", range(4), queries)
    deep = error_cells(Plan(Budget.GPU))[-1].config
    assert isinstance(deep, SqlSpConfig)
    write_run(folder / "results", deep, (C, S, None, None), beams=beams)
    page, _ = build_report(
        folder / "results", folder / "report", dataset=dataset, beams=folder / "runs", experiments={}
    )
    return page


def test_examples_are_there_only_with_data_and_beams(tmp_path: Path, dataset: Dataset) -> None:
    browse(tmp_path, dataset)
    results = tmp_path / "results"
    assert not only(blocks_of(results, beams=tmp_path / "runs"), Browser)
    for beams in (None, tmp_path / "data"):
        blocks = blocks_of(results, dataset, beams)
        assert not only(blocks, Browser)
        assert "No beams.jsonl was found for errors-dt-fixup-n24-e16-seed1.json" in str(blocks[-1])
    (browser,) = only(blocks_of(results, dataset, tmp_path / "runs"), Browser)
    assert isinstance(browser, Browser)
    assert [(each.category, each.hardness, each.gold) for each in browser.examples] == [
        ("column", "easy", GOLD),
        ("sketch", "easy", GOLD),
    ]
    assert browser.examples[1].question == f"Which films? {HOSTILE}"
    assert "Which films" not in (tmp_path / "report" / "report.md").read_text()


def test_other_runs_than_those_of_table_7_are_there_to_read(tmp_path: Path, dataset: Dataset) -> None:
    results, wrong = tmp_path / "results", (None, None, B, None)
    of_the_table, other = sql_config("dt-fixup", 24), replace(sql_config("dt-fixup", 24), splits="train,train_others")
    for number, config in enumerate((other, of_the_table), 1):
        queries = [[Prediction(f"SELECT {number}", -1.0)]] * len(wrong)
        beams = write_beams(tmp_path / f"{number}-beams.jsonl", range(len(wrong)), queries)
        write_run(results, config, wrong, seed=number, beams=beams)
    write_run(results, sql_config("standard", 8), wrong, seed=TUNED)
    *_, browser, note = blocks_of(results, dataset, tmp_path)
    assert isinstance(browser, Browser)
    assert [(each.model, each.predicted) for each in browser.examples] == [
        ("DT-Fixup, N = 24", "SELECT 2"),
        ("errors-dt-fixup-n24-e16-seed1", "SELECT 1"),
    ]
    assert "No beams.jsonl was found for errors-standard-n8-e16-seed5.json: give" in str(note)
    *_, runs, _, _, _, _ = blocks_of(results)
    assert isinstance(runs, Table)
    notes = [row[0].note for row in runs.rows]
    assert notes[0] == "minilm · seed 1 · 16 epochs · train and train_others · made-up examples"
    assert notes[-1] == "minilm · seed 5 · fine-tuned for 16 epochs · made-up examples"


SIZES = {"phone": {"width": 390, "height": 844}, "screen": {"width": 1280, "height": 900}}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_in_a_browser(
    browser: PageBrowser, size: str, scheme: Literal["light", "dark"], tmp_path: Path, dataset: Dataset
) -> None:
    page = browser.new_page(viewport=SIZES[size], color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(browse(tmp_path, dataset).as_uri())
    assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth"), "wide tables scroll alone"
    shown = page.locator(".examples details:visible")
    assert (shown.count(), page.locator(".filters output").inner_text()) == (2, "2 of 2")
    page.get_by_label("Error").select_option("sketch")
    assert shown.count() == 1
    shown.first.locator("summary").click()
    assert HOSTILE in shown.first.inner_text()
    page.get_by_label("Words").fill("GENRE")
    assert (shown.count(), page.locator(".filters output").inner_text()) == (0, "0 of 2")
    page.get_by_label("Error").select_option("all")
    assert "SELECT genre FROM film" in str(shown.first.text_content())
    ink, sheet = (
        sum(map(int, re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body).{name}"))[:3]))
        for name in ("color", "backgroundColor")
    )
    assert (ink < sheet) == (scheme == "light")
    assert complaints == []
    page.close()
