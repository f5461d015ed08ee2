"""Trees to SQL text, with literals in place or as bound parameters.

In: a tree of `grammar.txt`'s rules and the schema. Out: one SELECT in SQLite's dialect, which sqlglot turns into
others. Names are quoted where SQL demands it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Writing:
    """The state of writing one query: where literals go, and how many aliases are in use, nested queries included."""

    placeholder: Callable[[int], str] | None
    aliases: int = 0
    parameters: list[str | int | float] = field(default_factory=list)


class SqlWriter:
    """Writes queries over one schema; `quote_names=False` leaves names bare for Spider's official script."""

    def __init__(self, schema: Schema, joiner: Joiner | None = None, *, quote_names: bool = True) -> None:
        self.schema = schema
        self.joiner = joiner or Joiner(schema)
        self._quote_names = quote_names

    def write(self, tree: Node) -> str:
        """SQL with its literals in place."""
        return self._statement(tree, _Writing(None))

    def write_bound(self, tree: Node, placeholder: Callable[[int], str] = lambda _: "?") -> BoundQuery:
        """SQL with a placeholder for each literal, and the literals.

        `placeholder` gives the text at a position, counted from 1; a guarded connection has its own:
        `write_bound(tree, connection.placeholder)`.
        """
        writing = _Writing(placeholder)
        sql = self._statement(tree, writing)
        return BoundQuery(sql, tuple(writing.parameters))

    def _statement(self, node: Node, writing: _Writing) -> str:
        match node:
            case Node("CountRows", (Node() as inner,)):
                return f"SELECT count(*) FROM ({self._statement(inner, writing)})"
            case Node("Union" | "Intersect" | "Except" as rule, (Node(_, (Node() as left, Node() as right)),)):
                first, second = self._statement(left, writing), self._statement(right, writing)
                return f"{first} {rule.upper()} {second}"
            case Node("UnionRows" | "IntersectRows" | "ExceptRows" as rule, (_, first, second, source)):
                operation = rule.removesuffix("Rows").upper()
                clause = self._from_clause(node, source, writing)
                sides = [f"SELECT * {clause.sql}{self._where(where, clause, writing)}" for where in (first, second)]
                return f" {operation} ".join(sides)
            case Node("Plain" | "Grouped" | "Member" | "GroupedMember"):
                return self._select(node, writing)
        raise SqlError(f"{node.rule} is not a query")

    def _select(self, node: Node, writing: _Writing) -> str:
        grouped = node.rule in {"Grouped", "GroupedMember"}
        ordered = node.rule in {"Plain", "Grouped"}
        clause = self._from_clause(node, node.children[-1], writing)
        select, where = node.children[:2]
        items = self._select_list(_node(select), clause, writing)
        parts = [f"SELECT {items} {clause.sql}{self._where(where, clause, writing)}"]
        if grouped:
            parts.append(f"GROUP BY {self._group(_node(node.children[2]), clause)}")
            if isinstance(node.children[3], Node):
                parts.append(f"HAVING {self._condition(node.children[3], clause, writing)}")
        order = node.children[-2] if ordered else None
        if isinstance(order, Node):
            parts.append(self._order(order, clause, writing))
        return " ".join(parts)

    def _from_clause(self, node: Node, source: Child, writing: _Writing) -> "_FromClause":
        joins = self.joiner.build(occurrences(node, self.schema), source if isinstance(source, Node) else None)
        return _FromClause(self, joins, writing)

    def _select_list(self, select: Node, clause: "_FromClause", writing: _Writing) -> str:
        if select.rule == "Distinct":
            return f"DISTINCT {self._select_list(_node(select.children[0]), clause, writing)}"
        return ", ".join(self._expression(_node(item), clause, writing) for item in select.children)

    def _where(self, where: Child, clause: "_FromClause", writing: _Writing) -> str:
        conditions = list(clause.conditions)
        if isinstance(where, Node):
            conditions = [f"({condition})" if " OR " in condition else condition for condition in conditions]
            text = self._condition(where, clause, writing)
            conditions.append(f"({text})" if conditions and where.rule == "Or" else text)
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _group(self, group: Node, clause: "_FromClause") -> str:
        first = clause.column(_column(group.children[0]), GROUPINGS[group.rule])
        return first if len(group.children) == 1 else f"{first}, {self._group(_node(group.children[1]), clause)}"

    def _order(self, order: Node, clause: "_FromClause", writing: _Writing) -> str:
        match order:
            case Node("Highest" | "Lowest" as rule, (Node() as key,)):
                direction = "DESC" if rule == "Highest" else "ASC"
                return f"ORDER BY {self._expression(key, clause, writing)} {direction} LIMIT 1"
            case Node("First", (Literal() as count,)):
                return f"LIMIT {self._literal(count, writing, number=True)}"
            case Node("Sorted", (Node() as keys, limit)):
                text = f"ORDER BY {self._keys(keys, clause, writing)}"
                if isinstance(limit, Node):
                    text += f" LIMIT {self._literal(_literal(limit.children[0]), writing, number=True)}"
                return text
        raise SqlError(f"{order.rule} is not an order")

    def _keys(self, keys: Node, clause: "_FromClause", writing: _Writing) -> str:
        direction = "DESC" if keys.rule.startswith("Descending") else "ASC"
        first = f"{self._expression(_node(keys.children[0]), clause, writing)} {direction}"
        return first if len(keys.children) == 1 else f"{first}, {self._keys(_node(keys.children[1]), clause, writing)}"

    def _condition(self, node: Node, clause: "_FromClause", writing: _Writing) -> str:
        match node:
            case Node("And" | "Or" as rule, (Node() as left, Node() as right)):
                sides = [self._condition(side, clause, writing) for side in (left, right)]
                if rule == "And":
                    sides = [
                        f"({text})" if side.rule == "Or" else text
                        for side, text in zip((left, right), sides, strict=True)
                    ]
                return f" {rule.upper()} ".join(sides)
            case Node("Not", (Node("Between", (Node() as left, Node() as low, Node() as high)),)):
                return self._between(left, low, high, clause, writing, word="NOT BETWEEN")
            case Node("Not", (Node() as inner,)):
                return f"NOT ({self._condition(inner, clause, writing)})"
            case Node("IsNull" | "NotNull" as rule, (Node() as left,)):
                return f"{self._expression(left, clause, writing)} IS {'NOT ' if rule == 'NotNull' else ''}NULL"
            case Node("Between", (Node() as left, Node() as low, Node() as high)):
                return self._between(left, low, high, clause, writing)
        left = _node(node.children[0])
        text, number = self._expression(left, clause, writing), self._is_number(left)
        match node:
            case Node(comparison, (_, Node() as right)) if comparison in _COMPARISONS:
                return f"{text} {_COMPARISONS[comparison]} {self._right(right, clause, writing, number)}"
            case Node("Like" | "NotLike" as like, (_, Node(shape, (Literal() as literal,)))):
                pattern = Literal(_PATTERNS[shape].format(literal.text), ValueKind.TEXT)
                return (
                    f"{text} {'NOT ' if like == 'NotLike' else ''}LIKE {self._literal(pattern, writing, number=False)}"
                )
            case Node("In" | "NotIn" as member, (_, Node() as statement)):
                return f"{text} {'NOT ' if member == 'NotIn' else ''}IN ({self._statement(statement, writing)})"
            case Node("OneOf" | "NoneOf" as listed, (_, Node() as values)):
                return f"{text} {'NOT ' if listed == 'NoneOf' else ''}IN ({self._values(values, writing, number)})"
        raise SqlError(f"{node.rule} is not a condition")

    def _between(
        self, left: Node, low: Node, high: Node, clause: "_FromClause", writing: _Writing, word: str = "BETWEEN"
    ) -> str:
        text, number = self._expression(left, clause, writing), self._is_number(left)
        bounds = [self._right(side, clause, writing, number) for side in (low, high)]
        return f"{text} {word} {bounds[0]} AND {bounds[1]}"

    def _values(self, values: Node, writing: _Writing, number: bool | None) -> str:
        first = self._literal(_literal(values.children[0]), writing, number=number)
        return (
            first if values.rule == "Last" else f"{first}, {self._values(_node(values.children[1]), writing, number)}"
        )

    def _right(self, node: Node, clause: "_FromClause", writing: _Writing, number: bool | None) -> str:
        match node:
            case Node("Value", (Literal() as literal,)):
                return self._literal(literal, writing, number=number)
            case Node("Scalar", (Node() as statement,)):
                return f"({self._statement(statement, writing)})"
        return self._expression(node, clause, writing)

    def _expression(self, node: Node, clause: "_FromClause", writing: _Writing) -> str:
        match node:
            case Node(rule, (int() as column,)) if rule in OCCURRENCES:
                return clause.column(column, OCCURRENCES[rule])
            case Node("CountDistinct", (int() as column,)):
                return f"count(DISTINCT {clause.column(column, 1)})"
            case Node(rule, (int() as column,)) if rule in _AGGREGATES:
                return f"{rule.lower()}({clause.column(column, 1)})"
            case Node("Apply", (Node(function), distinct, Node() as inner)):
                argument = self._expression(inner, clause, writing)
                return f"{function.removeprefix('Of').lower()}({'DISTINCT ' if distinct else ''}{argument})"
            case Node("Value", (Literal() as literal,)):
                return self._literal(literal, writing, number=True)
            case Node(rule, (Node() as left, Node() as right)) if rule in _ARITHMETIC:
                binds = rule in {"Multiply", "Divide"}
                first = self._side(left, clause, writing, _ARITHMETIC if binds else ())
                second = self._side(right, clause, writing, _ARITHMETIC if binds else ("Add", "Subtract"))
                return f"{first} {_ARITHMETIC[rule]} {second}"
        raise SqlError(f"{node.rule} is not an expression")

    def _side(self, node: Node, clause: "_FromClause", writing: _Writing, weak: Collection[str]) -> str:
        """One side of an operation, in parentheses if it binds less: rounding depends on the order."""
        text = self._expression(node, clause, writing)
        return f"({text})" if node.rule in weak else text

    def _is_number(self, node: Node) -> bool | None:
        """Whether a literal compared with this is a number; None if the literal itself decides."""
        if node.rule not in OCCURRENCES and node.rule not in {"Max", "Min"}:
            return True
        kind = self.schema.columns[_column(node.children[0])].type
        if kind in _NUMERIC_TYPES:
            return True
        # A literal takes the type of its column; max() and min() return no type, and a year is a number.
        return None if node.rule not in OCCURRENCES and kind is not ColumnType.TEXT else False

    def _literal(self, literal: Literal, writing: _Writing, *, number: bool | None) -> str:
        is_number = literal.kind is ValueKind.NUMBER if number is None else number
        value: str | int | float = literal.text
        if is_number and PLAIN_NUMBER.fullmatch(literal.text):
            value = float(literal.text) if "." in literal.text else int(literal.text)
            if isinstance(value, int) and value not in _INT64:
                value = float(value)  # as SQLite reads it
        if writing.placeholder is not None:
            writing.parameters.append(value)
            return writing.placeholder(len(writing.parameters))
        if not isinstance(value, str):
            return literal.text
        if "\0" in value:
            raise SqlError("SQL text cannot contain a NUL character: bind the literal with write_bound")
        return "'" + value.replace("'", "''") + "'"

    def identifier(self, name: str) -> str:
        """A name as written in a query, quoted if necessary."""
        if not self._quote_names or (_BARE.fullmatch(name) and name.lower() not in _RESERVED):
            return name
        if "\0" in name:
            raise SqlError(f"the name {name!r} contains a NUL character, which no database allows")
        return quoted(name)


