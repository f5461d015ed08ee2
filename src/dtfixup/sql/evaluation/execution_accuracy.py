"""Execution accuracy: whether a predicted query gives the same rows as the gold one.

In: gold and predicted queries with their databases. Out: an `ExecutionVerdict` each, from the database itself and from
random variants of its content (`variants.py`), because two empty results prove nothing.
Rows are compared as the test-suite metric does (Zhong et al., EMNLP 2020): as a bag, or as a list where the gold query
orders them, with the columns in any order. Departs: DISTINCT stays where it is, and numbers have a tolerance.
"""

import math
import os
import re
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from dtfixup.errors import GuardError
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.variants import Content, read_content, write_variants
from dtfixup.sql.evaluation.witnesses import witness_of
from dtfixup.sql.execution.guarded import Rows, open_guarded
from dtfixup.sql.execution.workers import Lost, run_supervised

_TOLERANCE: Final = 1e-9
"""Relative: sums of the same numbers in another order differ by less, different answers by more."""

_NOTHING: Final = 1e-12
"""What is left where a sum should be 0."""
_LARGEST_WHOLE: Final = 2**100
"""Beyond any integer type of the databases; larger numbers are compared as fractions are."""

_LEXEME = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[()]|\w+""", re.DOTALL)


def is_ordered(sql: str) -> bool:
    """Whether a query as a whole has ORDER BY; one inside brackets says nothing about the order of the result.

    >>> is_ordered("SELECT a FROM t ORDER BY a"), is_ordered("SELECT a FROM (SELECT a FROM t ORDER BY a)")
    (True, False)
    """
    depth = 0
    for lexeme in _LEXEME.findall(sql):
        depth += (lexeme == "(") - (lexeme == ")")
        if depth == 0 and lexeme.lower() == "order":
            return True
    return False


def equal_results(gold_rows: Sequence[Sequence[Any]], predicted_rows: Sequence[Sequence[Any]], ordered: bool) -> bool:
    """Whether two results are the same for some order of the columns, and of the rows unless `ordered`.

    >>> equal_results([(1, "a"), (2, "b")], [("b", 2.0), ("a", 1)], ordered=False)
    True
    """
    if len(gold_rows) != len(predicted_rows):
        return False
    if not gold_rows:
        return True
    if len(gold_rows[0]) != len(predicted_rows[0]):
        return False
    numbers = _number_classes(value for rows in (gold_rows, predicted_rows) for row in rows for value in row)
    gold, predicted = (
        [tuple(_comparable(value, numbers) for value in row) for row in rows] for rows in (gold_rows, predicted_rows)
    )
    if gold == predicted:
        return True
    if ordered:
        # With the rows fixed, columns are the same or not one by one.
        return Counter(_columns(gold)) == Counter(_columns(predicted))
    if Counter(gold) == Counter(predicted):
        return True
    return _same_bags(_columns(gold), _columns(predicted))


def _columns(rows: Sequence[tuple[Hashable, ...]]) -> list[tuple[Hashable, ...]]:
    return list(zip(*rows, strict=True))


def _comparable(value: Any, numbers: dict[float, float]) -> Hashable:
    """A value that is equal to another exactly where the two count as the same."""
    if isinstance(value, int | float | Decimal):
        return numbers.get(_plain(value), math.nan)  # one and the same object, which is found equal to itself
    # Arrays, which some databases return, have no hash.
    return value if isinstance(value, Hashable) else (type(value), repr(value))


def _plain(number: int | float | Decimal) -> int | float:
    """The same number as an int where it is one. Booleans are the numbers they are stored as."""
    if isinstance(number, int):
        return int(number)
    is_whole = math.isfinite(number) and -_LARGEST_WHOLE < number < _LARGEST_WHOLE and number == int(number)
    return int(number) if is_whole else float(number)


def _number_classes(values: Iterable[Any]) -> dict[float, float]:
    """For every number, the one that stands for all within the tolerance. Integers are compared exactly, so that
    neighbouring large keys stay apart; a fraction joins the integer next to it, or else its neighbours."""
    found = {_plain(value) for value in values if isinstance(value, int | float | Decimal)}
    integers = sorted(number for number in found if isinstance(number, int))
    classes: dict[float, float] = {number: number for number in integers}
    last: float | None = None
    for number in sorted(number for number in found if isinstance(number, float) and not math.isnan(number)):
        place = bisect_left(integers, number)
        near = [whole for whole in integers[max(place - 1, 0) : place + 1] if _is_close(whole, number)]
        if near:
            classes[number] = min(near, key=lambda whole: abs(whole - number))
        elif last is not None and _is_close(last, number):
            classes[number] = classes[last]
            last = number
        else:
            classes[number] = last = number
    return classes


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_NOTHING)


def _same_bags(gold: list[tuple[Hashable, ...]], predicted: list[tuple[Hashable, ...]]) -> bool:
    """Whether some order of the predicted columns makes the bags of rows equal.

    Columns get colours by their values, rows by the colours and values in them, columns again by their rows, until
    nothing splits any more: columns of different colour cannot be the same. Only where unequal columns still share
    a colour one of them is singled out and each candidate is tried, so few of the permutations are ever seen.
    """
    return _match(gold, predicted, [0] * len(gold), [0] * len(predicted))


def _match(
    gold: list[tuple[Hashable, ...]],
    predicted: list[tuple[Hashable, ...]],
    gold_colours: list[int],
    predicted_colours: list[int],
) -> bool:
    classes = 0
    while True:
        rows: dict[Hashable, int] = {}  # shared by both sides, so that equal colours mean the same
        gold_rows = _row_colours(gold, gold_colours, rows)
        predicted_rows = _row_colours(predicted, predicted_colours, rows)
        columns: dict[Hashable, int] = {}
        gold_colours = _column_colours(gold, gold_colours, gold_rows, columns)
        predicted_colours = _column_colours(predicted, predicted_colours, predicted_rows, columns)
        if Counter(gold_colours) != Counter(predicted_colours):
            return False
        if len(columns) == classes:
            break
        classes = len(columns)
    for colour in range(classes):
        shared = [column for column, own in zip(gold, gold_colours, strict=True) if own == colour]
        if len(set(shared)) > 1:
            single = gold.index(shared[0])
            candidates = {
                predicted[place]: place for place, own in enumerate(predicted_colours) if own == colour
            }  # equal columns are interchangeable: one of them is enough
            return any(
                _match(gold, predicted, _single_out(gold_colours, single), _single_out(predicted_colours, place))
                for place in candidates.values()
            )
    return True


def _row_colours(columns: list[tuple[Hashable, ...]], colours: list[int], known: dict[Hashable, int]) -> list[int]:
    by_colour = sorted(range(len(columns)), key=colours.__getitem__)
    groups: dict[int, list[int]] = {}
    for place in by_colour:
        groups.setdefault(colours[place], []).append(place)
    found = []
    for row in zip(*columns, strict=True):
        key = tuple(
            row[places[0]] if len(places) == 1 else frozenset(Counter(row[place] for place in places).items())
            for places in groups.values()
        )
        found.append(known.setdefault(key, len(known)))
    return found


def _column_colours(
    columns: list[tuple[Hashable, ...]], colours: list[int], rows: list[int], known: dict[Hashable, int]
) -> list[int]:
    found = []
    for column, colour in zip(columns, colours, strict=True):
        key = (colour, frozenset(Counter(zip(rows, column, strict=True)).items()))
        found.append(known.setdefault(key, len(known)))
    return found


def _single_out(colours: list[int], place: int) -> list[int]:
    return [max(colours) + 1 if index == place else colour for index, colour in enumerate(colours)]


class Outcome(StrEnum):
    """What came of running a pair of queries."""

    EQUAL = "equal"
    DIFFERENT = "different"
    PREDICTION_FAILED = "prediction failed"
    GOLD_FAILED = "gold failed"
    """The gold query cannot be run, so nothing is known of the prediction."""
    LOST = "lost"
    """The worker process died or had to be stopped, so nothing is known either."""


@dataclass(frozen=True, slots=True)
class ExecutionVerdict:
    """The outcome for one pair, and why it is not `EQUAL`."""

    outcome: Outcome
    reason: str = ""
    gold_rows: tuple[int, ...] = ()
    """How many rows the gold query gave on the database and then on each variant, as far as they were tried."""

    @property
    def is_evident(self) -> bool:
        """Whether the gold query gave rows anywhere; two empty results say little."""
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
    """Run both queries on the database and on every variant, and stop at the first difference.

    `deadline` is in seconds for each run of a query; a gold result of more than `max_rows` rows counts as failed.
    """
    ordered = is_ordered(gold)
    counts: list[int] = []
    for place, where in ((database, ""), *((variant, f" on {variant.name}") for variant in variants)):
        # The connection itself guards; reading the text would refuse queries that SQLite knows and sqlglot does not.
        with open_guarded(place, deadline=deadline, max_rows=max_rows, filter_text=False) as connection:
            try:
                wanted = connection.run(gold)
            except GuardError as error:
                return ExecutionVerdict(Outcome.GOLD_FAILED, f"{error}{where}", tuple(counts))
            if wanted.truncated:
                reason = f"the gold query gives more than {max_rows} rows{where}"
                return ExecutionVerdict(Outcome.GOLD_FAILED, reason, tuple(counts))
            counts.append(len(wanted.rows))
            try:
                found = connection.run(predicted)
            except GuardError as error:
                return ExecutionVerdict(Outcome.PREDICTION_FAILED, f"{error}{where}", tuple(counts))
        if found.truncated or not equal_results(wanted.rows, found.rows, ordered):
            return ExecutionVerdict(Outcome.DIFFERENT, f"{_difference(wanted, found)}{where}", tuple(counts))
    return ExecutionVerdict(Outcome.EQUAL, gold_rows=tuple(counts))


def _difference(wanted: Rows, found: Rows) -> str:
    sizes = [f"{len(result.rows)} × {len(result.columns)}" for result in (wanted, found)]
    if sizes[0] == sizes[1] and not found.truncated:
        return f"other values in the {sizes[0]} result"
    return f"{sizes[0]} result expected, got {'more than ' if found.truncated else ''}{sizes[1]}"


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
    seed: int = 0,
    deadline: float = 10.0,
    workers: int | None = None,
    show_progress: bool = True,
) -> list[ExecutionVerdict]:
    """Judge every pair on its database and on variants made for its gold query, in worker processes.

    The same seed gives the same variants, however many workers there are: by default one for every core.
    """
    workers = workers or os.cpu_count() or 1
    tasks = [
        _Task(pair, dataset.database_file(pair.database), dataset.schemas[pair.database], variants, seed, deadline)
        for pair in pairs
    ]
    verdicts = [ExecutionVerdict(Outcome.LOST)] * len(tasks)
    with tempfile.TemporaryDirectory(prefix="dtfixup-variants-") as folder, Progress(disable=not show_progress) as bar:
        running = bar.add_task("running queries", total=len(tasks))
        # Both queries run on every database; the rest is for making variants and comparing results.
        patience = 2 * deadline * (1 + variants) + 60
        judge = partial(_judge, folder)
        for position, result in run_supervised(judge, tasks, workers=workers, deadline=patience):
            if isinstance(result, Lost):
                result = ExecutionVerdict(Outcome.LOST, result.reason)
            verdicts[position] = result
            bar.advance(running)
    return verdicts


@dataclass(frozen=True, slots=True)
class _Task:
    pair: Pair
    file: Path
    schema: Schema
    variants: int
    seed: int
    deadline: float


def _judge(folder: str, task: _Task) -> ExecutionVerdict:
    pair = task.pair
    with tempfile.TemporaryDirectory(dir=folder) as own:
        content = _content(task.file, task.schema)
        witness = witness_of(pair.gold, task.schema)
        seed = f"{task.seed} {pair.database} {pair.gold}"
        made = write_variants(content, witness, own, task.variants, seed=seed)
        return execution_verdict(pair.gold, pair.predicted, task.file, made, deadline=task.deadline)


@lru_cache(maxsize=8)
def _content(file: Path, schema: Schema) -> Content:
    return read_content(file, schema)


@dataclass(frozen=True)
class ExecutionSummary:
    """Outcomes counted. Pairs whose gold query failed or whose worker was lost are not in the accuracy."""

    outcomes: dict[Outcome, int]
    evident: int
    """Equal pairs whose gold query gave rows somewhere."""
    unjudged: tuple[tuple[int, str], ...]
    """Position and reason of the pairs that are not in the accuracy."""

    @property
    def judged(self) -> int:
        return sum(self.outcomes[outcome] for outcome in _JUDGED)

    @property
    def accuracy(self) -> float:
        return self.outcomes[Outcome.EQUAL] / self.judged if self.judged else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "execution_accuracy": self.accuracy,
            "judged": self.judged,
            "outcomes": {outcome.value: count for outcome, count in self.outcomes.items()},
            "equal_with_rows": self.evident,
            "unjudged": [{"position": position, "reason": reason} for position, reason in self.unjudged],
        }


_JUDGED: Final = (Outcome.EQUAL, Outcome.DIFFERENT, Outcome.PREDICTION_FAILED)


def summarise_execution(verdicts: Sequence[ExecutionVerdict]) -> ExecutionSummary:
    """Count the outcomes of many pairs."""
    counted = Counter(verdict.outcome for verdict in verdicts)
    evident = sum(verdict.outcome is Outcome.EQUAL and verdict.is_evident for verdict in verdicts)
    unjudged = tuple(
        (position, f"{verdict.outcome}: {verdict.reason}")
        for position, verdict in enumerate(verdicts)
        if verdict.outcome not in _JUDGED
    )
    return ExecutionSummary({outcome: counted[outcome] for outcome in Outcome}, evident, unjudged)


def show_execution(summary: ExecutionSummary, console: Console) -> None:
    """Print the outcomes as a table, and below it every pair that could not be judged."""
    table = Table(title="Execution accuracy")
    table.add_column()
    table.add_column("pairs", justify="right")
    for outcome, count in summary.outcomes.items():
        table.add_row(outcome.value, str(count), end_section=outcome is Outcome.LOST)
    table.add_row("equal, with rows to compare", str(summary.evident))
    table.add_row("accuracy", f"{100 * summary.accuracy:.1f}" if summary.judged else "-")
    console.print(table)
    for position, reason in summary.unjudged:
        console.print(f"pair {position + 1} is not judged: {reason}", markup=False)
