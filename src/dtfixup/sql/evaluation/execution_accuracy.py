"""Execution accuracy: whether a predicted query gives the same rows as the gold query.

In: gold and predicted queries with their databases. Out: an `ExecutionVerdict` each, on the database itself and on
random variants of its content (`variants.py`), because two empty results prove nothing. `same_rows.py` compares rows.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from dtfixup.errors import GuardError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.same_rows import equal_results, is_ordered
from dtfixup.sql.evaluation.variants import read_source, write_variants
from dtfixup.sql.evaluation.witnesses import witness_of
from dtfixup.sql.execution.guarded import Rows, open_guarded


class ExecutionOutcome(StrEnum):
    """How the rows of two queries compare."""

    EQUAL = "equal"
    DIFFERENT = "different"
    PREDICTION_FAILED = "prediction failed"
    GOLD_FAILED = "gold failed"
    """The gold query fails, so the prediction cannot be judged."""
    LOST = "lost"
    """The worker process died or was stopped, so the prediction cannot be judged."""


@dataclass(frozen=True, slots=True)
class ExecutionVerdict:
    """The outcome for one pair, with the reason if it is not `EQUAL`."""

    outcome: ExecutionOutcome
    reason: str = ""
    gold_rows: tuple[int, ...] = ()
    """Rows of the gold query on the database and on each variant that was tried."""

    @property
    def is_evident(self) -> bool:
        """Whether the gold query gave rows somewhere; two empty results prove little."""
        return any(self.gold_rows)


def execution_verdict(
    gold: str,
    predicted: str,
    database: DatabaseLike,
    variants: Sequence[Path] = (),
    *,
    deadline: float = 10.0,
    max_rows: int = 100_000,
) -> ExecutionVerdict:
    """Compare two queries on the database and on every variant, up to the first difference.

    A query is stopped after `deadline` seconds. A gold result of more than `max_rows` rows counts as failed.
    """
    ordered = is_ordered(gold)
    counts: list[int] = []
    for file, where in ((database, ""), *((variant, f" on {variant.name}") for variant in variants)):
        # The connection is guarded; the text filter would refuse queries that SQLite reads and sqlglot does not.
        with open_guarded(file, deadline=deadline, max_rows=max_rows, filter_text=False) as connection:
            try:
                gold_result = connection.run(gold)
            except GuardError as error:
                return ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, f"{error}{where}", tuple(counts))
            if gold_result.truncated:
                reason = f"the gold query gives more than {max_rows} rows{where}"
                return ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, reason, tuple(counts))
            counts.append(len(gold_result.rows))
            try:
                result = connection.run(predicted)
            except GuardError as error:
                return ExecutionVerdict(ExecutionOutcome.PREDICTION_FAILED, f"{error}{where}", tuple(counts))
        if result.truncated or not equal_results(gold_result.rows, result.rows, ordered):
            return ExecutionVerdict(
                ExecutionOutcome.DIFFERENT, f"{_difference(gold_result, result)}{where}", tuple(counts)
            )
    return ExecutionVerdict(ExecutionOutcome.EQUAL, gold_rows=tuple(counts))


def _difference(gold_result: Rows, result: Rows) -> str:
    sizes = [f"{len(result.rows)} × {len(result.columns)}" for result in (gold_result, result)]
    if sizes[0] == sizes[1] and not result.truncated:
        return f"other values in the {sizes[0]} result"
    return f"{sizes[0]} result expected, got {'more than ' if result.truncated else ''}{sizes[1]}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A gold query and a prediction over one database of a dataset."""

    database: str
    gold: str
    predicted: str


