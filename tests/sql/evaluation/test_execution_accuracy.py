"""Verdicts on a database and its variants, and a run over many pairs in worker processes."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dtfixup.errors import DataError, GuardError
from dtfixup.processes import Lost
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation import execution_accuracy
from dtfixup.sql.evaluation.execution_accuracy import (
    ExecutionOutcome,
    ExecutionVerdict,
    Pair,
    evaluate_execution,
    execution_verdict,
    show_execution,
    summarise_execution,
)
from dtfixup.sql.execution.guarded import check_statement


def _database(path: Path, *rows: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE item (item_id INT, label TEXT, price REAL)")
        for row in rows:
            connection.execute(f"INSERT INTO item VALUES ({row})")
        connection.commit()
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return _database(tmp_path / "shop.sqlite", "1, 'pen', 2.5", "2, 'cup', 4")


_GOLD = "SELECT label FROM item WHERE price > 3"


_LABELS = "SELECT label FROM item"
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.mark.parametrize(
    ("gold", "predicted", "outcome", "reason"),
    [
        (_GOLD, f"{_LABELS} WHERE item_id = 2", "equal", ""),
        (_GOLD, _LABELS, "different", "1 × 1 result expected, got 2 × 1"),
        (_GOLD, f"{_LABELS} WHERE price < 3", "different", "other values in the 1 × 1 result"),
        (
            f"{_LABELS} ORDER BY price",
            f"{_LABELS} ORDER BY price DESC",
            "different",
            "other values in the 2 × 1 result",
        ),
        (_LABELS, f"{_LABELS} ORDER BY price DESC", "equal", ""),
        (_GOLD, "SELECT colour FROM item", "prediction failed", "no such column: colour"),
        (_GOLD, "", "prediction failed", "empty"),
        (_GOLD, "DELETE FROM item", "prediction failed", "refused"),
        (_GOLD, _ENDLESS, "prediction failed", "stopped after 1 s"),
        ("SELECT colour FROM item", _GOLD, "gold failed", "no such column: colour"),
    ],
)
def test_a_verdict_on_one_database(gold: str, predicted: str, outcome: str, reason: str, shop: Path) -> None:
    verdict = execution_verdict(gold, predicted, shop, deadline=1.0)
    assert verdict.outcome == outcome
    assert reason in verdict.reason
    assert bool(verdict.reason) == bool(reason)
    assert len(verdict.gold_rows) == (outcome != "gold failed")


def test_a_result_that_is_cut_proves_nothing(shop: Path) -> None:
    verdict = execution_verdict("SELECT 'pen'", _LABELS, shop, max_rows=1)
    assert verdict.reason == "1 × 1 result expected, got more than 1 × 1"
    many = execution_verdict(_LABELS, _LABELS, shop, max_rows=1)
    assert many == ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, "the gold query gives more than 1 rows", ())


def test_what_the_database_can_read_is_not_refused_for_its_text(shop: Path) -> None:
    text = f"{_LABELS} WHERE price > CAST(3 AS UNSIGNED BIG INT)"
    with pytest.raises(GuardError):
        check_statement(text, Dialect.SQLITE)
    assert execution_verdict(_GOLD, text, shop).outcome is ExecutionOutcome.EQUAL


def test_a_variant_finds_differences_that_the_database_does_not(shop: Path, tmp_path: Path) -> None:
    variant = _database(tmp_path / "variant_0.sqlite", "2, 'cap', 1", "3, 'jar', 9")
    verdict = execution_verdict(_GOLD, f"{_LABELS} WHERE item_id = 2", shop, [variant])
    reason = "other values in the 1 × 1 result on variant_0.sqlite"
    assert verdict == ExecutionVerdict(ExecutionOutcome.DIFFERENT, reason, (1, 1))


@pytest.fixture(scope="module")
def sample() -> Dataset:
    return open_dataset(sample_folder())


def _gold_pairs(dataset: Dataset, *splits: str) -> list[Pair]:
    examples = [example for split in splits for example in dataset.split(split)]
    return [Pair(example.database, example.query, example.query) for example in examples]


def test_gold_against_gold_on_the_sample(sample: Dataset) -> None:
    pairs = _gold_pairs(sample, "train", "dev")
    summary = summarise_execution(evaluate_execution(pairs, sample, variants=2, workers=2, show_progress=False))
    assert summary.accuracy == 1
    assert summary.judged == len(pairs)
    assert summary.evident >= 0.98 * len(pairs)


def test_wrong_and_broken_predictions(sample: Dataset) -> None:
    golds = _gold_pairs(sample, "dev")[:12]
    gold = golds[0]
    wrong = [(gold.gold, "SELECT 4711, 'x', 4711"), (gold.gold, "SELECT"), ("SELECT nothing", gold.gold)]
    pairs = [*golds, *(Pair(gold.database, wanted, found) for wanted, found in wrong)]
    runs = [evaluate_execution(pairs, sample, variants=1, workers=count, show_progress=False) for count in (1, 2)]
    assert runs[0] == runs[1], "the number of workers does not matter"
    outcomes = [str(verdict.outcome) for verdict in runs[0]]
    assert outcomes == ["equal"] * 12 + ["different", "prediction failed", "gold failed"]


def test_a_lost_worker_is_reported_and_not_counted(sample: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_the_second(_: Any, tasks: Any, **__: Any) -> Iterator[tuple[int, Any]]:
        yield 1, Lost("its worker process ended with exit code -9")
        yield 0, ExecutionVerdict(ExecutionOutcome.EQUAL, "", (3,))

    monkeypatch.setattr(execution_accuracy, "run_supervised", lose_the_second)
    verdicts = evaluate_execution(_gold_pairs(sample, "dev")[:2], sample, show_progress=False)
    summary = summarise_execution(verdicts)
    assert verdicts[1] == ExecutionVerdict(ExecutionOutcome.LOST, "its worker process ended with exit code -9")
    assert (summary.judged, summary.accuracy) == (1, 1.0)
    assert summary.unjudged == ((1, "lost: its worker process ended with exit code -9"),)


def test_a_missing_database_is_an_error(sample: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        evaluate_execution(_gold_pairs(sample, "dev")[:1], Dataset(tmp_path, sample.schemas), show_progress=False)


def test_summary_and_table() -> None:
    verdicts = [
        ExecutionVerdict(ExecutionOutcome.EQUAL, "", (0, 2)),
        ExecutionVerdict(ExecutionOutcome.EQUAL, "", (0, 0)),
        ExecutionVerdict(ExecutionOutcome.DIFFERENT, "x", (1,)),
        ExecutionVerdict(ExecutionOutcome.PREDICTION_FAILED, "y", (1,)),
        ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, "no such [table]"),
    ]
    summary = summarise_execution(verdicts)
    assert summary.to_json() == {
        "execution_accuracy": 0.5,
        "judged": 4,
        "outcomes": {"equal": 2, "different": 1, "prediction failed": 1, "gold failed": 1, "lost": 0},
        "equal_with_rows": 1,
        "unjudged": [{"position": 4, "reason": "gold failed: no such [table]"}],
    }
    assert summarise_execution([]).accuracy == 0
    console = Console(file=StringIO(), width=100)
    show_execution(summary, console)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["equal", "2"] in rows
    assert ["accuracy", "50.0"] in rows
    assert "pair 5 is not judged: gold failed: no such [table]" in text


def test_gold_against_gold_on_spider(spider_folder: Path) -> None:
    dataset = open_dataset(spider_folder)
    verdicts = evaluate_execution(_gold_pairs(dataset, "dev"), dataset, workers=2, deadline=60, show_progress=False)
    assert Counter(verdict.outcome for verdict in verdicts) == {ExecutionOutcome.EQUAL: 1034}
    assert sum(verdict.gold_rows[0] > 0 for verdict in verdicts) == 923
    assert sum(verdict.is_evident for verdict in verdicts) >= 1025
