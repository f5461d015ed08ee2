"""What is wrong with a predicted query: its sketch, its columns, or both (the paper's Table 7).

In: a gold and a predicted query over a `Schema`, both read as Spider's script reads them (`spider_reader`). Out: a
`Difference`. Queries are compared clause by clause, nested queries too. What exact match ignores is ignored here at
every depth: literals, DISTINCT, ON, the order of select items, conditions and group columns, and which column of a
foreign key is named.

- The *sketch* is a query without its columns and tables: `SELECT count(_) WHERE _ = v ORDER BY _ ASC`. The number of
  joined tables does not belong to it, since the parser infers joins from columns; a subquery in FROM does.
- A *clause* differs if it is not the same with its columns and tables.
- The *columns* are wrong if the sketch is right and some clause differs. If the sketch is wrong too, only columns that
  can be aligned are compared, as in the paper. They are wrong if each query has a column that the other lacks, in a
  clause that both have at the same depth (counting repetitions), or among all columns of the query. A column that the
  other query has in the same clause at another depth is not lacking: a join in place of a nested query moves
  conditions, and they stay right. So a clause that only one query has, or an item more or less, is an error of the
  sketch alone. Tables are compared like columns, and `*` is a column, as in the grammar.

A prediction that the script cannot read has both errors, because nothing in it can be aligned.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.spider_reader import (
    Condition,
    Conditions,
    Expression,
    SpiderQuery,
    read_query,
    schema_names,
)


class Clause(StrEnum):
    """The parts of a query that are compared."""

    SELECT = "select"
    WHERE = "where"
    GROUP = "group by"
    HAVING = "having"
    ORDER = "order by"
    LIMIT = "limit"
    SET_OPERATION = "set operation"
    TABLES = "tables"


@dataclass(frozen=True)
class Difference:
    """What is wrong with a prediction; nothing if the queries differ only in what exact match ignores."""

    sketch: bool
    columns: bool
    clauses: tuple[Clause, ...]
    """The clauses that differ, in the order of `Clause`."""


_Path: TypeAlias = tuple[Clause, ...]
"""The place of a column: the clauses of the nested queries around it, then its own clause."""


def difference(gold: str, predicted: str, schema: Schema) -> Difference:
    """Compare the sketches, columns and clauses of two queries; literals do not count."""
    names = schema_names(schema)

    def same(column: str) -> str:
        return names.representative.get(column, column)

    gold_query = read_query(gold, names)
    try:
        query, readable = read_query(predicted, names), True
    except SqlError:
        query, readable = SpiderQuery(), False
    ours, golds = _clauses(query, same), _clauses(gold_query, same)
    clauses = tuple(clause for clause in Clause if ours[clause] != golds[clause])
    sketch = not readable or _clauses(query, None) != _clauses(gold_query, None)
    columns = bool(clauses) and (not readable or not sketch or _is_swapped(query, gold_query, same))
    return Difference(sketch, columns, clauses)


def _is_swapped(predicted: SpiderQuery, gold: SpiderQuery, same: Callable[[str], str]) -> bool:
    """Whether each query has a column or a table that the other lacks, in one place or in the whole query."""
    ours, golds = _by_path(predicted, same), _by_path(gold, same)
    if any(_lacks(golds, ours, path) and _lacks(ours, golds, path) for path in ours.keys() & golds.keys()):
        return True
    for is_table in (False, True):
        own, other = (
            {name for path, names in side.items() if (path[-1] is Clause.TABLES) is is_table for name in names}
            for side in (ours, golds)
        )
        if own - other and other - own:
            return True
    return False


def _lacks(one: Mapping[_Path, Counter[str]], other: Mapping[_Path, Counter[str]], path: _Path) -> bool:
    """Whether `one` lacks a name that `other` has in a place, and has not moved it to another depth."""
    moved = {name for place, names in one.items() if place[-1] is path[-1] and place not in other for name in names}
    return not moved.issuperset(other[path] - one[path])


def _clauses(query: SpiderQuery, same: Callable[[str], str] | None) -> Mapping[Clause, Hashable]:
    """The content of each clause, to compare. `same` names columns; without it columns and tables are left out."""

    def column(name: str) -> str | None:
        return same(name) if same else None

    def nested(query: SpiderQuery) -> Hashable:
        return tuple(_clauses(query, same).values())

    def expression(item: Expression) -> Hashable:
        return (item.operator, *((use.aggregate, column(use.column)) for use in item.uses))

    def condition(part: Condition) -> Hashable:
        values = [nested(value) if isinstance(value, SpiderQuery) else None for value in (part.low, part.high)]
        return (part.negated, part.operator, expression(part.left), *values)

    def conditions(parts: Conditions) -> Hashable:
        connectives = frozenset(part for part in parts if isinstance(part, str))
        return _bag(condition(part) for part in parts if isinstance(part, Condition)), connectives

    order = query.order
    tables = [nested(table) if isinstance(table, SpiderQuery) else table for table in query.tables]
    return {
        Clause.SELECT: _bag((item.aggregate, expression(item.expression)) for item in query.select),
        Clause.WHERE: conditions(query.where),
        Clause.GROUP: _bag((use.aggregate, column(use.column)) for use in query.group),
        Clause.HAVING: conditions(query.having),
        Clause.ORDER: (order.direction, *map(expression, order.items)) if order else None,
        Clause.LIMIT: query.limit,
        Clause.SET_OPERATION: (query.set_operation, nested(query.other)) if query.other else None,
        Clause.TABLES: _bag(table for table in tables if same or not isinstance(table, str)),
    }


def _bag(items: Iterable[Hashable]) -> Hashable:
    return frozenset(Counter(items).items())


def _by_path(query: SpiderQuery, same: Callable[[str], str]) -> dict[_Path, Counter[str]]:
    """The columns and tables of a query, counted by their place."""
    counts: dict[_Path, Counter[str]] = {}
    for path, name in _names(query):
        counts.setdefault(path, Counter())[name if path[-1] is Clause.TABLES else same(name)] += 1
    return counts


def _names(query: SpiderQuery) -> Iterator[tuple[_Path, str]]:
    """Every column and table of a query with its place, nested queries included."""
    expressions: list[tuple[Clause, Expression]] = [(Clause.SELECT, item.expression) for item in query.select]
    expressions += [(Clause.ORDER, item) for item in (query.order.items if query.order else ())]
    inner: list[tuple[Clause, SpiderQuery]] = [(Clause.SET_OPERATION, query.other)] if query.other else []
    for clause, conditions in ((Clause.WHERE, query.where), (Clause.HAVING, query.having)):
        for condition in conditions:
            if isinstance(condition, Condition):
                expressions.append((clause, condition.left))
                inner += [(clause, nested) for nested in condition.nested]
    for clause, expression in expressions:
        for use in expression.uses:
            yield (clause,), use.column
    for use in query.group:
        yield (Clause.GROUP,), use.column
    for table in query.tables:
        if isinstance(table, SpiderQuery):
            inner.append((Clause.TABLES, table))
        else:
            yield (Clause.TABLES,), table
    for clause, part in inner:
        for path, name in _names(part):
            yield (clause, *path), name
