"""Infer which tables a query reads and how they are joined.

In: the tables of a query's columns, and the rules of `source` in its tree. Out: the tables in order with their join
conditions. Foreign keys connect tables, nearest first. Where a schema declares no key between two tables, columns with
the same name and type connect them, first those that are a key of one table.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import NamedTuple, TypeAlias

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.tree import OCCURRENCES, Node, Occurrence, Reference

Condition: TypeAlias = tuple[tuple[Reference, Reference], ...]
"""Pairs of columns, at least one of them equal; nearly always a single pair."""


@dataclass(frozen=True, slots=True)
class Join:
    """A table in a FROM clause, and the conditions that join it to the tables before it."""

    table: int
    occurrence: int
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edge:
    """A join from one table to another over pairs of equal columns."""

    target: int
    pairs: tuple[tuple[int, int], ...]
    cost: float


_DECLARED, _SAME_KEY, _SAME_NAME = 1.0, 1.5, 40.0
"""The cost of a join: over a declared key; over a key's name in another table; over any other name that two tables
share, which is a last resort because people born in the same year are unrelated."""


class Joiner:
    """Builds FROM clauses over one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.edges: list[list[_Edge]] = [[] for _ in schema.tables]
        declared = {(key.columns, key.referred) for key in schema.foreign_keys}
        for columns, referred in sorted(declared, key=lambda key: (key[0], key[1])):
            self._connect(tuple(zip(columns, referred, strict=True)), _DECLARED)
        for pair, cost in self._same_names(set(schema.foreign_pairs)):
            self._connect((pair,), cost)

    def _connect(self, pairs: tuple[tuple[int, int], ...], cost: float) -> None:
        source, target = (self.schema.columns[column].table for column in pairs[0])
        self.edges[source].append(_Edge(target, pairs, cost))
        if source != target:
            self.edges[target].append(_Edge(source, tuple((b, a) for a, b in pairs), cost))

    def _same_names(self, declared: set[tuple[int, int]]) -> Iterable[tuple[tuple[int, int], float]]:
        """Pairs of columns with the same name and type in two tables, with the cost of a join over them."""
        schema = self.schema
        keys = {key[0] for key in schema.primary_keys if len(key) == 1}
        by_name: dict[tuple[str, str], list[int]] = {}
        for index, column in enumerate(schema.columns):
            if not schema.is_star(index) and column.name.lower() != "id":
                by_name.setdefault((column.name.lower(), column.type), []).append(index)
        for columns in by_name.values():
            for first, second in combinations(columns, 2):
                if schema.columns[first].table == schema.columns[second].table:
                    continue
                if (first, second) not in declared and (second, first) not in declared:
                    yield (first, second), _SAME_KEY if first in keys or second in keys else _SAME_NAME

    def build(self, needed: Sequence[Occurrence], source: Node | None = None) -> tuple[Join, ...]:
        """The FROM clause of the needed tables, built as `source` prescribes."""
        clause = _Clause(self)
        while source is not None:
            following = source.children[-1]
            clause.follow(source)
            source = following if isinstance(following, Node) else None
        clause.complete(needed)
        return clause.joins()

    def path(self, placed: Sequence[Occurrence], target: int) -> "JoinPath | None":
        """The cheapest path from one of the placed tables to a table, if there is one; ties go to the first placed."""
        tickets = count()
        queue = [JoinPath(0.0, next(tickets), start, ()) for start in placed]  # a sorted list is a heap
        reached: set[int] = set()
        while queue:
            path = heapq.heappop(queue)
            table = path.edges[-1].target if path.edges else path.start[0]
            if path.edges and table == target:
                return path
            if path.edges and table in reached:
                continue
            reached.add(table)
            for edge in self.edges[table]:
                if edge.target == target or edge.target not in reached:
                    longer = JoinPath(path.cost + edge.cost, next(tickets), path.start, (*path.edges, edge))
                    heapq.heappush(queue, longer)
        return None


class JoinPath(NamedTuple):
    """Joins from a placed table to another, ordered by their cost, then by when they were found."""

    cost: float
    ticket: int
    start: Occurrence
    edges: tuple[_Edge, ...]


