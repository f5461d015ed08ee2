"""Translate a query of the grammar into the dialect of a server.

In: SQL that `SqlWriter` wrote, which is SQLite's, and the schema. Out: SQL of PostgreSQL or MariaDB/MySQL that gives
the same rows for the same data. docs/reference/dialects.md lists what is translated and what is left to the database.
sqlglot reads and writes; this adds what it cannot know: types of columns, keys, and what SQLite makes of a value of
another type. `dialects/selects.py` translates whole SELECTs, this file the expressions in them.
"""

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dtfixup.errors import SqlError
from dtfixup.sql.database.content import ContentIndex
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.dialects.selects import SelectTranslator, argument_of, leaves
from dtfixup.sql.dialects.types import ARITHMETIC, Types
from dtfixup.sql.execution.text_filter import check_statement

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_TRUTH = {"1": True, "true": True, "t": True, "yes": True, "y": True, "on": True}
_TRUTH |= {"0": False, "false": False, "f": False, "no": False, "n": False, "off": False}
_AS_NUMBER = r"""COALESCE(CAST(SUBSTRING(:x FROM
    '^\s*[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][-+]?[0-9]{1,2}(?![0-9]))?') AS DOUBLE PRECISION),
    CASE WHEN :x IS NOT NULL THEN 0 END)"""
"""The number that SQLite reads from a text in a sum: what it begins with, or 0. Exponents have two digits, because
PostgreSQL stops at a number that is too large, and a text such as 123e4567 is hardly a number."""


