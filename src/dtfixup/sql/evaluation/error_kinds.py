"""What is wrong with a predicted query: its sketch, its columns, or both (the paper's Table 7).

In: a gold and a predicted query over a `Schema`, both read as Spider's script reads them (`spider_reader`). Out: a
`Difference`. A query is taken apart into clauses, nested queries into clauses of their own, and what exact match leaves
out is left out here at every depth: literals, DISTINCT, ON, the order of select items, conditions and group columns,
and which column of a foreign key is named.

- The *sketch* is what is left of a query without its columns and tables: `SELECT count(_) WHERE _ = v ORDER BY _ ASC`.
  How many tables are joined is no part of it, since the parser infers joins from columns; a subquery in FROM is.
- A *clause* differs where it is not the same with columns and tables put back.
- The *columns* are wrong if the sketch is right and some clause differs. Where the sketch is wrong too, only columns
  that can be aligned are compared, as in the paper: they are wrong if each query has one that the other lacks, in a
  clause that both have at the same depth (counting repetitions), or among all columns of the query. What the other
  query has in the same clause at a depth that this one does not have is not lacking: a join in place of a nested query
  moves conditions, and they stay right. Tables are compared as columns are. So a clause that only one of the two has,
  or an item more or less, is an error of the sketch alone, unless one column comes in place of another. `*` is a
  column, as in the grammar.

A prediction that the script cannot read has both errors: nothing of it can be aligned.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.spider_reader import Condition, Conditions, Expression, Query, read_query, schema_names


class Clause(StrEnum):
    """The parts of a query that are told apart."""

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
    """What is wrong with a prediction; nothing, where the two differ in what exact match leaves out."""

    sketch: bool
    columns: bool
    clauses: tuple[Clause, ...]
    """Those that differ, in the order of `Clause`."""


_Path: TypeAlias = tuple[Clause, ...]
"""Where a column stands: its clause, after the clauses that its nested query stands in."""


def difference(gold: str, predicted: str, schema: Schema) -> Difference:
    """Compare the sketches, the columns and the clauses of two queries; literals do not count."""
    names = schema_names(schema)

    def same(column: str) -> str:
        return names.representative.get(column, column)

    gold_query = read_query(gold, names)
    try:
        query, readable = read_query(predicted, names), True
    except SqlError:
        query, readable = Query(), False
    ours, golds = _clauses(query, same), _clauses(gold_query, same)
    clauses = tuple(clause for clause in Clause if ours[clause] != golds[clause])
    sketch = not readable or _clauses(query, None) != _clauses(gold_query, None)
    columns = bool(clauses) and (not readable or not sketch or _is_swapped(query, gold_query, same))
    return Difference(sketch, columns, clauses)


def _is_swapped(predicted: Query, gold: Query, same: Callable[[str], str]) -> bool:
    """Whether each of two queries has a column, or a table, that the other lacks: in one place, or altogether."""
    ours, golds = _by_path(predicted, same), _by_path(gold, same)
    if any(_lacks(golds, ours, path) and _lacks(ours, golds, path) for path in ours.keys() & golds.keys()):
        return True
    for is_table in (False, True):
        own, other = (
            {name for path, found in side.items() if (path[-1] is Clause.TABLES) is is_table for name in found}
            for side in (ours, golds)
        )
        if own - other and other - own:
            return True
    return False


def _lacks(one: Mapping[_Path, Counter[str]], other: Mapping[_Path, Counter[str]], path: _Path) -> bool:
    """Whether `one` does not have all that `other` has in a place, nor has it moved there from another depth."""
    moved = {name for place, found in one.items() if place[-1] is path[-1] and place not in other for name in found}
    return not moved.issuperset(other[path] - one[path])


# A query as something to compare: clause by clause, nested queries inside.


def _clauses(query: Query, same: Callable[[str], str] | None) -> Mapping[Clause, Hashable]:
    """What stands in each clause. Columns are named by `same`; None leaves columns and tables out."""

    def column(name: str) -> str | None:
        return same(name) if same else None

    def nested(query: Query) -> Hashable:
        return tuple(_clauses(query, same).values())

    def expression(found: Expression) -> Hashable:
        uses = (found.left, found.right) if found.right else (found.left,)
        return (found.operator, *((use.aggregate, column(use.column)) for use in uses))

    def condition(found: Condition) -> Hashable:
        values = [nested(value) if isinstance(value, Query) else None for value in (found.low, found.high)]
        return (found.negated, found.operator, expression(found.left), *values)

    def conditions(found: Conditions) -> Hashable:
        parts = [part for part in found if isinstance(part, Condition)]
        connectives = frozenset(part for part in found if isinstance(part, str))
        return _bag(map(condition, parts)), connectives

    order = query.order
    tables = [nested(table) if isinstance(table, Query) else table for table in query.tables]
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


# The columns of a query by the place they stand in.


def _by_path(query: Query, same: Callable[[str], str]) -> dict[_Path, Counter[str]]:
    found: dict[_Path, Counter[str]] = {}
    for path, name in _names(query):
        found.setdefault(path, Counter())[name if path[-1] is Clause.TABLES else same(name)] += 1
    return found


def _names(query: Query) -> Iterator[tuple[_Path, str]]:
    """Every column and table of a query with its place, nested queries included."""
    expressions: list[tuple[Clause, Expression]] = [(Clause.SELECT, item.expression) for item in query.select]
    expressions += [(Clause.ORDER, item) for item in (query.order.items if query.order else ())]
    inner: list[tuple[Clause, Query]] = [(Clause.SET_OPERATION, query.other)] if query.other else []
    for clause, conditions in ((Clause.WHERE, query.where), (Clause.HAVING, query.having)):
        for condition in conditions:
            if isinstance(condition, Condition):
                expressions.append((clause, condition.left))
                inner += [(clause, value) for value in (condition.low, condition.high) if isinstance(value, Query)]
    for clause, expression in expressions:
        for use in (expression.left, expression.right):
            if use:
                yield (clause,), use.column
    for use in query.group:
        yield (Clause.GROUP,), use.column
    for table in query.tables:
        if isinstance(table, Query):
            inner.append((Clause.TABLES, table))
        else:
            yield (Clause.TABLES,), table
    for clause, part in inner:
        for path, name in _names(part):
            yield (clause, *path), name
