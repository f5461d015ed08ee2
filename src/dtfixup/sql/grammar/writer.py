"""Trees to SQL text, with literals in place or as bound parameters.

In: a tree of `grammar.txt`'s rules and the schema. Out: one SELECT in SQLite's dialect, which sqlglot turns into
others. Names are quoted where SQL demands it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import ColumnType, Schema, quoted
from dtfixup.sql.grammar.joins import Join, Joiner
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import GROUPINGS, OCCURRENCES, PLAIN_NUMBER, Child, Literal, Node, Occurrence, occurrences

_COMPARISONS = {
    "Equal": "=",
    "NotEqual": "!=",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
}
_ARITHMETIC = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}
_AGGREGATES = {"Count", "Max", "Min", "Sum", "Avg"}
_PATTERNS = {"Contains": "%{}%", "StartsWith": "{}%", "EndsWith": "%{}", "Matches": "{}"}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT64 = range(-(2**63), 2**63)
_NUMERIC_TYPES = {ColumnType.NUMBER, ColumnType.BOOLEAN}

# Words that SQLite, PostgreSQL or MariaDB accept as names only in quotes.
_RESERVED_TEXT = """
    abort action add after all alter always analyse analyze and any array as asc asymmetric attach autoincrement
    before begin between both by call cascade case cast change check collate column commit condition conflict
    constraint convert create cross current current_date current_time current_timestamp current_user database
    databases default deferrable delete desc describe detach distinct div do drop each else end escape except
    exclude exclusive exists explain fail false fetch filter first following for foreign from full function
    generated glob grant group groups having if ignore immediate in index indexed initially inner insert instead
    intersect interval into is isnull join key keys kill last leading left like limit lines load lock match
    materialized natural no not nothing notnull null nulls of offset on only option or order others out outer over
    partition plan pragma preceding primary procedure query raise range rank read recursive references regexp
    reindex release rename repeat replace restrict returning right rollback row rows savepoint schema select
    session_user set show similar some symmetric table temp temporary then ties to trailing transaction trigger true
    unbounded union unique update use user using vacuum values variadic verbose view virtual when where window with
    without write
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """SQL text, and the values of its placeholders in order."""

    sql: str
    parameters: tuple[str | int | float, ...] = ()


class SqlWriter:
    """Writes queries over one schema; `quote_names=False` leaves names bare for Spider's official script."""

    def __init__(self, schema: Schema, joiner: Joiner | None = None, *, quote_names: bool = True) -> None:
        self.schema = schema
        self.joiner = joiner or Joiner(schema)
        self._quote_names = quote_names

    def write(self, tree: Node) -> str:
        """SQL with its literals in place."""
        return _Query(self, None).statement(tree)

    def write_bound(self, tree: Node, placeholder: Callable[[int], str] = lambda _: "?") -> BoundQuery:
        """SQL with a placeholder for each literal, and the literals.

        `placeholder` returns the text for a position, counted from 1. A guarded connection has its own:
        `write_bound(tree, connection.placeholder)`.
        """
        query = _Query(self, placeholder)
        sql = query.statement(tree)
        return BoundQuery(sql, tuple(query.parameters))

    def identifier(self, name: str) -> str:
        """A name as written in a query, quoted if necessary."""
        if not self._quote_names or (_BARE.fullmatch(name) and name.lower() not in _RESERVED):
            return name
        if "\0" in name:
            raise SqlError(f"the name {name!r} contains a NUL character, which no database allows")
        return quoted(name)


class _Query:
    """One query, nested ones included, with the literals and the number of aliases so far."""

    def __init__(self, writer: SqlWriter, placeholder: Callable[[int], str] | None) -> None:
        self.writer = writer
        self._placeholder = placeholder
        self.aliases = 0
        self.parameters: list[str | int | float] = []

    def statement(self, node: Node) -> str:
        match node:
            case Node("CountRows", (Node() as inner,)):
                return f"SELECT count(*) FROM ({self.statement(inner)})"
            case Node("Union" | "Intersect" | "Except" as rule, (Node(_, (Node() as left, Node() as right)),)):
                return f"{self.statement(left)} {rule.upper()} {self.statement(right)}"
            case Node("UnionRows" | "IntersectRows" | "ExceptRows" as rule, (_, first, second, _)):
                operation = rule.removesuffix("Rows").upper()
                select = _Select(self, node)
                return f" {operation} ".join(f"SELECT * {select.source(where)}" for where in (first, second))
            case Node("Plain" | "Member", (select_list, where, *_)):
                select = _Select(self, node)
                parts = [select.items(select_list), select.source(where)]
            case Node("Grouped" | "GroupedMember", (select_list, where, group, having, *_)):
                select = _Select(self, node)
                parts = [select.items(select_list), select.source(where), f"GROUP BY {select.group(group)}"]
                if isinstance(having, Node):
                    parts.append(f"HAVING {select.condition(having)}")
            case _:
                raise SqlError(f"{node.rule} is not a query")
        order = node.children[-2] if node.rule in {"Plain", "Grouped"} else None
        if isinstance(order, Node):
            parts.append(select.order(order))
        return f"SELECT {' '.join(parts)}"

    def literal(self, literal: Literal, *, is_number: bool | None) -> str:
        """A literal or its placeholder; where `is_number` is None, the literal's own kind decides."""
        if is_number is None:
            is_number = literal.kind is ValueKind.NUMBER
        value: str | int | float = literal.text
        if is_number and PLAIN_NUMBER.fullmatch(literal.text):
            value = float(literal.text) if "." in literal.text else int(literal.text)
            if isinstance(value, int) and value not in _INT64:
                value = float(value)  # as SQLite reads it
        if self._placeholder is not None:
            self.parameters.append(value)
            return self._placeholder(len(self.parameters))
        if not isinstance(value, str):
            return literal.text
        if "\0" in value:
            raise SqlError("SQL text cannot contain a NUL character: bind the literal with write_bound")
        return "'" + value.replace("'", "''") + "'"


