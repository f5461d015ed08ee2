"""Which rows make a query return something. Variants of a database get such rows, so that they really test the query.

In: the text of a gold query. Out: a `Witness`: slots for rows, conditions on single cells, and pairs of equal cells.
"""

from dataclasses import dataclass

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.spider_reader import NONE, STAR, ColumnUse, Condition, SpiderQuery, read_query, schema_names

LiteralValue = int | float | str


@dataclass(frozen=True, slots=True)
class WitnessCell:
    """A column of the row in a slot.

    A slot is a table of FROM in one part of the query. Two occurrences of a table in one part share it.
    """

    part: int
    column: int


@dataclass(frozen=True, slots=True)
class CellCondition:
    """A comparison of a cell with literals; BETWEEN has two."""

    cell: WitnessCell
    operator: str
    literals: tuple[LiteralValue, ...]


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The number of rows that must share the value of a cell, from GROUP BY with HAVING count(*)."""

    cell: WitnessCell
    size: int


@dataclass(frozen=True, slots=True)
class Witness:
    """Conditions that can hold together, cells that must be equal, and groups that must be large."""

    conditions: tuple[CellCondition, ...] = ()
    pairs: tuple[tuple[WitnessCell, WitnessCell], ...] = ()
    groups: tuple[GroupSize, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()
    """(part, table) of every row needed."""


def witness_of(gold: str, schema: Schema) -> Witness:
    """The rows that a query looks for; none for a query that the official script cannot read."""
    try:
        query = read_query(gold, schema_names(schema))
    except SqlError:
        return Witness()
    collector = _Collector(schema)
    collector.collect(query)
    return Witness(
        tuple(collector.conditions),
        tuple(collector.pairs),
        tuple(collector.groups),
        tuple(dict.fromkeys(collector.slots)),
    )


class _Collector:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts = 0
        self.conditions: list[CellCondition] = []
        self.pairs: list[tuple[WitnessCell, WitnessCell]] = []
        self.groups: list[GroupSize] = []
        self.slots: list[tuple[int, int]] = []

    def collect(self, query: SpiderQuery) -> int:
        """Collect from a query and everything inside it; returns the number of its part."""
        part = self._parts
        self._parts += 1
        for table in query.tables:
            if isinstance(table, SpiderQuery):
                self.collect(table)
            else:
                self.slots.append((part, self._schema.table_index[table]))
        for condition in (*query.joins, *query.where, *query.having):
            if isinstance(condition, Condition):
                self._collect_condition(condition, part)
        grouped = self._column(query.group[0]) if query.group else None
        for having in query.having:
            if grouped is not None and isinstance(having, Condition) and having.left.left.aggregate == "count":
                size = having.low if isinstance(having.low, float) else 1
                self.groups.append(GroupSize(WitnessCell(part, grouped), int(size) + (having.operator == ">")))
        if query.other is not None:
            other = self.collect(query.other)
            if query.set_operation == "intersect":
                for ours, theirs in zip(query.select, query.other.select, strict=False):
                    self._pair(ours.expression.left, part, theirs.expression.left, other)
        return part

    def _collect_condition(self, condition: Condition, part: int) -> None:
        left = condition.left.left
        values = [value for value in (condition.low, condition.high) if value is not None]
        inner = [self.collect(nested) for nested in condition.nested]
        if condition.negated or condition.left.right is not None or left.aggregate == "count":
            return
        low = condition.low
        if isinstance(low, ColumnUse) and condition.operator == "=":
            self._pair(left, part, low, part)
        elif isinstance(low, SpiderQuery) and condition.operator in ("in", "=") and low.select:
            self._pair(left, part, low.select[0].expression.left, inner[0])
        literals = tuple(_literal(value) for value in values if isinstance(value, float | str))
        column = self._column(left)
        if literals and column is not None:
            self.conditions.append(CellCondition(WitnessCell(part, column), condition.operator, literals))

    def _pair(self, left: ColumnUse, left_part: int, right: ColumnUse, right_part: int) -> None:
        columns = self._column(left), self._column(right)
        if columns[0] is not None and columns[1] is not None and left.aggregate == right.aggregate == NONE:
            self.pairs.append((WitnessCell(left_part, columns[0]), WitnessCell(right_part, columns[1])))

    def _column(self, use: ColumnUse) -> int | None:
        if use.column == STAR:
            return None
        table, _, column = use.column.partition(".")
        return self._schema.column_index[self._schema.table_index[table], column]


def _literal(value: float | str) -> LiteralValue:
    if isinstance(value, str):
        return value[1:-1]
    return int(value) if value.is_integer() else value
