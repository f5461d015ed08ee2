"""The error analysis of runs: classes, files, Table 7 and Figures 3 and 4, examples to read."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from dtfixup_paper.report.errors import analysed
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.spider_errors import (
    ErrorClass,
    RunErrors,
    Wrong,
    analyse_run,
    breakdown,
    failures,
    read_errors,
    run_of,
    show_errors,
    write_errors,
    wrong_examples,
)
from rich.console import Console

from dtfixup.cli.main import main
from dtfixup.errors import CheckpointError, DataError
from dtfixup.files import read_json
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.model.predictions import Prediction, write_beams
from dtfixup.weights.tensors import write_tensors
from tests.sql.sample_questions import ask_the_sample

F, C, S, B = ErrorClass
YOUNG = "SELECT title FROM film WHERE director_id IN (SELECT director_id FROM director WHERE birth_year > 1990)"
PAIRS: tuple[tuple[str, str, ErrorClass | None], ...] = (
    ("SELECT count(*) FROM film", "SELECT count(*) FROM film", None),
    ("SELECT max(runtime) FROM film", "SELECT runtime FROM film ORDER BY runtime DESC LIMIT 1", F),
    # Every film of the database is longer than half an hour; those of the variants are not.
    ("SELECT title FROM film WHERE runtime > 30", "SELECT title FROM film", S),
    ("SELECT title FROM film ORDER BY runtime ASC", "SELECT title FROM film ORDER BY budget ASC", C),
    ("SELECT title FROM film ORDER BY runtime DESC", "SELECT title FROM film ORDER BY budget ASC", B),
    # Both are empty whatever the rows, so nothing shows that they are equal.
    (
        "SELECT title FROM film WHERE genre = 'a' AND genre = 'b'",
        "SELECT title FROM film WHERE genre = 'c' AND genre = 'd' AND runtime > 1",
        S,
    ),
    # Exact match is strict about DISTINCT in a nested query, and does not see that the literal is wrong.
    (YOUNG, YOUNG.replace("SELECT d", "SELECT DISTINCT d").replace("1990", "1900"), F),
    ("SELECT title FROM film WHERE count(*) > 1", "SELECT genre FROM film WHERE count(*) > 1", C),  # SQLite refuses it
    ("SELECT name FROM juror", "", B),
)
EXPECTED = tuple(kind for _, _, kind in PAIRS)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Questions of our own over a bundled database."""
    rows = [
        {"db_id": "film_festival", "question": f"What of {number}?", "query": gold}
        for number, (gold, _, _) in enumerate(PAIRS)
    ]
    return ask_the_sample(tmp_path / "data", dev=rows)


def write_run(folder: Path, exact: float = 100 / len(PAIRS)) -> tuple[Path, Path]:
    """A result file and its beams."""
    metrics = {"dev_exact": round(exact, 2), "dev_exact_easy": 14.29, "dev_exact_medium": 0.0, "dev_exact_hard": 0.0}
    content = {"name": "x", "seed": 3, "config": {"beam": 2}, "metrics": metrics, "curve": []}
    result = folder / "result.json"
    result.write_text(json.dumps(content))
    scored = [[Prediction(query, -1.0), Prediction("SELECT 1", -2.0)] if query else [] for _, query, _ in PAIRS]
    return result, write_beams(folder / "beams.jsonl", range(len(PAIRS)), scored)


def analyse(folder: Path, dataset: Dataset, variants: int = 4) -> RunErrors:
    return analyse_run(*write_run(folder), dataset, variants=variants, workers=1, show_progress=False)


