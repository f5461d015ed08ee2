"""SQL as Spider's official evaluation script reads it, failures included. Only evaluation uses this module.

In: the text of a query and a `Schema`. Out: `SpiderQuery`, or `SqlError` wherever the script would raise.
The script reads a part of SQL and is lenient in odd places; what looks like a mistake here reproduces its verdicts:
- a comma before a digit, `=`, `+`, `-` and `/` separate words only where white space stands around them;
- aliases hold for the whole text and need AS; LEFT JOIN, commas in FROM and an alias of a subquery are unreadable;
- the right side of a comparison is one literal, one subquery, or a column that swallows the text after it, OR included;
- every LIMIT is the same LIMIT, and the last direction of ORDER BY is the direction of all of it;
- text after a complete query is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.spider_tokens import tokenize

STAR = "*"
NONE = "none"
"""No aggregate, no arithmetic. The script also accepts the bare word as one."""

_AGGREGATES = frozenset({NONE, "max", "min", "count", "sum", "avg"})
_ARITHMETIC = frozenset({NONE, "-", "+", "*", "/"})
_COMPARISONS = frozenset({"not", "between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists"})
_SET_OPERATIONS = frozenset({"intersect", "union", "except"})
_CLAUSES = frozenset({"select", "from", "where", "group", "order", "limit"}) | _SET_OPERATIONS
_JOIN_WORDS = frozenset({"join", "on", "as"})
_CONNECTIVES = frozenset({"and", "or"})
_CLOSERS = frozenset({")", ";"})
_DIRECTIONS = frozenset({"desc", "asc"})

_MAX_DEPTH = 100
"""Departs: the script nests until Python's stack ends, which depends on the Python that runs it."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column, `table.column` in lower case or `*`, perhaps under an aggregate."""

    aggregate: str
    column: str
    distinct: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """One column, or two with an arithmetic operator between them."""

    operator: str
    left: ColumnUse
    right: ColumnUse | None

    @property
    def uses(self) -> tuple[ColumnUse, ...]:
        return (self.left, self.right) if self.right else (self.left,)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An item of SELECT; an aggregate before the bracket is the item's, one inside is the column's."""

    aggregate: str
    expression: Expression


Value: TypeAlias = "float | str | ColumnUse | SpiderQuery | None"


@dataclass(frozen=True, slots=True)
class Condition:
    """`left operator low`, or `left BETWEEN low AND high`."""

    negated: bool
    operator: str
    left: Expression
    low: Value
    high: Value

    @property
    def nested(self) -> "tuple[SpiderQuery, ...]":
        return tuple(value for value in (self.low, self.high) if isinstance(value, SpiderQuery))


Conditions = tuple[Condition | str, ...]
"""Conditions and connectives in the order of the text. The script takes every second one for a connective, even if the
text leaves a connective out."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """ORDER BY."""

    direction: str
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class SpiderQuery:
    """A SELECT with all its clauses. An unreadable prediction is the query of the defaults."""

    distinct: bool = False
    select: tuple[SelectItem, ...] = ()
    tables: "tuple[str | SpiderQuery, ...]" = ()
    joins: Conditions = ()
    """The conditions of every ON."""
    where: Conditions = ()
    group: tuple[ColumnUse, ...] = ()
    having: Conditions = ()
    order: Ordering | None = None
    limit: bool = False
    set_operation: str | None = None
    other: "SpiderQuery | None" = None
    """The right side of the set operation."""


@dataclass(frozen=True)
class SchemaNames:
    """The names of a schema that the script knows, all in lower case."""

    columns: Mapping[str, frozenset[str]]
    """Column names by table."""
    qualified: frozenset[str]
    """Every `table.column`."""
    representative: Mapping[str, str]
    """For every column of a foreign key, the column that represents all columns joined by that key."""


def schema_names(schema: Schema) -> SchemaNames:
    """The names of a schema as the script sees them."""
    full = [f"{schema.tables[column.table].name}.{column.name}".lower() for column in schema.columns]
    columns = {
        table.name.lower(): frozenset(schema.columns[column].name.lower() for column in own[1:])
        for table, own in zip(schema.tables, schema.columns_of, strict=True)
    }
    qualified = frozenset(name for column, name in enumerate(full) if not schema.is_star(column))
    # As in the script, groups that a later key connects are not merged, and the later group wins.
    groups: list[set[int]] = []
    for pair in schema.foreign_pairs:
        home = next((group for group in groups if not group.isdisjoint(pair)), None)
        if home is None:
            groups.append(home := set())
        home.update(pair)
    representative = {full[column]: full[min(group)] for group in groups for column in group}
    return SchemaNames(columns, qualified, representative)


def read_query(text: str, names: SchemaNames) -> SpiderQuery:
    """Read a query, or raise `SqlError` where the official script would raise."""
    tokens = tokenize(text)
    aliases = _aliases(tokens, names)
    return _Reader(tokens, aliases, names).query()


def _aliases(tokens: list[str], names: SchemaNames) -> dict[str, str]:
    """The words on both sides of every AS of the text, and every table as its own alias."""
    aliases: dict[str, str] = {}
    for position, token in enumerate(tokens):
        if token == "as":
            if position + 1 == len(tokens):
                raise SqlError("AS is the last word")
            aliases[tokens[position + 1]] = tokens[position - 1]
    if clash := aliases.keys() & names.columns.keys():
        raise SqlError(f"the alias {min(clash)!r} is also the name of a table")
    return aliases | {table: table for table in names.columns}


class _Reader:
    """Reads the tokens from left to right; `position` is the next one. A scope is the list of tables of FROM."""

    def __init__(self, tokens: list[str], aliases: Mapping[str, str], names: SchemaNames) -> None:
        self.tokens = tokens
        self.aliases = aliases
        self.names = names
        self.position = 0
        self.depth = 0

    @property
    def ended(self) -> bool:
        return self.position >= len(self.tokens)

    def next(self) -> str:
        """The next token, empty at the end."""
        return "" if self.ended else self.tokens[self.position]

    def take(self) -> str:
        token = self.next()
        self.position += 1
        return token

    def accept(self, token: str) -> bool:
        if self.next() == token:
            self.position += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            found = repr(self.next()) if not self.ended else "the end"
            raise SqlError(f"expected {token!r} and found {found} at word {self.position + 1}")

    def query(self) -> SpiderQuery:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise SqlError(f"the query nests deeper than {_MAX_DEPTH}")
        block = self.accept("(")
        start = self.position
        try:
            self.position = self.tokens.index("from", start) + 1
        except ValueError:
            raise SqlError("FROM is missing") from None
        tables, joins, scope = self.tables()
        after_tables, self.position = self.position, start
        distinct, select = self.select(scope)
        self.position = after_tables
        where = self.conditions(scope) if self.accept("where") else ()
        group = self.group(scope)
        having = self.conditions(scope) if self.accept("having") else ()
        order = self.order(scope)
        limit = self.limit()
        self.skip_semicolons()
        if block:
            self.expect(")")
        self.skip_semicolons()
        operation = self.take() if self.next() in _SET_OPERATIONS else None
        other = self.query() if operation else None
        self.depth -= 1
        return SpiderQuery(distinct, select, tables, joins, where, group, having, order, limit, operation, other)

    def skip_semicolons(self) -> None:
        while self.accept(";"):
            pass

    def tables(self) -> tuple[tuple[str | SpiderQuery, ...], Conditions, list[str]]:
        tables: list[str | SpiderQuery] = []
        joins: Conditions = ()
        scope: list[str] = []
        while not self.ended:
            block = self.accept("(")
            if self.next() == "select":
                tables.append(self.query())
            else:
                self.accept("join")
                scope.append(self.table())
                tables.append(scope[-1])
            if self.accept("on"):
                joins += (("and",) if joins else ()) + self.conditions(scope)
            if block:
                self.expect(")")
            if self.next() in _CLAUSES | _CLOSERS:
                break
        return tuple(tables), joins, scope

    def table(self) -> str:
        name = self.take()
        table = self.aliases.get(name, "")
        if table not in self.names.columns:
            raise SqlError(f"{name!r} is not a table")
        if self.next() == "as":
            self.position += 2
        return table

    def select(self, scope: list[str]) -> tuple[bool, tuple[SelectItem, ...]]:
        self.expect("select")
        distinct = self.accept("distinct")
        items = []
        while not self.ended and self.next() not in _CLAUSES:
            aggregate = self.take() if self.next() in _AGGREGATES else NONE
            items.append(SelectItem(aggregate, self.expression(scope)))
            self.accept(",")
        return distinct, tuple(items)

    def group(self, scope: list[str]) -> tuple[ColumnUse, ...]:
        columns: list[ColumnUse] = []
        if self.accept("group"):
            self.expect("by")
            while not self.ended and self.next() not in _CLAUSES | _CLOSERS:
                columns.append(self.column_use(scope))
                if not self.accept(","):
                    break
        return tuple(columns)

    def order(self, scope: list[str]) -> Ordering | None:
        if not self.accept("order"):
            return None
        self.expect("by")
        items = []
        direction = "asc"
        while not self.ended and self.next() not in _CLAUSES | _CLOSERS:
            items.append(self.expression(scope))
            if self.next() in _DIRECTIONS:
                direction = self.take()
            if not self.accept(","):
                break
        return Ordering(direction, tuple(items))

    def limit(self) -> bool:
        if not self.accept("limit"):
            return False
        if self.ended:
            raise SqlError("LIMIT is the last word")
        self.position += 1
        return True

    def conditions(self, scope: list[str]) -> Conditions:
        conditions: list[Condition | str] = []
        while not self.ended:
            left = self.expression(scope)
            negated = self.accept("not")
            operator = self.take()
            if operator not in _COMPARISONS:
                raise SqlError(f"{operator!r} is not a comparison")
            low = self.value(scope)
            high: Value = None
            if operator == "between":
                self.expect("and")
                high = self.value(scope)
            conditions.append(Condition(negated, operator, left, low, high))
            if self.next() in _CLAUSES | _CLOSERS | _JOIN_WORDS:
                break
            if self.next() in _CONNECTIVES:
                conditions.append(self.take())
        return tuple(conditions)

    def value(self, scope: list[str]) -> Value:
        start = self.position
        block = self.accept("(")
        value: Value
        if self.next() == "select":
            value = self.query()
        elif '"' in self.next():
            value = self.take()
        else:
            try:
                value = float(self.next())
                self.position += 1
            except ValueError:
                value = self.column_value(start, scope)
        if block:
            self.expect(")")
        return value

    def column_value(self, start: int, scope: list[str]) -> ColumnUse:
        """A column on the right of a comparison, read from `start` with the opening bracket. The text after it, up to
        the next comma, bracket, AND or clause, is dropped unread."""
        stops = _CLAUSES | _JOIN_WORDS | {",", ")", "and"}
        while not self.ended and self.next() not in stops:
            self.position += 1
        return _Reader(self.tokens[start : self.position], self.aliases, self.names).column_use(scope)

    def expression(self, scope: list[str]) -> Expression:
        block = self.accept("(")
        left = self.column_use(scope)
        operator, right = NONE, None
        if self.next() in _ARITHMETIC:
            operator = self.take()
            right = self.column_use(scope)
        if block:
            self.expect(")")
        return Expression(operator, left, right)

    def column_use(self, scope: list[str]) -> ColumnUse:
        block = self.accept("(")
        if self.next() in _AGGREGATES:
            aggregate = self.take()
            self.expect("(")
            distinct = self.accept("distinct")
            use = ColumnUse(aggregate, self.column(scope), distinct)
            self.expect(")")
            return use  # the script leaves the bracket around an aggregate open
        distinct = self.accept("distinct")
        use = ColumnUse(NONE, self.column(scope), distinct)
        if block:
            self.expect(")")
        return use

    def column(self, scope: list[str]) -> str:
        name = self.take()
        if name == STAR:
            return STAR
        if "." in name:
            alias, *rest = name.split(".")
            full = f"{self.aliases.get(alias, '')}.{rest[0]}"
            if len(rest) > 1 or full not in self.names.qualified:
                raise SqlError(f"{name!r} is not a column")
            return full
        for table in scope:
            if name in self.names.columns[table]:
                return f"{table}.{name}"
        raise SqlError(f"{name!r} is not a column of {', '.join(scope) or 'any table: FROM names none'}")