class Translator:
    """Translates queries over one schema.

    Args:
        schema: the schema of the database.
        dialect: its dialect.
        content: its stored values, which show how it writes dates; without them, dates are compared as text.
        declared: the server's names for the types of columns (`opened.declared_types`).
    """

    def __init__(
        self,
        schema: Schema,
        dialect: Dialect,
        *,
        content: ContentIndex | None = None,
        declared: Mapping[int, str] | None = None,
    ) -> None:
        self.dialect = dialect
        self._is_postgresql = dialect is Dialect.POSTGRESQL
        self._types = Types(schema, declared or {})
        self._selects = SelectTranslator(schema, dialect, self._types)
        self._content = content

    def translate(self, sql: str) -> str:
        """The query in the database's dialect; for SQLite it stays unchanged."""
        if self.dialect is Dialect.SQLITE:
            return sql
        check_statement(sql, Dialect.SQLITE)  # nesting that is too deep would end the process
        try:
            tree = sqlglot.parse_one(sql, read=Dialect.SQLITE.value)
        except SqlglotError as error:
            raise SqlError(f"the query cannot be read: {error}: {sql}") from None
        self._types.resolve(tree)
        for aggregate in list(tree.find_all(exp.Sum, exp.Avg, exp.Min, exp.Max)):
            self._aggregate(aggregate)
        for condition in list(tree.find_all(*_COMPARISONS, exp.Like, exp.In, exp.Between)):
            self._condition(condition)
        for operation in reversed(list(tree.find_all(*ARITHMETIC))):
            self._arithmetic(operation)
        tree = self._selects.translate(tree)
        for price in [column for column in tree.find_all(exp.Column) if self._types.is_money(column)]:
            price.replace(exp.cast(price.copy(), "DECIMAL"))
        for name in tree.find_all(exp.Identifier):
            name.set("quoted", not isinstance(name.parent, exp.TableAlias) and name.arg_key != "table")
        return tree.sql(dialect=self.dialect.value)

    # Conditions.

    def _condition(self, node: exp.Expr) -> None:
        match node:
            case exp.Like():
                self._like(node)
            case exp.In() if (query := node.args.get("query")) is not None:
                self._make_comparable(node.this, [query])
            case exp.In():
                self._drop_unequal(node)
                self._make_comparable(node.this, node.expressions)
            case exp.Between():
                self._make_comparable(node.this, [node.args["low"], node.args["high"]], is_order=True)
            case _:
                is_order = not isinstance(node, exp.EQ | exp.NEQ)
                self._make_comparable(node.this, [node.expression], is_order=is_order)

    def _like(self, node: exp.Like) -> None:
        """SQLite's LIKE compares anything as text, ignores letter case and has no escapes."""
        node.set("this", self._types.as_text(node.this))
        node.set("expression", exp.Literal.string(node.expression.name.replace("\\", "\\\\")))
        if self._is_postgresql:
            node.replace(exp.ILike(**node.args))

    def _drop_unequal(self, node: exp.In) -> None:
        """Drop from a list what no value of the column can equal, such as a word among numbers."""
        kind = self._types.kind(node.this)
        if kind in (ColumnType.NUMBER, ColumnType.BOOLEAN):
            kept = [item for item in node.expressions if self._literal_for(node.this, kind, _plain(item)) is not None]
            node.set("expressions", kept or node.expressions)

    def _make_comparable(self, left: exp.Expr, others: list[exp.Expr], *, is_order: bool = False) -> None:
        """Give both sides of a comparison one type, as the servers require."""
        kind, sides = self._types.kind(left), (left, *others)
        if all(isinstance(_plain(other), exp.Literal) for other in others):
            values = [self._literal_for(left, kind, _plain(literal), is_order) for literal in others]
            fitting = [value for value in values if value is not None]
            if len(fitting) < len(others):
                self._compare_as_text(sides)
                return
            for literal, value in zip(others, fitting, strict=True):
                literal.replace(value)
            if kind is ColumnType.BOOLEAN and self._is_postgresql and not isinstance(fitting[0], exp.Boolean):
                left.replace(exp.cast(left.copy(), "INT"))
            return
        kinds = {self._types.kind(side) for side in sides}
        if kinds <= {ColumnType.NUMBER, ColumnType.BOOLEAN}:
            if self._is_postgresql and len(kinds) == 2:
                for side in sides:
                    if self._types.kind(side) is ColumnType.BOOLEAN:
                        _replace(side, lambda value: exp.cast(value.copy(), "INT"))
        elif len({self._types.exact_kind(side) for side in sides}) > 1:
            self._compare_as_text(sides)

    def _literal_for(
        self, column: exp.Expr, kind: ColumnType, literal: exp.Expr, is_order: bool = False
    ) -> exp.Expr | None:
        """The literal in a form that fits the column's type; None if only its text can be compared."""
        text = literal.name
        match kind:
            case ColumnType.TEXT:
                return exp.Literal.string(text)
            case ColumnType.NUMBER:
                return literal.copy() if not literal.is_string else _number(text)
            case ColumnType.BOOLEAN if is_order:
                return None if literal.is_string else literal.copy()
            case ColumnType.BOOLEAN if text.lower() in _TRUTH:
                truth = _TRUTH[text.lower()]
                return exp.Boolean(this=truth) if self._is_postgresql else exp.Literal.number(int(truth))
            case ColumnType.BOOLEAN if not self._is_postgresql and not literal.is_string:
                return literal.copy()  # MariaDB's are numbers, and may be 2
            case ColumnType.TIME if literal.is_string and self._is_stored_alike(column, text):
                return literal.copy()
        return None

    def _is_stored_alike(self, column: exp.Expr, text: str) -> bool:
        """Whether a date or time exists, and has the form of those in the column."""
        index = self._types.column_of(column)
        if self._content is None or index is None or not _exists(text):
            return False
        return any(_shape(value) == _shape(text) for value in self._content.columns[index].values[:1])

    def _compare_as_text(self, sides: Iterable[exp.Expr]) -> None:
        for side in sides:
            plain = _plain(side)
            if isinstance(plain, exp.Literal):
                side.replace(exp.Literal.string(plain.name))
            else:
                _replace(side, self._types.as_text)

    # Numbers.

    def _aggregate(self, node: exp.Expr) -> None:
        inner = argument_of(node)
        if isinstance(node, exp.Min | exp.Max):
            inner.replace(self._selects.sortable(inner))
            return
        self._make_number(inner)
        inner = argument_of(node)
        if isinstance(node, exp.Avg) and not self._is_postgresql and not isinstance(inner, exp.Cast):
            inner.replace(exp.cast(inner.copy(), "DOUBLE"))  # of whole numbers MariaDB keeps four digits

    def _make_number(self, node: exp.Expr) -> None:
        kind, plain = self._types.kind(node), _plain(node)
        if isinstance(plain, exp.Literal):
            if plain.is_string:
                node.replace(_number(plain.name) or exp.Literal.number(0))
        elif kind in (ColumnType.TEXT, ColumnType.TIME, ColumnType.OTHERS):
            text = self._types.as_text(node)
            if self._is_postgresql:
                number = sqlglot.parse_one(_AS_NUMBER, read=self.dialect.value)
                for placeholder in list(number.find_all(exp.Placeholder)):
                    placeholder.replace(text.copy())
            else:
                number = exp.cast(text, "DOUBLE")
            self._types.set_kind(number, ColumnType.NUMBER)
            node.replace(number)
        elif kind is ColumnType.BOOLEAN and self._is_postgresql:
            node.replace(exp.cast(node.copy(), "INT"))

    def _arithmetic(self, node: exp.Expr) -> None:
        is_whole = self._types.is_whole(node)
        has_sum = node.find(exp.Sum) is not None
        self._make_number(node.this)
        self._make_number(node.expression)
        if not isinstance(node, exp.Div):
            return
        left, right = node.this.copy(), node.expression.copy()
        if self._is_postgresql:
            divisor = exp.func("NULLIF", right, exp.Literal.number(0))
            self._types.set_kind(divisor, ColumnType.NUMBER)
            quotient: exp.Expr = exp.Div(this=left, expression=divisor, typed=True, safe=False)
            if is_whole and has_sum:  # a sum is of another type, whose quotients are not whole
                quotient = exp.func("TRUNC", quotient, dialect=self.dialect.value)
        elif is_whole:
            quotient = exp.Paren(this=exp.IntDiv(this=left, expression=right))
        else:
            quotient = exp.Div(this=exp.cast(left, "DOUBLE"), expression=right, typed=False, safe=True)
        self._types.set_kind(quotient, ColumnType.NUMBER)
        node.replace(quotient)


def _plain(node: exp.Expr) -> exp.Expr:
    """A negative number as a single literal; anything else unchanged."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return exp.Literal(this=f"-{node.this.name}", is_string=False)
    return node


def _replace(side: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> None:
    """Change a side of a comparison, or what it selects if it is a nested query."""
    if isinstance(side, exp.Subquery):
        for select in leaves(side.this):
            select.set("expressions", [change(item) for item in select.expressions])
    else:
        side.replace(change(side))


def _number(text: str) -> exp.Expr | None:
    """The number that SQLite reads from a whole text, or None."""
    return exp.Literal.number(text.strip()) if _NUMBER.fullmatch(text.strip()) else None


def _shape(text: str) -> str:
    """The text with a 9 for every digit."""
    return re.sub(r"\d", "9", text)


def _exists(text: str) -> bool:
    """Whether a text is a date or time of the calendar."""
    for read in (datetime.datetime.fromisoformat, datetime.time.fromisoformat):
        with suppress(ValueError):
            read(text)
            return True
    return False


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
