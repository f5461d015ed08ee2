"""Answers to held-out pairs, judged by query and by rows."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dtfixup.errors import SchemaError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.execution_accuracy import ExecutionOutcome, ExecutionVerdict
from dtfixup.sql.finetune import pair_scores
from dtfixup.sql.finetune.pair_scores import PairJudge, PairScore, PairScores, is_exact, on_same_pairs
from dtfixup.sql.finetune.pairs import UsablePair
from dtfixup.sql.grammar.reader import SqlReader
from tests.sql.harbour_pairs import make_harbours
from tests.sql.reflected import run_script


@pytest.fixture
def harbours(tmp_path: Path) -> OpenedDatabase:
    return OpenedDatabase(make_harbours(tmp_path / "harbours.sqlite"))


def odd_schema() -> Schema:
    """A schema whose names the script could not read: it knows no quotes, and `T1` would be an alias."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "odd.sqlite"
        run_script(f"sqlite:///{file}", 'CREATE TABLE "my value" (a REAL, b REAL, c REAL, "T1" REAL)')
        return reflect(file)


class Scripted:
    """A parser with given answers."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = iter(answers)

    def ask(self, question: str, database: OpenedDatabase, beam: int) -> SimpleNamespace:
        sql, schema = next(self._answers), database.read().schema
        found = [] if sql is None else [SimpleNamespace(tree=SqlReader(schema).read(sql))]
        return SimpleNamespace(sql=sql, alternatives=found, schema=schema)


def pairs_of(schema: Schema, *queries: str) -> list[UsablePair]:
    reader = SqlReader(schema)
    return [UsablePair(line, f"{line}?", sql, sql, reader.read(sql)) for line, sql in enumerate(queries)]


def scored(database: OpenedDatabase, pairs: list[UsablePair], *answers: str | None) -> PairScores:
    return PairJudge(database, pairs, show_progress=False).score(cast(TextToSql, Scripted(*answers)), "")


def test_rows_and_queries_are_judged_apart(harbours: OpenedDatabase) -> None:
    pairs = pairs_of(
        harbours.read().schema,
        "SELECT name FROM harbour WHERE city = 'Linz'",
        "SELECT count(*) FROM harbour WHERE city = 'Linz'",
        "SELECT name FROM harbour WHERE city = 'Atlantis'",
        "SELECT name FROM harbour WHERE city = 'Graz'",
        "SELECT city FROM harbour WHERE id = 1",
    )
    found = scored(
        harbours,
        pairs,
        "SELECT name FROM harbour WHERE city = 'Linz'",
        "SELECT count(id) FROM harbour WHERE city = 'Linz'",
        "SELECT name FROM harbour WHERE city = 'Nowhere'",
        "SELECT name FROM harbour WHERE city = 'Linz'",
        None,
    )
    assert [score.exact for score in found.pairs] == [True, False, True, True, False], "values do not count"
    assert [score.execution.outcome for score in found.pairs] == [
        ExecutionOutcome.EQUAL,
        ExecutionOutcome.EQUAL,
        ExecutionOutcome.EQUAL,
        ExecutionOutcome.DIFFERENT,
        ExecutionOutcome.PREDICTION_FAILED,
    ]
    assert [score.right for score in found.pairs] == [True, True, True, False, False]
    assert (found.right, found.exact, found.execution) == (60.0, 60.0, 60.0)
    assert found.pairs[4].to_json() == {
        "sql": None,
        "right": False,
        "exact": False,
        "execution": "prediction failed",
        "reason": found.pairs[4].execution.reason,
    }


def test_two_empty_results_prove_nothing(harbours: OpenedDatabase) -> None:
    pairs = pairs_of(harbours.read().schema, *["SELECT name FROM harbour WHERE city = 'Atlantis'"] * 2)
    nothing = ["SELECT city FROM harbour WHERE name = 'Atlantis'", "SELECT name FROM harbour WHERE city = 'Nowhere'"]
    found = scored(harbours, pairs, *nothing)
    assert found.execution == 100.0
    assert [score.right for score in found.pairs] == [False, True]
    assert found.right == 50.0


def test_a_pair_whose_own_query_fails_is_not_judged(harbours: OpenedDatabase) -> None:
    [pair] = pairs_of(harbours.read().schema, "SELECT name FROM harbour")
    found = scored(harbours, [replace(pair, sql="SELECT name FROM gone")], "SELECT name FROM harbour")
    assert found.pairs[0].execution.outcome is ExecutionOutcome.GOLD_FAILED
    assert found.execution is None
    assert found.right is None
    assert found.rank == (-1.0, 100.0)


def test_a_query_that_fails_in_one_measurement_counts_in_neither() -> None:
    def scores(*outcomes: ExecutionOutcome) -> PairScores:
        pair = cast(UsablePair, None)
        verdicts = [ExecutionVerdict(each, f"{each}, {len(outcomes)}", (1,)) for each in outcomes]
        return PairScores(tuple(PairScore(pair, "", False, verdict) for verdict in verdicts))

    failed, equal, different, lost = (
        ExecutionOutcome.GOLD_FAILED,
        ExecutionOutcome.EQUAL,
        ExecutionOutcome.DIFFERENT,
        ExecutionOutcome.LOST,
    )
    before = scores(failed, equal, failed, different, equal, lost)
    after = scores(equal, failed, failed, equal, equal, different)
    assert (before.right, after.right) == (50.0, 75.0), "of different pairs"
    found = on_same_pairs(before, after)
    assert (
        [score.right for score in found]
        == [score.execution for score in found]
        == [pytest.approx(100 / 3), pytest.approx(200 / 3)]
    )
    for one, other in zip(*(each.pairs for each in found), strict=True):
        assert one.is_judged == other.is_judged
    assert [each.pairs[3:] for each in found] == [each.pairs[3:] for each in (before, after)]


def test_what_was_run_is_not_run_again(harbours: OpenedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    supervised = pair_scores.run_supervised

    def counting(work: Any, tasks: list[tuple[str, str]], **settings: Any) -> Any:
        counts.append(len(tasks))
        return supervised(work, tasks, **settings)

    monkeypatch.setattr(pair_scores, "run_supervised", counting)
    sql = "SELECT name FROM harbour"
    judge = PairJudge(harbours, pairs_of(harbours.read().schema, sql, sql), show_progress=False)
    first = judge.score(cast(TextToSql, Scripted(sql, sql)), "")
    second = judge.score(cast(TextToSql, Scripted(sql, "SELECT city FROM harbour")), "")
    assert counts == [1, 1]
    assert (first.execution, second.execution) == (100.0, 50.0)


def test_rows_come_before_the_query() -> None:
    def scores(exact: bool, outcome: ExecutionOutcome) -> PairScores:
        pair = cast(UsablePair, None)
        return PairScores((PairScore(pair, "", exact, ExecutionVerdict(outcome, gold_rows=(1,))),))

    worst, rows, both = (
        scores(False, ExecutionOutcome.DIFFERENT),
        scores(False, ExecutionOutcome.EQUAL),
        scores(True, ExecutionOutcome.EQUAL),
    )
    assert worst.rank < scores(True, ExecutionOutcome.DIFFERENT).rank < rows.rank < both.rank
    lost = PairScores((*rows.pairs, *scores(False, ExecutionOutcome.LOST).pairs))
    assert lost.right == 50.0


def test_a_table_that_changes_meanwhile_is_noticed(harbours: OpenedDatabase) -> None:
    sql = "SELECT name FROM harbour"
    judge = PairJudge(harbours, pairs_of(harbours.read().schema, sql), show_progress=False)
    run_script(f"sqlite:///{harbours.location}", "ALTER TABLE harbour ADD COLUMN depth REAL")
    with pytest.raises(SchemaError, match="have changed: start again"):
        judge.score(cast(TextToSql, Scripted(sql)), "")


@pytest.mark.parametrize(
    ("gold", "predicted", "same"),
    [
        ("a = 1 AND b IS NULL", "b IS NULL AND a = 2", True),
        ("a IS NULL AND b = 1", "a IS NULL OR b = 1", False),
        ("a IS NULL", "b IS NULL", False),
        ("a = 1", "a = 2", True),
        ("a = 1", "a > 1", False),
        ("(a - b) / c > 1", "(a - b) / c > 2", True),
        ("(a - b) / c > 1", "(b - a) / c > 1", False),
        ("(a - b) / c > 1 AND (a = 1 AND b = 2)", "(b = 3 AND a = 4) AND (a - b) / c > 5", True),
        ("(a - b) / c > 1 AND a = 1", "(a - b) / c > 1 OR a = 1", False),
    ],
)
def test_queries_that_spider_s_script_cannot_read_are_compared_too(gold: str, predicted: str, same: bool) -> None:
    schema = odd_schema()
    reader = SqlReader(schema)
    found = is_exact(*(reader.read(f'SELECT "T1" FROM "my value" WHERE {each}') for each in (gold, predicted)), schema)
    assert found is same


def test_names_that_spider_s_script_cannot_read_do_not_matter() -> None:
    schema = odd_schema()
    reader = SqlReader(schema)
    one, other = (reader.read(f'SELECT {columns} FROM "my value"') for columns in ('a, "T1"', '"T1", a'))
    assert is_exact(one, other, schema), "the script takes no order of columns into account"


def test_every_bundled_query_is_exactly_itself() -> None:
    dataset = open_dataset(sample_folder())
    for example in [*dataset.split("train"), *dataset.split("dev")]:
        schema = dataset.schemas[example.database]
        tree = SqlReader(schema).read(example.query)
        assert is_exact(tree, tree, schema), example.query
