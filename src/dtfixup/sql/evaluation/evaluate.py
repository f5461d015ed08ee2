"""Predicted queries compared with gold ones: Spider's exact match, its ten components and its hardness levels.

In: pairs of queries over a `Schema`, a file of predictions, or a file of pairs. Out: a `MatchVerdict` for each pair, a
`Summary` of many, a table on screen. `execution_accuracy.py` compares the rows of two queries.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as ScreenTable

from dtfixup.errors import DataError, SqlError
from dtfixup.files import write_atomically
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.exact_match import Component, Hardness, Score, comparable, compare, hardness, matches
from dtfixup.sql.evaluation.spider_reader import SpiderQuery, read_query, schema_names

ALL = "all"
"""The level of a `Summary` that holds every pair."""


@dataclass(frozen=True, slots=True)
class MatchVerdict:
    """The official script's verdict on one pair.

    An unreadable prediction (`parsed` is False) is scored as an empty query, so it is right in every component that the
    gold query does not have.
    """

    exact: bool
    hardness: Hardness
    parsed: bool
    scores: Mapping[Component, Score]

    @property
    def partial(self) -> dict[str, int]:
        """F1 of each component under the script's names."""
        return {component.value: score.f1 for component, score in self.scores.items()}

    def to_json(self) -> dict[str, Any]:
        """The keys of a verdict file."""
        return {
            "exact": int(self.exact),
            "hardness": self.hardness.value,
            "parsed": self.parsed,
            "partial": self.partial,
        }


def judge(gold: str, predicted: str, schema: Schema, *, official: bool = True) -> MatchVerdict:
    """Compare a prediction with its gold query.

    The official script replaces the text `value` by `1` anywhere in a prediction, because baselines write `value`
    for every literal; it damages names such as `value_points`. `official=False` leaves predictions as they are.
    """
    names = schema_names(schema)
    try:
        gold_query = read_query(gold, names)
        level = hardness(gold_query)
        gold_query = comparable(gold_query, names)
    except SqlError as error:
        raise SqlError(f"gold query over {schema.database} cannot be read: {error}: {gold}") from error
    parsed = True
    try:
        query = comparable(read_query(predicted.replace("value", "1") if official else predicted, names), names)
    except SqlError:
        query, parsed = SpiderQuery(), False
    scores = compare(query, gold_query)
    return MatchVerdict(matches(scores, query, gold_query), level, parsed, scores)


@dataclass(frozen=True, slots=True)
class ComponentSummary:
    """Accuracy over the predictions that have the component, recall over the gold queries that have it. As in the
    script, both are 0 if no query has it, and F1 is 1 if both are 0."""

    accuracy: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.accuracy + self.recall
        return 2 * self.accuracy * self.recall / total if total else 1.0


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The pairs of one hardness level, or all of them."""

    count: int
    exact: int
    parsed: int
    components: Mapping[Component, ComponentSummary]

    @property
    def exact_match(self) -> float:
        return self.exact / self.count if self.count else 0.0

    def to_json(self) -> dict[str, Any]:
        components = {
            component.value: {"accuracy": of.accuracy, "recall": of.recall, "f1": of.f1}
            for component, of in self.components.items()
        }
        return {
            "count": self.count,
            "exact": self.exact,
            "exact_match": self.exact_match,
            "parsed": self.parsed,
            "components": components,
        }


@dataclass(frozen=True)
class Summary:
    """Levels by name: the four of `Hardness`, then `all`."""

    levels: Mapping[str, LevelSummary]

    def to_json(self) -> dict[str, Any]:
        return {name: level.to_json() for name, level in self.levels.items()}


def summarise(verdicts: Iterable[MatchVerdict]) -> Summary:
    """Counts and scores by hardness and over all."""
    everything = list(verdicts)
    levels = {
        level.value: _level([verdict for verdict in everything if verdict.hardness is level]) for level in Hardness
    }
    return Summary({**levels, ALL: _level(everything)})


def _level(verdicts: Sequence[MatchVerdict]) -> LevelSummary:
    components = {}
    for component in Component:
        scores = [verdict.scores[component] for verdict in verdicts]
        components[component] = ComponentSummary(
            _mean([score.f1 for score in scores if score.predicted > 0]),
            _mean([score.f1 for score in scores if score.gold > 0]),
        )
    return LevelSummary(
        len(verdicts),
        sum(verdict.exact for verdict in verdicts),
        sum(verdict.parsed for verdict in verdicts),
        components,
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def show_summary(summary: Summary, console: Console) -> None:
    """Print a table with a column for each level: exact match and the F1 of each component, in percent."""
    table = ScreenTable(title="Spider exact match")
    table.add_column()
    for name in summary.levels:
        table.add_column(name, justify="right")
    levels = summary.levels.values()
    table.add_row("queries", *(str(level.count) for level in levels))
    table.add_row("unreadable predictions", *(str(level.count - level.parsed) for level in levels))
    table.add_row("exact match", *(_percent(level.exact_match, level) for level in levels), end_section=True)
    for component in Component:
        table.add_row(f"{component} F1", *(_percent(level.components[component].f1, level) for level in levels))
    console.print(table)


def _percent(share: float, level: LevelSummary) -> str:
    return f"{100 * share:.1f}" if level.count else "-"


def read_predictions(path: str | Path, count: int) -> list[str]:
    """Predictions from a file in the official format: one query a line, optionally with a tab and the db_id.

    A blank line is an empty prediction, unless it is surplus at the end. Departs: the script drops every blank line
    and compares the predictions after it with the wrong gold queries.
    """
    lines = [line.split("\t")[0].strip() for line in _read_lines(path)]
    while len(lines) > count and not lines[-1]:
        lines.pop()
    if len(lines) != count:
        raise DataError(f"{path} has {len(lines)} predictions, and there are {count} questions; give one query a line")
    return lines


def evaluate_pairs(in_path: str | Path, out_path: str | Path, schemas: Mapping[str, Schema]) -> Summary:
    """Add a verdict to every row of a JSON-lines file, whose rows have db_id, gold and pred."""
    verdicts = []
    lines = []
    for where, row in _rows(in_path):
        pair = {key: _text(row, key, where) for key in ("db_id", "gold", "pred")}
        if pair["db_id"] not in schemas:
            raise DataError(f"{where}: key 'db_id': {pair['db_id']!r} is not in tables.json")
        try:
            verdict = judge(pair["gold"], pair["pred"], schemas[pair["db_id"]])
        except SqlError as error:
            raise SqlError(f"{where}: key 'gold': {error}") from error
        verdicts.append(verdict)
        lines.append(json.dumps(row | verdict.to_json(), ensure_ascii=False) + "\n")
    write_atomically(out_path, lambda temporary: temporary.write_text("".join(lines), encoding="utf-8"))
    return summarise(verdicts)


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected an object, got {type(row).__name__}")
        yield where, row


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    if key not in row:
        raise DataError(f"{where}: key {key!r} is missing; a row has db_id, gold and pred")
    if not isinstance(row[key], str):
        raise DataError(f"{where}: key {key!r}: expected text, got {row[key]!r}")
    return row[key]


def _read_lines(path: str | Path) -> list[str]:
    """The lines of a file, split at \\n alone: `str.splitlines` would also split at rarer separators."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start}: {error.reason}") from None
    return text.removesuffix("\n").split("\n") if text else []
