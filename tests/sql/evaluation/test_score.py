"""Scoring a run afterwards: metrics by level, picked queries, files that do not belong together."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dtfixup.cli.predictions import score as score_verb
from dtfixup.errors import DataError
from dtfixup.files import read_json
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation import score as sql_score
from dtfixup.sql.evaluation.execution_accuracy import ExecutionOutcome, ExecutionVerdict, Pair
from dtfixup.sql.evaluation.score import RunScore, read_beams, score_run, show_score
from dtfixup.sql.model.predictions import Prediction, write_beams
from tests.sql.sample_questions import ask_the_sample

BROKEN = "SELECT nothing FROM nowhere"
CHOSEN = (0, 1, 2, 3, 4, 5, 20, 40)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """A few questions of the bundled sample."""
    return ask_the_sample(tmp_path / "data", dev=CHOSEN)


def write_run(folder: Path, dataset: Dataset, beams: list[list[str]], **metrics: float) -> tuple[Path, Path]:
    """A result file and its beams; exact match is what the likeliest queries come to, unless it is given."""
    examples = dataset.split("dev")
    judged = [each[0] for each in sql_score.judge_beams(examples, beams, dataset)]
    exact = {"dev_exact": round(100 * sum(verdict.exact for verdict in judged) / len(judged), 2)}
    for level in {verdict.hardness for verdict in judged}:
        hits = [verdict.exact for verdict in judged if verdict.hardness is level]
        exact[f"dev_exact_{level}"] = round(100 * sum(hits) / len(hits), 2)
    result = folder / "result.json"
    content = {"name": "x", "seed": 3, "metrics": {**exact, "step_ms": 7.5, **metrics}, "curve": [{"epoch": 1}]}
    result.write_text(json.dumps(content))
    scored = [[Prediction(query, -float(place)) for place, query in enumerate(beam)] for beam in beams]
    path = write_beams(folder / "beams.jsonl", range(500, 500 + len(beams)), scored)
    return result, path


def test_a_result_file_is_completed(tmp_path: Path, dataset: Dataset) -> None:
    gold = [example.query for example in dataset.split("dev")]
    beams = [[query] for query in gold]
    beams[0] = [BROKEN, gold[0]]  # rescued by picking
    beams[1] = [BROKEN, "SELECT 'another'", gold[1]]  # picked, but wrong; the beam has it
    beams[2] = []
    result, path = write_run(tmp_path, dataset, beams)
    before = read_json(result)
    score = score_run(result, path, dataset, variants=1)
    after = read_json(result)
    assert {**after, "metrics": None, "scoring": None} == {**before, "metrics": None, "scoring": None}
    assert (after["scoring"]["variants"], after["scoring"]["unjudged"]) == (1, 0)
    assert after["metrics"] == {**before["metrics"], **score.metrics}
    expected = {
        "dev_exact": 62.5,
        "dev_execution": 62.5,
        "dev_exact_executable": 75.0,
        "dev_execution_executable": 75.0,
        "dev_exact_beam": 87.5,
    }
    assert {name: after["metrics"][name] for name in expected} == expected
    for kind in ("exact", "execution"):
        for suffix in ("", "_executable"):
            levels = {
                name: level.count * after["metrics"][f"dev_{kind}_{name}{suffix}"] / 100
                for name, level in score.levels.items()
                if name != "all" and level.count
            }
            assert sum(levels.values()) == pytest.approx(8 * after["metrics"][f"dev_{kind}{suffix}"] / 100, abs=0.01)
    assert sum(level.count for level in score.levels.values()) == 16
    again = score_run(result, path, dataset, variants=1)
    assert again == score
    assert read_json(result) == after


def test_exact_and_execution_are_counted_apart_and_nothing_runs_twice(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[Pair] = []

    def judged(pairs: list[Pair], *rest: Any, **options: Any) -> list[ExecutionVerdict]:
        run.extend(pairs)
        return [
            ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, "no such table")
            if position == 5
            else ExecutionVerdict(ExecutionOutcome.EQUAL if pair.predicted == pair.gold else ExecutionOutcome.DIFFERENT)
            for position, pair in enumerate(pairs)
        ]

    monkeypatch.setattr(sql_score, "evaluate_execution", judged)
    gold = [example.query for example in dataset.split("dev")]
    beams = [[f"{query} "] for query in gold]  # exact, but not equal to the stand-in for execution
    beams[3] = [BROKEN, gold[3]]
    result, path = write_run(tmp_path, dataset, beams)
    score = score_run(result, path, dataset)
    assert [pair.predicted for pair in run] == [beam[0] for beam in beams] + [gold[3]]
    assert score.unjudged == ((5, "gold failed: no such table"),)
    assert (score.metrics["dev_exact"], score.metrics["dev_execution"]) == (87.5, 0.0)
    assert score.metrics["dev_exact_executable"] == 100
    assert score.metrics["dev_execution_executable"] == pytest.approx(100 / 7, abs=0.01), "7 of 8 are judged"


@pytest.mark.parametrize("metric", ["dev_exact", "dev_exact_easy"])
def test_files_that_do_not_belong_together_are_refused(metric: str, tmp_path: Path, dataset: Dataset) -> None:
    gold = [[example.query] for example in dataset.split("dev")]
    result, path = write_run(tmp_path, dataset, gold, **{metric: 99.98})
    before = result.read_bytes()
    with pytest.raises(DataError, match=rf"do not belong together.*{metric} is 99\.98 .* give 100\.00"):
        score_run(result, path, dataset)
    assert result.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is not a result file"),
        ({"metrics": {"held_out_exact": 70.0}}, "has no dev_exact: the run was evaluated on held_out"),
        ({"metrics": {"step_ms": 7.0}}, "evaluated on nothing"),
    ],
)
def test_a_result_without_the_split_is_refused(content: Any, message: str, tmp_path: Path, dataset: Dataset) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        score_run(result, tmp_path / "beams.jsonl", dataset)


def test_beams_are_read_in_the_order_of_the_split(tmp_path: Path) -> None:
    path = tmp_path / "beams.jsonl"
    write_beams(path, [7, 8], [[Prediction("SELECT '\u2028'", -1.0), Prediction("b", -2.0)], []])
    assert read_beams(path, 2) == [["SELECT '\u2028'", "b"], []]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "queries of 0 examples, and the split has 2"),
        ('{"example": 1, "beam": []}\n', "queries of 1 examples, and the split has 2"),
        ('{"example": 1, "beam": []}\n{"example": 3, "beam": []}\n', "line 2 is example 3, expected 2"),
        ('{"example": 1, "beam": []}\n{"example": 2}\n', "line 2 is not a beam"),
        ('{"example": 1, "beam": []}\n{"example": 2, "beam": ["SELECT 1"]}\n', "line 2 is not a beam"),
        ('{"example": 1, "beam": []}\nSELECT 1\n', "line 2 is not a beam"),
        ('{"example": 1, "beam": []}\n[1]\n', "line 2 is not a beam"),
    ],
)
def test_beams_of_something_else_are_refused(lines: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "beams.jsonl"
    path.write_text(lines)
    with pytest.raises(DataError, match=message):
        read_beams(path, 2)
    with pytest.raises(DataError, match="cannot be read"):
        read_beams(tmp_path / "none.jsonl", 2)


def test_the_table_on_screen(tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [ExecutionVerdict(ExecutionOutcome.EQUAL)] * 7 + [ExecutionVerdict(ExecutionOutcome.LOST, "[gone]")]
    monkeypatch.setattr(sql_score, "evaluate_execution", lambda *a, **k: outcomes)
    console = Console(file=StringIO(), width=100)
    monkeypatch.setattr("dtfixup.cli.predictions._console", console)
    gold = [[example.query] for example in dataset.split("dev")]
    gold[0] = ["SELECT 1"]
    score_verb(*write_run(tmp_path, dataset, gold), dataset.folder)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["all", "8", "87.5", "100.0", "87.5", "100.0"] in rows
    assert [row[0] for row in rows if row] == ["easy", "medium", "hard", "extra", "all"]
    assert "question 8 is not judged by execution: lost: [gone]" in shown
    assert "completed:" in shown


def test_a_level_without_questions_has_no_metric() -> None:
    empty = sql_score.summarise_scores([], "dev")
    assert isinstance(empty, RunScore)
    assert empty.metrics == {}
    console = Console(file=StringIO(), width=100)
    show_score(empty, console)
    assert isinstance(console.file, StringIO)
    assert "-" in console.file.getvalue()
