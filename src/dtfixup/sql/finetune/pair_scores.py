"""Score a parser on held-out pairs, by exact match and by execution, with its answers as in `dtfixup ask`.

In: a parser, an opened database, pairs. Out: `PairScores`. Exact match is Spider's rule, which ignores values. If
Spider's script cannot read a query, such as `(a - b) / c`, the trees must be equal except for values and the order of
conditions. Execution compares rows on the database itself, read-only. Two empty results prove nothing: an answer is
right if its rows are right, or, if there are none, if its query is exact.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.progress import track

from dtfixup.errors import SchemaError, SqlError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.execution_accuracy import (
    ExecutionOutcome,
    ExecutionSummary,
    ExecutionVerdict,
    execution_verdict,
    summarise_execution,
)
from dtfixup.sql.evaluation.neutral import judge_any
from dtfixup.sql.finetune.pairs import UsablePair
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.grammar.writer import SqlWriter

_SLACK = 30.0  # seconds beyond both deadlines, for connecting and comparing


@dataclass(frozen=True)
class PairScore:
    """The answer to one question, judged."""

    pair: UsablePair
    sql: str | None
    """The answer in the database's dialect, or None."""
    exact: bool
    execution: ExecutionVerdict

    @property
    def is_judged(self) -> bool:
        """Whether the pair's own query ran, so that there are rows to compare with."""
        return self.execution.outcome is not ExecutionOutcome.GOLD_FAILED

    @property
    def right(self) -> bool:
        """Whether the rows are right, or, if the pair's own query returns none, whether the query is exact."""
        return self.execution.outcome is ExecutionOutcome.EQUAL and (self.execution.is_evident or self.exact)

    def to_json(self) -> dict[str, Any]:
        content = {
            "sql": self.sql,
            "right": self.right,
            "exact": self.exact,
            "execution": self.execution.outcome.value,
        }
        return content | ({"reason": self.execution.reason} if self.execution.reason else {})


@dataclass(frozen=True)
class PairScores:
    """The answers to all questions, judged."""

    pairs: tuple[PairScore, ...]

    @property
    def exact(self) -> float:
        """Share of exact queries, in percent."""
        return 100 * sum(score.exact for score in self.pairs) / len(self.pairs)

    @property
    def right(self) -> float | None:
        """Right answers in percent of the pairs whose own query runs; None if none runs. A lost answer is wrong."""
        return self._share([score.right for score in self.pairs])

    @property
    def execution(self) -> float | None:
        """The same share by rows alone."""
        return self._share([score.execution.outcome is ExecutionOutcome.EQUAL for score in self.pairs])

    def _share(self, is_right: Sequence[bool]) -> float | None:
        judged = sum(score.is_judged for score in self.pairs)
        return 100 * sum(is_right) / judged if judged else None

    @property
    def summary(self) -> ExecutionSummary:
        return summarise_execution([score.execution for score in self.pairs])

    @property
    def rank(self) -> tuple[float, float]:
        """The order of models: right answers, then exact queries."""
        return (-1.0 if self.right is None else self.right, self.exact)


def on_same_pairs(one: PairScores, other: PairScores) -> tuple[PairScores, PairScores]:
    """Make both scores shares of the same pairs: a pair whose own query failed in one of them, perhaps by the deadline,
    counts in neither. Rows are not copied from one to the other, because the database may change in between."""
    return _without_failed(one, other), _without_failed(other, one)


def _without_failed(scores: PairScores, other: PairScores) -> PairScores:
    return PairScores(
        tuple(
            replace(mine, execution=its.execution) if mine.is_judged and not its.is_judged else mine
            for mine, its in zip(scores.pairs, other.pairs, strict=True)
        )
    )


class PairJudge:
    """Scores parsers on the same pairs over one database; the same queries run only once."""

    def __init__(
        self,
        database: OpenedDatabase,
        pairs: Sequence[UsablePair],
        *,
        beam: int = 5,
        deadline: float = 10.0,
        show_progress: bool = True,
    ) -> None:
        self._database, self._pairs, self._beam, self._deadline = database, tuple(pairs), beam, deadline
        self._schema, self._show_progress = database.read().schema, show_progress
        self._verdicts: dict[tuple[str, str], ExecutionVerdict] = {}

    def score(self, parser: TextToSql, title: str) -> PairScores:
        """Ask every question, and judge the answers; the progress bar shows `title`."""
        pairs = track(self._pairs, title, transient=True, disable=not self._show_progress)
        answers = [self._answer(parser, pair) for pair in pairs]
        tasks = [(pair.sql, sql or "") for pair, (sql, _) in zip(self._pairs, answers, strict=True)]
        self._run([task for task in dict.fromkeys(tasks) if task not in self._verdicts])
        return PairScores(
            tuple(
                PairScore(
                    pair,
                    sql,
                    tree is not None and is_exact(pair.tree, tree, self._schema),
                    self._verdicts[task],
                )
                for pair, (sql, tree), task in zip(self._pairs, answers, tasks, strict=True)
            )
        )

    def _answer(self, parser: TextToSql, pair: UsablePair) -> tuple[str | None, Node | None]:
        answer = parser.ask(pair.question, self._database, self._beam)
        if answer.schema != self._schema:
            raise SchemaError(f"the tables of {self._database.shown} have changed: start again")
        return answer.sql, None if answer.sql is None else answer.alternatives[0].tree

    def _run(self, tasks: Sequence[tuple[str, str]]) -> None:
        work = partial(_judge, self._database.location, self._deadline)
        patience = 2 * self._deadline + _SLACK
        for position, result in run_supervised(work, tasks, workers=min(2, os.cpu_count() or 1), deadline=patience):
            if isinstance(result, Lost):
                result = ExecutionVerdict(ExecutionOutcome.LOST, result.reason)
            self._verdicts[tasks[position]] = result


def _judge(location: Location, deadline: float, task: tuple[str, str]) -> ExecutionVerdict:
    return execution_verdict(*task, location, deadline=deadline)


def is_exact(gold: Node, predicted: Node, schema: Schema) -> bool:
    """Whether two trees are the same query by Spider's rule, or by their shapes if its script cannot read one."""
    writer = SqlWriter(schema)
    try:
        return judge_any(writer.write(gold), writer.write(predicted), schema).exact
    except SqlError:
        return _shape(gold) == _shape(predicted)


def _shape(child: Child) -> Any:
    """A tree in a form to compare: literals are equal, and conditions joined by AND or OR have no order."""
    match child:
        case Node("And" | "Or" as rule):
            return rule, sorted(map(repr, map(_shape, _operands(child, rule))))
        case Node(rule, children):
            return rule, [_shape(part) for part in children]
        case Literal():
            return "literal"
    return child


def _operands(child: Child, rule: str) -> list[Child]:
    if isinstance(child, Node) and child.rule == rule:
        return [operand for part in child.children for operand in _operands(part, rule)]
    return [child]