def evaluate_execution(
    pairs: Sequence[Pair],
    dataset: Dataset,
    *,
    variants: int = 3,
    deadline: float = 10.0,
    workers: int | None = None,
    show_progress: bool = True,
) -> list[ExecutionVerdict]:
    """Compare every pair on its database and on variants made for its gold query, in worker processes.

    The same gold query gets the same variants, whatever the number of workers; the default is one per core.
    """
    tasks = [(pair, dataset.database_file(pair.database), dataset.schemas[pair.database]) for pair in pairs]
    verdicts = [ExecutionVerdict(ExecutionOutcome.LOST)] * len(tasks)
    with tempfile.TemporaryDirectory(prefix="dtfixup-variants-") as folder, Progress(disable=not show_progress) as bar:
        running = bar.add_task("running queries", total=len(tasks))
        # Two runs on every database; a minute more to make variants and compare results.
        patience = 2 * deadline * (1 + variants) + 60
        judge = partial(_judge, folder, variants, deadline)
        workers = workers or os.cpu_count() or 1
        for position, result in run_supervised(judge, tasks, workers=workers, deadline=patience):
            if isinstance(result, Lost):
                result = ExecutionVerdict(ExecutionOutcome.LOST, result.reason)
            verdicts[position] = result
            bar.advance(running)
    return verdicts


def _judge(folder: str, variants: int, deadline: float, task: tuple[Pair, Path, Schema]) -> ExecutionVerdict:
    pair, file, schema = task
    with tempfile.TemporaryDirectory(dir=folder) as own:
        made = write_variants(
            _read_cached(file, schema),
            witness_of(pair.gold, schema),
            own,
            variants,
            seed=f"0 {pair.database} {pair.gold}",
        )
        return execution_verdict(pair.gold, pair.predicted, file, made, deadline=deadline)


_read_cached = lru_cache(maxsize=8)(read_source)


@dataclass(frozen=True)
class ExecutionSummary:
    """Counts of outcomes. The accuracy leaves out pairs whose gold query failed or whose worker was lost."""

    outcomes: dict[ExecutionOutcome, int]
    evident: int
    """Equal pairs whose gold query gave rows somewhere."""
    unjudged: tuple[tuple[int, str], ...]
    """Position and reason of the pairs that the accuracy leaves out."""

    @property
    def judged(self) -> int:
        return sum(self.outcomes[outcome] for outcome in _JUDGED)

    @property
    def accuracy(self) -> float:
        return self.outcomes[ExecutionOutcome.EQUAL] / self.judged if self.judged else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "execution_accuracy": self.accuracy,
            "judged": self.judged,
            "outcomes": {outcome.value: count for outcome, count in self.outcomes.items()},
            "equal_with_rows": self.evident,
            "unjudged": [{"position": position, "reason": reason} for position, reason in self.unjudged],
        }


_JUDGED: Final = (ExecutionOutcome.EQUAL, ExecutionOutcome.DIFFERENT, ExecutionOutcome.PREDICTION_FAILED)


def summarise_execution(verdicts: Sequence[ExecutionVerdict]) -> ExecutionSummary:
    """Count the outcomes of many pairs."""
    counted = Counter(verdict.outcome for verdict in verdicts)
    evident = sum(verdict.outcome is ExecutionOutcome.EQUAL and verdict.is_evident for verdict in verdicts)
    unjudged = tuple(
        (position, f"{verdict.outcome}: {verdict.reason}")
        for position, verdict in enumerate(verdicts)
        if verdict.outcome not in _JUDGED
    )
    return ExecutionSummary({outcome: counted[outcome] for outcome in ExecutionOutcome}, evident, unjudged)


def show_execution(summary: ExecutionSummary, console: Console) -> None:
    """Print the outcomes as a table, and below it every pair that could not be judged."""
    table = Table(title="Execution accuracy")
    table.add_column()
    table.add_column("pairs", justify="right")
    for outcome, count in summary.outcomes.items():
        table.add_row(outcome.value, str(count), end_section=outcome is ExecutionOutcome.LOST)
    table.add_row("equal, with rows to compare", str(summary.evident))
    table.add_row("accuracy", f"{100 * summary.accuracy:.1f}" if summary.judged else "-")
    console.print(table)
    for position, reason in summary.unjudged:
        console.print(f"pair {position + 1} is not judged: {reason}", markup=False)