class _FromClause:
    """The FROM clause of one query, and its columns by alias and name."""

    def __init__(self, writer: SqlWriter, joins: tuple[Join, ...], writing: _Writing) -> None:
        if not joins:
            raise SqlError("the query reads no table")
        self._writer = writer
        alone = len(joins) == 1
        first = writing.aliases + 1
        self._alias: dict[Occurrence, str] = {
            (join.table, join.occurrence): "" if alone else f"T{number}." for number, join in enumerate(joins, first)
        }
        writing.aliases += 0 if alone else len(joins)
        self.conditions = self._on(joins[0]) if alone else []
        """Conditions on a lone table, which has no ON."""
        parts = [f"FROM {self._table(joins[0])}"]
        for join in joins[1:]:
            parts.append(f"JOIN {self._table(join)}")
            if join.conditions:
                parts.append(f"ON {' AND '.join(self._on(join))}")
        self.sql = " ".join(parts)

    def _on(self, join: Join) -> list[str]:
        """The conditions of ON; one with an OR is in parentheses if there are several."""
        conditions = []
        for condition in join.conditions:
            pairs = [f"{self.column(*left)} = {self.column(*right)}" for left, right in condition]
            conditions.append(
                f"({' OR '.join(pairs)})" if len(pairs) > 1 and len(join.conditions) > 1 else " OR ".join(pairs)
            )
        return conditions

    def _table(self, join: Join) -> str:
        table = self._writer.schema.tables[join.table]
        name = self._writer.identifier(table.name)
        if table.namespace is not None:
            name = f"{self._writer.identifier(table.namespace)}.{name}"
        alias = self._alias[join.table, join.occurrence]
        return f"{name} AS {alias.removesuffix('.')}" if alias else name

    def column(self, column: int, occurrence: int) -> str:
        """A column by its alias and name."""
        schema = self._writer.schema
        if schema.is_star(column):
            return "*"
        name = self._writer.identifier(schema.columns[column].name)
        return f"{self._alias[schema.columns[column].table, occurrence]}{name}"


def _node(child: Child) -> Node:
    if not isinstance(child, Node):
        raise SqlError(f"expected a rule, found {child!r}")
    return child


def _literal(child: Child) -> Literal:
    if not isinstance(child, Literal):
        raise SqlError(f"expected a literal, found {child!r}")
    return child


def _column(child: Child) -> int:
    if not isinstance(child, int):
        raise SqlError(f"expected a column, found {child!r}")
    return child