class _Clause:
    """A FROM clause under construction."""

    def __init__(self, joiner: Joiner) -> None:
        self._joiner = joiner
        self._placed: list[Occurrence] = []
        self._conditions: dict[Occurrence, list[Condition]] = {}
        self._last: Occurrence | None = None

    def joins(self) -> tuple[Join, ...]:
        """The finished clause. The first table has no ON, so its conditions move to the second."""
        if len(self._placed) > 1:
            self._conditions[self._placed[1]][:0] = self._conditions[self._placed[0]]
            self._conditions[self._placed[0]] = []
        return tuple(Join(table, which, tuple(self._conditions[table, which])) for table, which in self._placed)

    def follow(self, hint: Node) -> None:
        """Apply one rule of `source`."""
        match hint:
            case Node("Through", (int() as star, _)):
                table = self._table(star)
                self._walk(self._joiner.path(self._placed, table), self._next(table))
            case Node("Beside", (int() as star, _)):
                self._place(self._next(self._table(star)))
            case Node("On" | "OrOn" as rule, (Node() as left, Node() as right, _)):
                latest = self._place_pair(pair := (reference_of(left), reference_of(right)))
                condition: Condition = (pair,)
                if rule == "OrOn" and self._last:  # widen the last condition, which moves to the later table
                    condition = (*self._conditions[self._last].pop(), pair)
                    latest = max(self._last, latest, key=self._placed.index)
                self._conditions[latest].append(condition)
                self._last = latest
            case _:
                raise SqlError(f"{hint} is not a rule of a FROM clause")

    def complete(self, needed: Sequence[Occurrence]) -> None:
        """Add the missing tables, nearest first."""
        missing = [occurrence for occurrence in needed if occurrence not in self._placed]
        if not self._placed and missing:
            self._place(missing.pop(0))
        while missing:
            paths = [self._joiner.path(self._placed, table) for table, _ in missing]
            costs = [path.cost if path else float("inf") for path in paths]
            nearest = costs.index(min(costs))
            self._walk(paths[nearest], missing.pop(nearest))
            missing = [occurrence for occurrence in missing if occurrence not in self._placed]

    def _walk(self, path: JoinPath | None, goal: Occurrence) -> None:
        """Place the tables along a path; without a path, place the goal without a condition."""
        if path is None:
            self._place(goal)
            return
        here = path.start
        for position, edge in enumerate(path.edges, 1):
            there = goal if position == len(path.edges) else self._next(edge.target)
            edge = self._unused(here, there, edge)
            self._place(there)
            self._conditions[there] += [(((a, here[1]), (b, there[1])),) for a, b in edge.pairs]
            here = there

    def _unused(self, here: Occurrence, there: Occurrence, edge: _Edge) -> _Edge:
        """For a second occurrence the next key between the tables, if there is one: arrival after departure."""
        edges = self._joiner.edges[here[0]]
        alike = [other for other in edges if other.target == edge.target and other.cost == edge.cost]
        return alike[min(there[1], len(alike)) - 1] if there[1] > 1 else edge

    def _place_pair(self, pair: tuple[Reference, Reference]) -> Occurrence:
        """Place the missing tables of a condition, and return the later of the two."""
        tables = [(self._table(column), which) for column, which in pair]
        for occurrence in tables:
            if occurrence not in self._placed:
                self._place(occurrence)
        return max(tables, key=self._placed.index)

    def _place(self, occurrence: Occurrence) -> None:
        self._placed.append(occurrence)
        self._conditions[occurrence] = []

    def _next(self, table: int) -> Occurrence:
        return table, next(which for which in count(1) if (table, which) not in self._placed)

    def _table(self, column: int) -> int:
        return self._joiner.schema.columns[column].table


def reference_of(node: Node) -> Reference:
    """The column and occurrence of a `reference` node."""
    column = node.children[0]
    if node.rule not in OCCURRENCES or not isinstance(column, int):
        raise SqlError(f"{node} does not refer to a column")
    return column, OCCURRENCES[node.rule]
