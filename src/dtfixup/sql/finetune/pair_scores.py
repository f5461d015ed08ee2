"""How well a parser answers pairs that were held out: exact match and execution, as `dtfixup sql ask` answers them.

In: a parser, an opened database, pairs. Out: `PairScores`. A query is exact by Spider's rule, which leaves values out
of account; where Spider's script cannot read it, as with `(a - b) / c`, the trees must be the same but for values and
the order of conditions. Execution compares rows on the database itself, read-only. There are no variants of its
content, and two empty results prove nothing: an answer is right whose rows are, and where there are none, whose query
is exact.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.progress import track

from dtfixup.errors import SchemaError, SqlError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.execution_accuracy import (
    ExecutionSummary,
    ExecutionVerdict,
    Outcome,
    execution_verdict,
    summarise_execution,
)
from dtfixup.sql.evaluation.neutral import judge_any
from dtfixup.sql.execution.workers import Lost, run_supervised
from dtfixup.sql.finetune.pairs import UsablePair
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.grammar.writer import SqlWriter

_PATIENCE = 30.0  # seconds beyond both deadlines, for connecting and comparing


@dataclass(frozen=True)
class PairScore:
    """What became of one question."""

    pair: UsablePair
    sql: str | None
    """The answer, in the database's dialect; None where the parser gave none."""
    exact: bool
    execution: ExecutionVerdict

    @property
    def is_judged(self) -> bool:
        """Whether the pair's own query ran, so that rows can be right or wrong."""
        return self.execution.outcome is not Outcome.GOLD_FAILED

    @property
    def right(self) -> bool:
        """Whether the rows are right, and where the pair's own query finds none, whether the query is exact."""
        return self.execution.outcome is Outcome.EQUAL and (self.execution.is_evident or self.exact)

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
    """The answers to all questions."""

    pairs: tuple[PairScore, ...]

    @property
    def exact(self) -> float:
        """In percent."""
        return 100 * sum(score.exact for score in self.pairs) / len(self.pairs)

    @property
    def right(self) -> float | None:
        """In percent of the pairs whose own query runs; an answer that was lost is wrong. None where none runs."""
        return self._share([score.right for score in self.pairs])

    @property
    def execution(self) -> float | None:
        """The same by rows alone."""
        return self._share([score.execution.outcome is Outcome.EQUAL for score in self.pairs])

    def _share(self, found: Sequence[bool]) -> float | None:
        judged = sum(score.is_judged for score in self.pairs)
        return 100 * sum(found) / judged if judged else None

    @property
    def summary(self) -> ExecutionSummary:
        return summarise_execution([score.execution for score in self.pairs])

    @property
    def rank(self) -> tuple[float, float]:
        """What makes one model better than another: right answers, then exact queries."""
        return (-1.0 if self.right is None else self.right, self.exact)


def counted_alike(one: PairScores, other: PairScores) -> tuple[PairScores, PairScores]:
    """Two scores of the same pairs, so that both are shares of the same: a pair whose own query failed in one of them,
    perhaps by running into the deadline there, counts in neither. Its rows are not kept from one to the other, since
    the database may change meanwhile."""
    return _without_failed(one, other), _without_failed(other, one)


def _without_failed(scores: PairScores, other: PairScores) -> PairScores:
    return PairScores(
        tuple(
            replace(mine, execution=its.execution) if mine.is_judged and not its.is_judged else mine
            for mine, its in zip(scores.pairs, other.pairs, strict=True)
        )
    )


class PairJudge:
    """Scores parsers on the same pairs over one database; what was run once is not run again."""

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
        self._known: dict[tuple[str, str], ExecutionVerdict] = {}

    def score(self, parser: TextToSql, title: str) -> PairScores:
        """Ask every question, and judge the answers; `title` is what the progress bar says."""
        answers = [self._answer(parser, pair) for pair in self._shown(title)]
        tasks = [(pair.sql, sql or "") for pair, (sql, _) in zip(self._pairs, answers, strict=True)]
        self._run([task for task in dict.fromkeys(tasks) if task not in self._known])
        return PairScores(
            tuple(
                PairScore(
                    pair,
                    sql,
                    tree is not None and is_exact(pair.tree, tree, self._schema),
                    self._known[task],
                )
                for pair, (sql, tree), task in zip(self._pairs, answers, tasks, strict=True)
            )
        )

    def _shown(self, title: str) -> Iterator[UsablePair]:
        yield from track(self._pairs, title, transient=True, disable=not self._show_progress)

    def _answer(self, parser: TextToSql, pair: UsablePair) -> tuple[str | None, Node | None]:
        answer = parser.ask(pair.question, self._database, self._beam)
        if answer.schema != self._schema:
            raise SchemaError(f"the tables of {self._database.shown} changed meanwhile: start again")
        return answer.sql, None if answer.sql is None else answer.alternatives[0].tree

    def _run(self, tasks: Sequence[tuple[str, str]]) -> None:
        work = partial(_judge, self._database.location, self._deadline)
        patience = 2 * self._deadline + _PATIENCE
        for position, result in run_supervised(work, tasks, workers=min(2, os.cpu_count() or 1), deadline=patience):
            if isinstance(result, Lost):
                result = ExecutionVerdict(Outcome.LOST, result.reason)
            self._known[tasks[position]] = result


def _judge(location: Location, deadline: float, task: tuple[str, str]) -> ExecutionVerdict:
    return execution_verdict(*task, location, deadline=deadline)


def is_exact(gold: Node, predicted: Node, schema: Schema) -> bool:
    """Whether two trees are the same query by Spider's rule; where its script cannot read one, by their shapes."""
    writer = SqlWriter(schema)
    try:
        return judge_any(writer.write(gold), writer.write(predicted), schema).exact
    except SqlError:
        return _shape(gold) == _shape(predicted)


def _shape(child: Child) -> Any:
    """What is compared of a tree: literals are alike, and conditions joined by AND or OR have no order."""
    match child:
        case Node("And" | "Or" as rule):
            return rule, sorted(map(repr, map(_shape, _joined(child, rule))))
        case Node(rule, children):
            return rule, [_shape(each) for each in children]
        case Literal():
            return "literal"
    return child


def _joined(child: Child, rule: str) -> list[Child]:
    if isinstance(child, Node) and child.rule == rule:
        return [part for each in child.children for part in _joined(each, rule)]
    return [child]