def test_every_error_gets_its_class(tmp_path: Path, dataset: Dataset) -> None:
    errors = analyse(tmp_path, dataset)
    assert errors.classes == EXPECTED
    assert errors.levels[:2] == (Hardness.EASY, Hardness.EASY)
    assert errors.levels[6] is Hardness.HARD
    assert errors.count() == {F: 2, C: 2, S: 2, B: 2}
    assert errors.count(Hardness.HARD) == {F: 1, C: 0, S: 0, B: 0}
    assert errors.unjudged == (7,)
    assert errors.run == {"name": "x", "seed": 3, "config": {"beam": 2}}
    order = {F: 1, C: 1, S: 0, B: 1}
    assert (errors.clauses[Clause.ORDER], errors.clauses[Clause.LIMIT]) == (order, {F: 1, C: 0, S: 0, B: 0})
    assert errors.clauses[Clause.HAVING] == dict.fromkeys(ErrorClass, 0)


def test_equal_rows_of_the_database_alone_may_be_luck(tmp_path: Path, dataset: Dataset) -> None:
    changed = analyse(tmp_path, dataset, variants=0).classes
    assert changed == (*EXPECTED[:2], F, *EXPECTED[3:])


def test_a_file_of_errors_holds_no_text_of_the_dataset(tmp_path: Path, dataset: Dataset) -> None:
    errors = analyse(tmp_path, dataset)
    path = write_errors(tmp_path / "errors.json", errors, "dtfixup sql errors", 0.0)
    assert read_errors(path) == errors
    content = read_json(path)
    assert content["counts"]["all"] == {"false negative": 2, "column": 2, "sketch": 2, "both": 2, "all": 8}
    assert (content["classes"], content["name"]) == (".FSCBSFCB", "spider-errors")
    text = path.read_text().lower()
    assert not [word for word in ("film", "runtime", "from", "what", "1990") if word in text]


@pytest.mark.parametrize(
    "change", [{"classes": "FF"}, {"hardness": "EEQ"}, {"classes": "F?C"}, {"clauses": {"from": {}}}, {"run": None}]
)
def test_a_file_of_something_else_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    errors = RunErrors("dev", 4, {}, "", (Hardness.EASY,) * 3, (F, None, C), {})
    path = write_errors(tmp_path / "errors.json", errors, "", 0.0)
    assert read_errors(path) == errors
    path.write_text(json.dumps({**read_json(path), **change}))
    with pytest.raises(DataError, match="is no file of errors"):
        read_errors(path)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    result, beams = write_run(tmp_path, exact=50.0)
    with pytest.raises(DataError, match=r"do not belong together.*dev_exact is 50\.0 .* give 11\.11"):
        analyse_run(result, beams, dataset, show_progress=False)
    for content, message in (([], "it has no metrics"), ({"metrics": {"held_out_exact": 7.0}}, "has no dev_exact")):
        result.write_text(json.dumps(content))
        with pytest.raises(DataError, match=message):
            analyse_run(result, beams, dataset, show_progress=False)


def test_examples_to_read(tmp_path: Path, dataset: Dataset) -> None:
    errors = analyse(tmp_path, dataset)
    beams = tmp_path / "beams.jsonl"
    found = wrong_examples(errors, beams, dataset)
    assert [example.position for example in found] == list(range(1, len(PAIRS)))
    assert [(example.gold, example.predicted, example.kind) for example in found] == list(PAIRS[1:])
    first = found[0]
    assert (first.database, first.question, first.hardness) == ("film_festival", "What of 1?", Hardness.EASY)
    assert first.clauses == (Clause.SELECT, Clause.ORDER, Clause.LIMIT)
    with pytest.raises(DataError, match="the errors are of 8"):
        wrong_examples(replace(errors, classes=errors.classes[1:]), beams, dataset)
    beams.write_text(beams.read_text() + "\n")
    with pytest.raises(DataError, match="is not the file that the errors were found in"):
        wrong_examples(errors, beams, dataset)


def made(classes: str, levels: str = "easy easy hard extra extra") -> RunErrors:
    """Errors by their letters."""
    kinds = {kind.letter: kind for kind in ErrorClass}
    return RunErrors(
        "dev", 10, {}, "", tuple(map(Hardness, levels.split())), tuple(kinds.get(letter) for letter in classes), {}
    )


