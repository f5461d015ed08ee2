"""The columns and types behind the parts of a query.

In: sqlglot's tree of a query that `SqlWriter` wrote. Out: for each part its column of the schema, its type, and whether
it gives whole numbers. Columns and whole numbers are looked up once, before anything is moved or replaced, and kept in
the nodes.
"""

from collections.abc import Mapping

from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import ColumnType, Schema

_COLUMN = "column"
_KIND = "kind"
_NAME = "name"
_WHOLE = "whole"
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_NUMBERS = (exp.Count, exp.Sum, exp.Avg, *ARITHMETIC, exp.IntDiv, exp.Neg)
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year"}


class Types:
    """Types over one schema; `declared` holds types by the server's names for them (`opened.declared_types`)."""

    def __init__(self, schema: Schema, declared: Mapping[int, str]) -> None:
        self._schema = schema
        self._declared = declared

    def resolve(self, tree: exp.Expr) -> None:
        """Note the schema's column in every column, and in arithmetic whether it gives whole numbers."""
        for node in tree.find_all(exp.Column):
            select = node.parent_select
            if not isinstance(select, exp.Select) or isinstance(node.this, exp.Star):
                continue
            tables = self.tables_of(select)
            name = node.table or next(iter(tables))
            column = self._schema.find_column(tables[name], node.name) if name in tables else None
            if column is None:
                raise SqlError(f"{node.sql()} is not a column of {self._schema.database!r}")
            node.meta[_COLUMN] = column
        for operation in tree.find_all(*ARITHMETIC):
            operation.meta[_WHOLE] = self._is_integer(operation)

    def tables_of(self, select: exp.Select) -> dict[str, int]:
        """The tables of a FROM clause by alias or name, in order; nested queries are left out."""
        source = select.args.get("from_")
        tables: dict[str, int] = {}
        for table in [source.this if source else None, *(join.this for join in select.args.get("joins") or ())]:
            if isinstance(table, exp.Table):
                index = self._schema.find_table(table.name)
                if index is None:
                    raise SqlError(f"{table.name!r} is not a table of {self._schema.database!r}")
                tables[table.alias_or_name] = index
        return tables

    def column(self, index: int, table: str | None) -> exp.Column:
        """A column of the schema as a node; `table` is the alias or name of its table."""
        node = exp.column(exp.to_identifier(self._schema.columns[index].name, quoted=True), table=table)
        node.meta[_COLUMN] = index
        return node

    def qualified(self, node: exp.Expr) -> tuple[str, int]:
        """A column of the schema, and the alias or name of its table."""
        if not self.is_known(node):
            raise SqlError(f"{node.sql()} is not a column of {self._schema.database!r}")
        return getattr(node, "table", ""), node.meta[_COLUMN]

    def column_of(self, node: exp.Expr) -> int | None:
        """The column of the schema that an expression is, or the max or min of; None for anything else."""
        if isinstance(node, exp.Min | exp.Max | exp.Paren):
            return self.column_of(node.this)
        column: int | None = node.meta.get(_COLUMN)
        return column

    def kind(self, node: exp.Expr) -> ColumnType:
        """The type of an expression."""
        if _KIND in node.meta:
            return ColumnType(node.meta[_KIND])
        match node:
            case exp.Column():
                column = node.meta.get(_COLUMN)
                kind = ColumnType.OTHERS if column is None else self._schema.columns[column].type
                return ColumnType.OTHERS if kind is ColumnType.TEXT and column in self._declared else kind
            case exp.Literal():
                return ColumnType.TEXT if node.is_string else ColumnType.NUMBER
            case exp.Min() | exp.Max() | exp.Paren() | exp.Alias() | exp.Subquery():
                return self.kind(node.this)
            case exp.Distinct() | exp.Select():
                return self.kind(node.expressions[0])
            case exp.Cast():
                return ColumnType.TEXT if node.to.is_type(*exp.DataType.TEXT_TYPES) else ColumnType.NUMBER
            case exp.SetOperation():  # sides of different types are compared by their text
                kinds = {self.kind(node.this), self.kind(node.expression)}
                return kinds.pop() if len(kinds) == 1 else ColumnType.TEXT
        return ColumnType.NUMBER if isinstance(node, _NUMBERS) else ColumnType.OTHERS

    def exact_kind(self, node: exp.Expr) -> tuple[ColumnType, str | None]:
        """The type of an expression, with the server's name for it if it is none of the usual types."""
        kind = self.kind(node)
        return kind, self._name_of(node) if kind is ColumnType.OTHERS else None

    def _name_of(self, node: exp.Expr) -> str | None:
        match node:
            case exp.Column():
                return node.meta.get(_NAME) or self._declared.get(node.meta.get(_COLUMN, -1))
            case exp.Paren() | exp.Alias() | exp.Subquery() | exp.SetOperation():
                return self._name_of(node.this)
            case exp.Select():
                return self._name_of(node.expressions[0])
        return None

    def as_text(self, node: exp.Expr) -> exp.Expr:
        """A copy of an expression as the text that its database displays."""
        if self.kind(node) is ColumnType.TEXT:
            return node.copy()
        if self._name_of(node) == "inet":  # a cast would add /32 to the address of a host
            text = exp.func("ABBREV", node.copy())
            self.set_kind(text, ColumnType.TEXT)
            return text
        return exp.cast(node.copy(), "TEXT")

    def is_money(self, node: exp.Expr) -> bool:
        """Whether a column of the schema has PostgreSQL's type money, which does not mix with other numbers."""
        return self.is_known(node) and self._name_of(node) == "money"

    def set_kind(self, node: exp.Expr, kind: ColumnType) -> None:
        """Note the type of an expression whose form no longer shows it."""
        node.meta[_KIND] = kind.value

    def is_known(self, node: exp.Expr) -> bool:
        """Whether a node is a column of the schema, and not of a nested table."""
        return _COLUMN in node.meta

    def forget(self, node: exp.Expr) -> None:
        """Make a column one of a nested table: it keeps its type, and is no longer looked up."""
        if self.is_known(node):
            self.set_kind(node, self.kind(node))
            node.meta[_NAME] = self._name_of(node)
            del node.meta[_COLUMN]

    def is_whole(self, node: exp.Expr) -> bool:
        """Whether arithmetic gives whole numbers in SQLite, as the query was written."""
        return bool(node.meta[_WHOLE])

    def _is_integer(self, node: exp.Expr) -> bool:
        """Whether an expression gives whole numbers in SQLite."""
        match node:
            case exp.Literal():
                return not node.is_string and node.name.lstrip("-").isdigit()
            case exp.Column():
                return self._declared.get(node.meta.get(_COLUMN, -1)) in _INTEGERS
            case exp.Count():
                return True
            case exp.Sum() | exp.Min() | exp.Max() | exp.Paren() | exp.Neg() | exp.Alias() | exp.Subquery():
                return self._is_integer(node.this)
            case exp.Distinct() | exp.Select():
                return self._is_integer(node.expressions[0])
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return self._is_integer(node.this) and self._is_integer(node.expression)
        return False