class _Select:
    """The clauses of one SELECT, and its columns by alias and name."""

    def __init__(self, query: _Query, node: Node) -> None:
        self._query, self._writer, self._schema = query, query.writer, query.writer.schema
        source = node.children[-1]
        joins = self._writer.joiner.build(occurrences(node, self._schema), source if isinstance(source, Node) else None)
        if not joins:
            raise SqlError("the query reads no table")
        is_alone = len(joins) == 1
        self._alias: dict[Occurrence, str] = {
            (join.table, join.occurrence): "" if is_alone else f"T{number}."
            for number, join in enumerate(joins, query.aliases + 1)
        }
        query.aliases += 0 if is_alone else len(joins)
        self._conditions = self._on(joins[0]) if is_alone else []
        """Conditions on a lone table, which has no ON."""
        parts = [f"FROM {self._table(joins[0])}"]
        for join in joins[1:]:
            parts.append(f"JOIN {self._table(join)}")
            if join.conditions:
                parts.append(f"ON {' AND '.join(self._on(join))}")
        self._from = " ".join(parts)

    def _on(self, join: Join) -> list[str]:
        """The conditions of ON; one with an OR is in parentheses if there are several."""
        conditions = []
        for condition in join.conditions:
            text = " OR ".join(f"{self._column(*left)} = {self._column(*right)}" for left, right in condition)
            conditions.append(f"({text})" if len(condition) > 1 and len(join.conditions) > 1 else text)
        return conditions

    def _table(self, join: Join) -> str:
        table = self._schema.tables[join.table]
        name = self._writer.identifier(table.name)
        if table.namespace is not None:
            name = f"{self._writer.identifier(table.namespace)}.{name}"
        alias = self._alias[join.table, join.occurrence]
        return f"{name} AS {alias.removesuffix('.')}" if alias else name

    def _column(self, column: int, occurrence: int) -> str:
        if self._schema.is_star(column):
            return "*"
        name = self._writer.identifier(self._schema.columns[column].name)
        return f"{self._alias[self._schema.columns[column].table, occurrence]}{name}"

    def items(self, select_list: Child) -> str:
        node = _expect(select_list, Node)
        if node.rule == "Distinct":
            return f"DISTINCT {self.items(node.children[0])}"
        return ", ".join(self._expression(_expect(item, Node)) for item in node.children)

    def source(self, where: Child) -> str:
        """FROM and WHERE."""
        conditions = self._conditions
        if isinstance(where, Node):
            text = self.condition(where)
            conditions = [f"({condition})" if " OR " in condition else condition for condition in conditions]
            conditions.append(f"({text})" if conditions and where.rule == "Or" else text)
        return f"{self._from} WHERE {' AND '.join(conditions)}" if conditions else self._from

    def group(self, keys: Child) -> str:
        node = _expect(keys, Node)
        first = self._column(_expect(node.children[0], int), GROUPINGS[node.rule])
        return first if len(node.children) == 1 else f"{first}, {self.group(node.children[1])}"

    def order(self, order: Node) -> str:
        match order:
            case Node("Highest" | "Lowest" as rule, (Node() as key,)):
                return f"ORDER BY {self._expression(key)} {'DESC' if rule == 'Highest' else 'ASC'} LIMIT 1"
            case Node("First", (count,)):
                return self._limit(count)
            case Node("Sorted", (keys, None)):
                return f"ORDER BY {self._keys(keys)}"
            case Node("Sorted", (keys, Node() as limit)):
                return f"ORDER BY {self._keys(keys)} {self._limit(limit.children[0])}"
        raise SqlError(f"{order.rule} is not an order")

    def _limit(self, count: Child) -> str:
        return f"LIMIT {self._query.literal(_expect(count, Literal), is_number=True)}"

    def _keys(self, keys: Child) -> str:
        node = _expect(keys, Node)
        direction = "DESC" if node.rule.startswith("Descending") else "ASC"
        first = f"{self._expression(_expect(node.children[0], Node))} {direction}"
        return first if len(node.children) == 1 else f"{first}, {self._keys(node.children[1])}"

    def condition(self, node: Node) -> str:
        match node:
            case Node("And", (Node() as left, Node() as right)):
                sides = ((side, self.condition(side)) for side in (left, right))
                return " AND ".join(f"({text})" if side.rule == "Or" else text for side, text in sides)
            case Node("Or", (Node() as left, Node() as right)):
                return f"{self.condition(left)} OR {self.condition(right)}"
            case Node("Not", (Node("Between") as inner,)):
                return self._compare(inner, negation="NOT ")
            case Node("Not", (Node() as inner,)):
                return f"NOT ({self.condition(inner)})"
        return self._compare(node)

    def _compare(self, node: Node, negation: str = "") -> str:
        """A condition on the value of an expression."""
        left = _expect(node.children[0], Node)
        text, is_number = self._expression(left), self._is_number(left)
        negation = negation or ("NOT " if node.rule in {"NotLike", "NotIn", "NoneOf", "NotNull"} else "")
        match node:
            case Node("IsNull" | "NotNull", (_,)):
                return f"{text} IS {negation}NULL"
            case Node("Between", (_, Node() as low, Node() as high)):
                return f"{text} {negation}BETWEEN {self._right(low, is_number)} AND {self._right(high, is_number)}"
            case Node(comparison, (_, Node() as right)) if comparison in _COMPARISONS:
                return f"{text} {_COMPARISONS[comparison]} {self._right(right, is_number)}"
            case Node("Like" | "NotLike", (_, Node(shape, (Literal() as literal,)))):
                pattern = Literal(_PATTERNS[shape].format(literal.text), ValueKind.TEXT)
                return f"{text} {negation}LIKE {self._query.literal(pattern, is_number=False)}"
            case Node("In" | "NotIn", (_, Node() as statement)):
                return f"{text} {negation}IN ({self._query.statement(statement)})"
            case Node("OneOf" | "NoneOf", (_, values)):
                return f"{text} {negation}IN ({self._values(values, is_number)})"
        raise SqlError(f"{node.rule} is not a condition")

    def _values(self, values: Child, is_number: bool | None) -> str:
        node = _expect(values, Node)
        first = self._query.literal(_expect(node.children[0], Literal), is_number=is_number)
        return first if node.rule == "Last" else f"{first}, {self._values(node.children[1], is_number)}"

    def _right(self, node: Node, is_number: bool | None) -> str:
        match node:
            case Node("Value", (Literal() as literal,)):
                return self._query.literal(literal, is_number=is_number)
            case Node("Scalar", (Node() as statement,)):
                return f"({self._query.statement(statement)})"
        return self._expression(node)

    def _expression(self, node: Node) -> str:
        match node:
            case Node(rule, (int() as column,)) if rule in OCCURRENCES:
                return self._column(column, OCCURRENCES[rule])
            case Node("CountDistinct", (int() as column,)):
                return f"count(DISTINCT {self._column(column, 1)})"
            case Node(rule, (int() as column,)) if rule in _AGGREGATES:
                return f"{rule.lower()}({self._column(column, 1)})"
            case Node("Apply", (Node(function), distinct, Node() as inner)):
                argument = f"{'DISTINCT ' if distinct else ''}{self._expression(inner)}"
                return f"{function.removeprefix('Of').lower()}({argument})"
            case Node("Value", (Literal() as literal,)):
                return self._query.literal(literal, is_number=True)
            case Node(rule, (Node() as left, Node() as right)) if rule in _ARITHMETIC:
                binds = rule in {"Multiply", "Divide"}
                first = self._side(left, _ARITHMETIC if binds else ())
                second = self._side(right, _ARITHMETIC if binds else ("Add", "Subtract"))
                return f"{first} {_ARITHMETIC[rule]} {second}"
        raise SqlError(f"{node.rule} is not an expression")

    def _side(self, node: Node, weak: Collection[str]) -> str:
        """One side of an operation, in parentheses if it binds less: rounding depends on the order."""
        return f"({self._expression(node)})" if node.rule in weak else self._expression(node)

    def _is_number(self, node: Node) -> bool | None:
        """Whether a literal compared with this is a number; None if the literal itself decides."""
        is_column = node.rule in OCCURRENCES
        if not is_column and node.rule not in {"Max", "Min"}:
            return True
        kind = self._schema.columns[_expect(node.children[0], int)].type
        if kind in _NUMERIC_TYPES:
            return True
        # A literal takes the type of its column; max() and min() return no type, and a year is a number.
        return None if not is_column and kind is not ColumnType.TEXT else False


_Kind = TypeVar("_Kind", Node, Literal, int)
_NAMES = {Node: "a rule", Literal: "a literal", int: "a column"}


def _expect(child: Child, kind: type[_Kind]) -> _Kind:
    """The child, or an error where it is of another kind."""
    if not isinstance(child, kind):
        raise SqlError(f"expected {_NAMES[kind]}, found {child!r}")
    return child