MODELS = {"baseline": made("FCSBB"), "shallow": made("FFSCB"), "deep": made("..FSC")}


def test_the_table_of_failures() -> None:
    assert failures(MODELS) == {
        "baseline": {"false negative": 1, "column": 1, "sketch": 1, "both": 2, "all": 5},
        "shallow": {"false negative": 2, "column": 1, "sketch": 1, "both": 1, "all": 5},
        "deep": {"false negative": 1, "column": 1, "sketch": 1, "both": 0, "all": 3},
    }


def test_the_figures_leave_false_negatives_out() -> None:
    both = breakdown(MODELS, Wrong.ALL)  # the last two questions
    assert both.questions == 2
    assert both.column == {"baseline": 100, "shallow": 100, "deep": 50}
    assert both.sketch == {"baseline": 100, "shallow": 50, "deep": 50}
    any_of_them = breakdown(MODELS, Wrong.ANY)  # all but the first
    assert any_of_them.questions == 4
    assert any_of_them.column == {"baseline": 75, "shallow": 50, "deep": 25}
    assert any_of_them.sketch == {"baseline": 75, "shallow": 50, "deep": 25}


def test_figures_without_errors_and_of_different_questions() -> None:
    assert breakdown({"one": made("F....")}, Wrong.ANY).column == {}
    with pytest.raises(DataError, match=r"one, two are not of the same questions"):
        breakdown({"one": made("F...."), "two": made("F....", "easy easy hard extra hard")}, Wrong.ANY)


def test_the_verb_writes_the_file_and_shows_the_tables(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=StringIO(), width=100)
    monkeypatch.setattr("dtfixup_paper.cli_spider._console", console)
    result, beams = write_run(tmp_path)
    out = tmp_path / "errors.json"
    options = {"result": result, "beams": beams, "data": dataset.folder, "out": out, "variants": 4}
    main(["sql", "errors", *(word for name, value in options.items() for word in (f"--{name}", str(value)))])
    assert read_errors(out).classes == EXPECTED
    assert read_json(out)["command"] == (
        "dtfixup sql errors --result result.json --beams beams.jsonl --data DIR --out errors.json --split dev "
        "--variants 4"
    )
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["all", "6", "1", "1", "0", "8"] in rows
    assert ["limit", "1", "0", "0", "0"] in rows
    assert "no false negatives: questions 8" in shown


def test_without_a_result_the_shipped_model_answers(tmp_path: Path) -> None:
    dataset, out = ask_the_sample(tmp_path / "data", dev=range(3)), tmp_path / "results" / "errors.json"
    beams = tmp_path / "beams.jsonl"
    main(["sql", "errors", "--beams", str(beams), "--data", str(dataset.folder), "--out", str(out), "--variants", "1"])
    (found,) = analysed(read_results(out.parent))
    assert (found.errors.run["name"], len(found.errors.classes)) == ("sql-sp-minilm", 3)
    assert (found.config.model.layers, found.config.splits, found.seed) == (24, "train,train_others", 1)
    wrong = sum(kind is not None for kind in found.errors.classes)
    assert len(wrong_examples(found.errors, beams, dataset)) == wrong < 3, "a model, not noise"


def test_a_model_that_does_not_say_how_it_was_trained_is_refused(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "odd.safetensors", {"x": torch.zeros(1)}, {"fingerprint": {"encoder": "minilm"}})
    with pytest.raises(CheckpointError, match=r"odd\.safetensors does not say how it was trained: give the queries"):
        run_of(path, beam=5)


def test_nothing_is_said_of_questions_that_could_be_run() -> None:
    console = Console(file=StringIO(), width=100)
    show_errors(MODELS["deep"], console)
    assert isinstance(console.file, StringIO)
    assert "could not be run" not in console.file.getvalue()
