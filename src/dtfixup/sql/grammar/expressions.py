"""Conditions and expressions: sqlglot's nodes to rules of the grammar. A part of `reader.py`.

In: an expression, and the tables its columns may come from. Out: its node, or an error that names what the grammar
lacks.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import MAX_DIGITS, PLAIN_NUMBER, Literal, Node, Occurrence, Reference, refer

STAR = -1
"""A `*` whose table is not chosen yet."""
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "Count",
    exp.Max: "Max",
    exp.Min: "Min",
    exp.Sum: "Sum",
    exp.Avg: "Avg",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "Add", exp.Sub: "Subtract", exp.Mul: "Multiply", exp.Div: "Divide"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "Equal",
    exp.NEQ: "NotEqual",
    exp.LT: "Less",
    exp.LTE: "LessEqual",
    exp.GT: "Greater",
    exp.GTE: "GreaterEqual",
}
_NEGATIONS = {"Like": "NotLike", "In": "NotIn", "OneOf": "NoneOf", "IsNull": "NotNull"}


Scope: TypeAlias = Sequence[tuple[str, Occurrence]]
"""The tables of one query, each with the name that its columns use."""


class ExpressionReader:
    """Reads expressions over one schema.

    `read_column` reads a nested query of one column. `quotes_strings`: whether "x" is a string in the dialect if no
    column has the name x.
    """

    def __init__(self, schema: Schema, read_column: Callable[[exp.Expr], Node], *, quotes_strings: bool) -> None:
        self._schema = schema
        self._quotes_strings = quotes_strings
        self._read_column = read_column

    def number(self, value: exp.Expr) -> Literal:
        """The number of a LIMIT."""
        if isinstance(value, exp.Literal) and not value.is_string and _plain_number(value.name).isdigit():
            return Literal(_plain_number(value.name), ValueKind.NUMBER)
        raise SqlError(f"LIMIT {value.sql()} is not in the grammar: a whole number is")

    def condition(self, condition: exp.Expr, scope: Scope) -> Node:
        condition = bare(condition)
        if isinstance(condition, exp.And | exp.Or):
            *parts, node = (self.condition(part, scope) for part in split(condition, type(condition)))
            for part in reversed(parts):
                node = Node(type(condition).__name__, (part, node))
            return node
        if isinstance(condition, exp.Not):
            return _negate(self.condition(condition.this, scope))
        if rule := _COMPARISONS.get(type(condition)):
            return Node(rule, (self.expression(condition.this, scope), self._right(condition.expression, scope)))
        if isinstance(condition, exp.Between):
            if condition.args.get("symmetric"):
                raise SqlError("BETWEEN SYMMETRIC is not in the grammar")
            bounds = (self._right(condition.args[side], scope) for side in ("low", "high"))
            return Node("Between", (self.expression(condition.this, scope), *bounds))
        if isinstance(condition, exp.Like):
            return self._like(condition, scope)
        if isinstance(condition, exp.In):
            return self._in(condition, scope)
        if isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null):
            return Node("IsNull", (self.expression(condition.this, scope),))
        raise SqlError(f"the condition {condition.sql()} is not in the grammar")

    def _like(self, condition: exp.Like, scope: Scope) -> Node:
        pattern = self._literal(condition.expression, scope)
        if pattern is None:
            raise SqlError(f"{condition.sql()} is not in the grammar: LIKE takes a literal")
        text = pattern.text
        inner = text.strip("%")
        shapes = {f"%{inner}%": "Contains", f"{inner}%": "StartsWith", f"%{inner}": "EndsWith"}
        rule = shapes.get(text) if inner and "%" not in inner else None
        node = Node(rule, (Literal(inner, ValueKind.TEXT),)) if rule else Node("Matches", (pattern,))
        like = Node("Like", (self.expression(condition.this, scope), node))
        return _negate(like) if condition.args.get("negate") else like

    def _in(self, condition: exp.In, scope: Scope) -> Node:
        left = self.expression(condition.this, scope)
        query = condition.args.get("query")
        if query is not None:
            return Node("In", (left, self._read_column(query)))
        values: Node | None = None
        for item in reversed(condition.expressions):
            literal = self._literal(item, scope)
            if literal is None:
                raise SqlError(f"{item.sql()} in a list is not in the grammar: literals are")
            values = Node("Last", (literal,)) if values is None else Node("More", (literal, values))
        if values is None:
            raise SqlError(f"{condition.sql()} is not in the grammar")
        return Node("OneOf", (left, values))

    def _right(self, side: exp.Expr, scope: Scope) -> Node:
        side = bare(side)
        if isinstance(side, exp.Subquery | exp.Query):
            return Node("Scalar", (self._read_column(side),))
        literal = self._literal(side, scope)
        return self.expression(side, scope) if literal is None else Node("Value", (literal,))

    def expression(self, expression: exp.Expr, scope: Scope) -> Node:
        expression = bare(expression)
        if isinstance(expression, exp.Column):
            reference = self.column(expression, scope)
            if reference is not None:
                return refer(reference)
        elif type(expression) in _AGGREGATES:
            return self._aggregate(expression, scope)
        elif rule := _ARITHMETIC.get(type(expression)):
            return Node(rule, (self.expression(expression.this, scope), self._operand(expression.expression, scope)))
        raise SqlError(f"{expression.sql()} is not in the grammar here")

    def _operand(self, side: exp.Expr, scope: Scope) -> Node:
        literal = self._literal(bare(side), scope)
        if literal is None:
            return self.expression(side, scope)
        if literal.kind is not ValueKind.NUMBER:
            raise SqlError(f"{side.sql()} is not a number to calculate with")
        return Node("Value", (literal,))

    def _aggregate(self, call: exp.Expr, scope: Scope) -> Node:
        name = _AGGREGATES[type(call)]
        argument = call.this
        distinct = isinstance(argument, exp.Distinct)
        if clauses(call) - {"this", "big_int"} or (distinct and len(argument.expressions) != 1):
            raise SqlError(f"{call.sql()} is not in the grammar: one column is")
        if argument is None:
            raise SqlError(f"{name.lower()}() of nothing is not in the grammar")
        argument = bare(argument.expressions[0] if distinct else argument)
        if isinstance(argument, exp.Star):
            if name != "Count" or distinct:
                raise SqlError(f"{call.sql()} is not SQL")
            return Node("Count", (STAR,))
        inner = self.expression(argument, scope)
        if inner.rule == "Column" and not (distinct and name != "Count"):
            return Node("CountDistinct" if distinct else name, inner.children)
        return Node("Apply", (Node(f"Of{name}"), Node("OfDistinct") if distinct else None, inner))

    def _literal(self, value: exp.Expr, scope: Scope) -> Literal | None:
        """The literal of an expression; None if it is not one."""
        if isinstance(value, exp.Literal):
            if value.is_string:
                return Literal(value.name, ValueKind.TEXT)
            return Literal(_plain_number(value.name), ValueKind.NUMBER)
        if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal) and not value.this.is_string:
            return Literal(f"-{_plain_number(value.this.name)}", ValueKind.NUMBER)
        if isinstance(value, exp.Boolean):
            return Literal("1" if value.this else "0", ValueKind.NUMBER)
        if isinstance(value, exp.Column) and value.this.args.get("quoted") and not value.table:
            is_string = self._quotes_strings and self.find(value.name, scope) is None
            return Literal(value.name, ValueKind.TEXT) if is_string else None
        return None

    def column(self, column: exp.Expr, scope: Scope) -> Reference | None:
        """The column and occurrence that a name refers to; None for a double-quoted string."""
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            raise SqlError(f"{column.sql()} is not a column")
        if column.table:
            qualifier = column.table.lower()
            for name, (table, which) in scope:
                index = self._schema.find_column(table, column.name) if name == qualifier else None
                if index is not None:
                    return index, which
            raise SqlError(f"there is no column {column.sql()} in this query's tables")
        reference = self.find(column.name, scope)
        if reference is None and not (self._quotes_strings and column.this.args.get("quoted")):
            raise SqlError(f"there is no column {column.name!r} in this query's tables")
        return reference

    def find(self, name: str, scope: Scope) -> Reference | None:
        """The first column of that name, and the occurrence of its table."""
        for _, (table, which) in scope:
            column = self._schema.find_column(table, name)
            if column is not None:
                return column, which
        return None


def bare(expression: exp.Expr) -> exp.Expr:
    """The expression without the parentheses around it."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def split(expression: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    """The parts that AND or OR connects."""
    expression = bare(expression)
    if not isinstance(expression, connector):
        return [expression]
    return [*split(expression.this, connector), *split(expression.expression, connector)]


def clauses(expression: exp.Expr) -> set[str]:
    """The names that sqlglot gives to what is present in an expression."""
    return {name for name, value in expression.args.items() if value}


def _negate(node: Node) -> Node:
    return Node(_NEGATIONS[node.rule], node.children) if node.rule in _NEGATIONS else Node("Not", (node,))


def _plain_number(number: str) -> str:
    """A number without exponent, leading zeros or final dot."""
    if PLAIN_NUMBER.fullmatch(number):
        return number
    try:
        value = Decimal(number)
    except InvalidOperation:
        raise SqlError(f"the number {number} is not in the grammar: decimal ones are") from None
    if not value.is_finite() or abs(value.adjusted()) > MAX_DIGITS:
        raise SqlError(f"a number of more than {MAX_DIGITS} digits is not in the grammar")
    return f"{value:f}"
