"""Infer which tables a query reads and how they are joined.

In: the tables of a query's columns, and the rules of `source` in its tree. Out: the tables in order with their join
conditions. Foreign keys connect tables, nearest first; where a schema declares no key between two tables, columns of
the same name and type that are a key on one side connect them.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import TypeAlias

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
"""The cost of a join: over a declared key; over the name of a key in another table; over any other shared name, as a
last resort: people born in the same year are unrelated."""


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
        """Pairs of columns with the same name and type in two tables; if one is a key, an undeclared foreign key."""
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

    def path(self, placed: Sequence[Occurrence], target: int) -> list[tuple[int, _Edge]]:
        """The cheapest path from the placed tables to a table, as (index of the placed start or -1, edge) steps."""
        queue: list[tuple[float, int, int, int, tuple[_Edge, ...]]] = []
        ticket = 0
        for index, (table, _) in enumerate(placed):
            heapq.heappush(queue, (0.0, ticket, index, table, ()))
            ticket += 1
        reached: set[int] = set()
        while queue:
            cost, _, index, table, steps = heapq.heappop(queue)
            if table == target and steps:
                return [(index if position == 0 else -1, edge) for position, edge in enumerate(steps)]
            if steps and table in reached:
                continue
            reached.add(table)
            for edge in self.edges[table]:
                if edge.target == target or edge.target not in reached:
                    heapq.heappush(queue, (cost + edge.cost, ticket, index, edge.target, (*steps, edge)))
                    ticket += 1
        return []


class _Clause:
    """A FROM clause under construction."""

    def __init__(self, joiner: Joiner) -> None:
        self._joiner = joiner
        self._placed: list[Occurrence] = []
        self._conditions: dict[Occurrence, list[Condition]] = {}
        self._last: Occurrence | None = None

    def joins(self) -> tuple[Join, ...]:
        """The clause; a condition on the first table alone moves to the second, which has an ON."""
        if len(self._placed) > 1:
            self._conditions[self._placed[1]][:0] = self._conditions[self._placed[0]]
            self._conditions[self._placed[0]] = []
        return tuple(Join(table, which, tuple(self._conditions[table, which])) for table, which in self._placed)

    def follow(self, hint: Node) -> None:
        """Apply one rule of `source`."""
        match hint:
            case Node("Through", (int() as star, _)):
                self._reach(self._next(self._table(star)))
            case Node("Beside", (int() as star, _)):
                self._place(self._next(self._table(star)))
            case Node("On", (Node() as left, Node() as right, _)):
                self._last = self._place_pair(pair := (reference_of(left), reference_of(right)))
                self._conditions[self._last].append((pair,))
            case Node("OrOn", (Node() as left, Node() as right, _)):
                latest = self._place_pair(pair := (reference_of(left), reference_of(right)))
                home = max(self._last or latest, latest, key=self._placed.index)
                earlier = self._conditions[self._last].pop() if self._last and self._conditions[self._last] else ()
                self._conditions[home].append((*earlier, pair))
                self._last = home
            case _:
                raise SqlError(f"{hint} is not a rule of a FROM clause")

    def complete(self, needed: Sequence[Occurrence]) -> None:
        """Add the missing tables, nearest first."""
        missing = [occurrence for occurrence in needed if occurrence not in self._placed]
        if not self._placed and missing:
            self._place(missing.pop(0))
        while missing:
            paths = [self._joiner.path(self._placed, table) for table, _ in missing]
            costs = [sum(edge.cost for _, edge in path) or float("inf") for path in paths]
            nearest = costs.index(min(costs))
            self._walk(paths[nearest], missing.pop(nearest))
            missing = [occurrence for occurrence in missing if occurrence not in self._placed]

    def _reach(self, occurrence: Occurrence) -> None:
        self._walk(self._joiner.path(self._placed, occurrence[0]), occurrence)

    def _walk(self, path: list[tuple[int, _Edge]], goal: Occurrence) -> None:
        """Place the tables along a path; without a path, place the goal without a condition."""
        if not path:
            self._place(goal)
            return
        here = self._placed[path[0][0]]
        for position, (_, edge) in enumerate(path):
            last = position == len(path) - 1
            there = goal if last else self._next(edge.target)
            edge = self._unused(here, there, edge)
            self._place(there)
            self._conditions[there] += [(((a, here[1]), (b, there[1])),) for a, b in edge.pairs]
            here = there

    def _unused(self, here: Occurrence, there: Occurrence, edge: _Edge) -> _Edge:
        """The edge of a second occurrence: the next key, if there is one, such as arrival after departure."""
        edges = self._joiner.edges[here[0]]
        alike = [other for other in edges if other.target == edge.target and other.cost == edge.cost]
        return alike[min(there[1], len(alike)) - 1] if there[1] > 1 else edge

    def _place_pair(self, pair: tuple[Reference, Reference]) -> Occurrence:
        """Place the missing tables of a condition; returns the later of the two, which takes the condition."""
        tables = [self._occurrence(reference) for reference in pair]
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

    def _occurrence(self, reference: Reference) -> Occurrence:
        return self._table(reference[0]), reference[1]


def reference_of(node: Node) -> Reference:
    """The column and occurrence of a `reference` node."""
    column = node.children[0]
    if node.rule not in OCCURRENCES or not isinstance(column, int):
        raise SqlError(f"{node} does not refer to a column")
    return column, OCCURRENCES[node.rule]
