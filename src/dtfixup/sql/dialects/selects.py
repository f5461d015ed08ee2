"""Translate whole SELECTs: joins, groups, orders, nested queries.

In: sqlglot's tree, its columns resolved by `dialects/types.py`. Out: the tree for PostgreSQL or MariaDB. SQLite is more
lenient than either. In a grouped query it allows bare columns, which are neither grouped by nor aggregated. Of a nested
query that returns several rows it takes the first. It sorts distinct rows by columns that are not selected.
"""

from collections.abc import Iterator

from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.dialects.types import Types

_PLACE = "place"
_RANKED, _FOUND = "ranked", "found"
"""Aliases of nested tables."""


class SelectTranslator:
    """Translates the SELECTs of queries over one schema."""

    def __init__(self, schema: Schema, dialect: Dialect, types: Types) -> None:
        self._schema, self._types = schema, types
        self._is_postgresql = dialect is Dialect.POSTGRESQL

    def translate(self, tree: exp.Expr) -> exp.Expr:
        """The whole query; inner queries come first."""
        holder = exp.Paren(this=tree)
        for query in reversed(list(holder.find_all(exp.Select, exp.SetOperation))):
            if isinstance(query, exp.Select):
                self._select(query)
            elif isinstance(query, exp.SetOperation):
                self._set_operation(query)
        for nested in list(holder.find_all(exp.Subquery)):
            self._nested(nested)
        return holder.this

    def _select(self, select: exp.Select) -> None:
        for join in select.args.get("joins") or ():
            if isinstance(on := join.args.get("on"), exp.Boolean) or on is None:
                join.set("on", None)
                join.set("kind", "CROSS")
        if self._is_grouped(select):
            self._expand_stars(select)
            self._replace_bare_columns(select)
        elif not self._is_postgresql and any(isinstance(item, exp.Star) for item in select.expressions[1:]):
            self._expand_stars(select)  # MariaDB takes a * only as the first item
        if select.args.get("distinct") and select.args.get("order"):
            self._sort_distinct(select)
        for key in _members(select, "order"):
            if isinstance(key.this, exp.Count):  # never NULL, so NULLS FIRST is needless
                key.replace(self._ordered(key.this, is_descending=bool(key.args.get("desc"))))

    # Groups.

    def _is_grouped(self, select: exp.Select) -> bool:
        return bool(select.args.get("group")) or any(
            isinstance(node, exp.AggFunc) for part in _outputs(select) for node in _own(part)
        )

    def _expand_stars(self, select: exp.Select) -> None:
        items: list[exp.Expr] = []
        for item in select.expressions:
            items += self._all_columns(select) if isinstance(item, exp.Star) else [item]
        select.set("expressions", items)

    def _all_columns(self, select: exp.Select) -> list[exp.Expr]:
        is_joined = bool(select.args.get("joins"))
        return [
            self._types.column(index, name if is_joined else None)
            for name, table in self._types.tables_of(select).items()
            for index in self._schema.columns_of[table][1:]
        ]

    def _replace_bare_columns(self, select: exp.Select) -> None:
        """Give every bare column one value for each group."""
        determined = self._determined(select)
        bare = [node for part in _outputs(select) for node in self._bare(part, determined)]
        extremes = {node.sql(): node for part in _outputs(select) for node in _own(part) if _is_extreme(node)}
        if bare and len(extremes) == 1:
            self._take_row_of_extreme(select, next(iter(extremes.values())))
        else:
            for node in bare:
                self._swap(node, exp.Min(this=self.sortable(node)))

    def _grouped(self, select: exp.Select) -> set[tuple[str, int]]:
        """Columns that are grouped by, with the names of their tables."""
        return {self._types.qualified(node) for node in _members(select, "group")}

    def _determined(self, select: exp.Select) -> set[tuple[str, int]]:
        """Columns with one value in a group: those grouped by, and all of a table whose key is grouped by."""
        grouped = self._grouped(select)
        determined = set(grouped)
        for name, table in self._types.tables_of(select).items():
            owner = name if select.args.get("joins") else ""  # a lone table's columns have no prefix
            key = self._schema.primary_keys[table]
            if key and not self._schema.tables[table].is_view and all((owner, column) in grouped for column in key):
                determined |= {(owner, column) for column in self._schema.columns_of[table]}
        return determined

    def _bare(self, node: exp.Expr, determined: set[tuple[str, int]]) -> Iterator[exp.Expr]:
        """The largest expressions that hold a bare column and no aggregate."""
        if isinstance(node, exp.AggFunc | exp.Subquery | exp.Query):
            return
        columns = [own for own in _own(node) if isinstance(own, exp.Column)]
        if all(self._types.qualified(column) in determined for column in columns):
            return
        if not _is_clause(node) and not any(isinstance(own, exp.AggFunc) for own in _own(node)):
            yield node
            return
        for child in node.iter_expressions():
            yield from self._bare(child, determined)

    def sortable(self, node: exp.Expr) -> exp.Expr:
        """A copy of an expression, with a type that MIN and MAX accept."""
        kind = self._types.kind(node)
        if self._is_postgresql and kind is ColumnType.BOOLEAN:
            return exp.cast(node.copy(), "INT")
        return self._types.as_text(node) if self._is_postgresql and kind is ColumnType.OTHERS else node.copy()

    def _swap(self, node: exp.Expr, other: exp.Expr) -> None:
        """Replace an expression by another; a selected column keeps its name."""
        self._types.set_kind(other, self._types.kind(self.sortable(node)))
        node.replace(exp.alias_(other, node.name, quoted=True) if _is_selected(node) else other)

    def _ordered(self, key: exp.Expr, *, is_descending: bool = False) -> exp.Ordered:
        """A key whose NULLs come where the database puts them by default."""
        return exp.Ordered(this=key, desc=is_descending, nulls_first=is_descending is self._is_postgresql)

    def _take_row_of_extreme(self, select: exp.Select, extreme: exp.Expr) -> None:
        """Take bare columns from the row with the max or min, as SQLite does if there is one: rows are numbered.

        SELECT name, max(age) FROM t GROUP BY kind → SELECT MAX(CASE WHEN place = 1 THEN name END), MAX(age) FROM
        (SELECT name, age, kind, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY age IS NULL, age DESC) AS place FROM t)
        GROUP BY kind
        """
        determined = self._grouped(select)  # no database knows the key of a nested table
        columns: dict[tuple[str, int], exp.Expr] = {}
        outer = [*_outputs(select), *_members(select, "group")]
        for part in outer:
            for node in _own(part):
                if isinstance(node, exp.Column):
                    columns.setdefault(self._types.qualified(node), node.copy())
        names = _unlike([column.name for column in columns.values()], set())
        [place] = _unlike([_PLACE], set(names))
        new_names = dict(zip(columns, names, strict=True))
        key = argument_of(extreme).copy()
        window = exp.Window(
            this=exp.RowNumber(),
            partition_by=[node.copy() for node in _members(select, "group")],
            order=exp.Order(
                expressions=[
                    self._ordered(exp.Is(this=key.copy(), expression=exp.Null())),
                    self._ordered(key, is_descending=isinstance(extreme, exp.Max)),
                ]
            ),
        )
        items = [exp.alias_(column, name, quoted=True) for column, name in zip(columns.values(), names, strict=True)]
        inner = exp.Select(
            expressions=[*items, exp.alias_(window, place)],
            from_=select.args["from_"],
            joins=select.args.get("joins"),
            where=select.args.get("where"),
        )
        for part in outer:
            for node in list(self._bare(part, determined)):
                value = self.sortable(node)
                self._rename(value, new_names)
                self._swap(node, _first(value, place))
        for part in [*_outputs(select), *_members(select, "group")]:
            self._rename(part, new_names)
        select.set("from_", exp.From(this=_derived(inner, _RANKED)))
        select.set("joins", None)
        select.set("where", None)

    def _rename(self, node: exp.Expr, new_names: dict[tuple[str, int], str]) -> None:
        """Give columns the names that a nested table has for them; a selected column keeps its own as an alias."""
        for column in [own for own in _own(node) if isinstance(own, exp.Column) and self._types.is_known(own)]:
            old, new = column.name, new_names[self._types.qualified(column)]
            column.set("this", exp.to_identifier(new, quoted=True))
            column.set("table", exp.to_identifier(_RANKED))
            self._types.forget(column)
            if new != old and _is_selected(column):
                column.replace(exp.alias_(column.copy(), old, quoted=True))

    # Orders.

    def _sort_distinct(self, select: exp.Select) -> None:
        """Sort distinct rows by columns that are not selected: the first of the equal rows counts."""
        texts = {item.sql() for item in select.expressions}
        keys = _members(select, "order")
        has_star = any(isinstance(item, exp.Star) for item in select.expressions)
        if has_star or all(key.this.sql() in texts for key in keys):
            return
        old_names = _output_names(select)
        names = _unlike(old_names, set())
        key_names = _unlike(
            [f"key_{number}" for number in range(1, len(keys) + 1)], self._names_in_sight(select, names)
        )
        inner = select.copy()
        for part in ("distinct", "order", "limit"):
            inner.set(part, None)
        items = zip(select.expressions, names, strict=True)
        selected = [exp.alias_(item.unalias().copy(), name, quoted=True) for item, name in items]
        selected += [exp.alias_(self.sortable(key.this), name) for key, name in zip(keys, key_names, strict=True)]
        inner.set("expressions", selected)
        columns = [exp.column(exp.to_identifier(name, quoted=True), table=_FOUND) for name in names]
        for key, name in zip(keys, key_names, strict=True):
            first = exp.Max if key.args.get("desc") else exp.Min
            key.set("this", first(this=exp.column(name, table=_FOUND)))
        for part in ("distinct", "joins", "where", "having"):
            select.set(part, None)
        named = [_named(column.copy(), name) for column, name in zip(columns, old_names, strict=True)]
        select.set("expressions", named)
        select.set("group", exp.Group(expressions=columns))
        select.set("from_", exp.From(this=_derived(inner, _FOUND)))

    def _names_in_sight(self, select: exp.Select, names: list[str]) -> set[str]:
        """Names with which a new one of this query could be confused."""
        columns = (
            self._schema.columns[index].name
            for table in self._types.tables_of(select).values()
            for index in self._schema.columns_of[table]
        )
        return {*names, *columns, *(node.name for node in select.find_all(exp.Identifier))}

    # Nested queries and set operations.

    def _nested(self, nested: exp.Subquery) -> None:
        if isinstance(nested.parent, exp.From):
            if not nested.alias:
                nested.set("alias", exp.TableAlias(this=exp.to_identifier("counted")))
                if not self._is_postgresql:
                    self._make_names_unique(leaves(nested.this)[0])
        elif isinstance(nested.parent, exp.In):
            if not self._is_postgresql and nested.this.args.get("limit"):  # MariaDB has no LIMIT there
                nested.set("this", exp.select("*").from_(_derived(nested.this.copy(), "first_ones")))
        elif not isinstance(nested.parent, exp.SetOperation | exp.Subquery) and not self._is_one_row(nested.this):
            nested.set("this", nested.this.limit(1, copy=True))

    def _is_one_row(self, query: exp.Expr) -> bool:
        return bool(query.args.get("limit")) or (
            isinstance(query, exp.Select) and self._is_grouped(query) and not query.args.get("group")
        )

    def _make_names_unique(self, select: exp.Select) -> None:
        """Number the columns of a nested table if two have the same name, which MariaDB refuses."""
        if any(isinstance(item, exp.Star) for item in select.expressions) and len(self._types.tables_of(select)) > 1:
            self._expand_stars(select)
        names = [
            item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql()
            for item in select.expressions
        ]
        if len({name.lower() for name in names}) < len(names):
            _number_items(select)

    def _set_operation(self, operation: exp.SetOperation) -> None:
        if self._is_postgresql:
            self._match_sides(operation)
        elif isinstance(operation.this, exp.Subquery):  # in a nested query MariaDB miscounts columns in parentheses
            first = leaves(operation)[0]
            old_names = _output_names(first)
            _number_items(first)
            items = zip(first.expressions, old_names, strict=True)
            selected = [_named(exp.column(item.alias), name) for item, name in items]
            operation.set("this", exp.select(*selected).from_(_derived(operation.this.this.copy(), "sides")))

    def _match_sides(self, operation: exp.SetOperation) -> None:
        """Use the text of columns whose types differ between the sides, which PostgreSQL refuses."""
        sides = leaves(operation)
        for position in range(len(sides[0].expressions)):
            items = [side.expressions[position] for side in sides]
            if len({self._types.exact_kind(item) for item in items}) > 1:
                for item in items:
                    item.replace(self._types.as_text(item.unalias()))


def leaves(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a set operation from left to right, or the single SELECT of another query."""
    match query:
        case exp.Select():
            return [query]
        case exp.SetOperation():
            return [*leaves(query.this), *leaves(query.expression)]
        case exp.Subquery() | exp.Paren():
            return leaves(query.this)
    raise SqlError(f"{query.key} is not a query")


def _members(select: exp.Select, clause: str) -> list[exp.Expr]:
    """The expressions of GROUP BY or ORDER BY."""
    node = select.args.get(clause)
    return list(node.expressions) if node else []


def _outputs(select: exp.Select) -> list[exp.Expr]:
    """The parts of a SELECT that need one value for each group."""
    having = select.args.get("having")
    return [*select.expressions, *([having.this] if having else ()), *_members(select, "order")]


def _own(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression that are not in nested queries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Subquery))


def _is_clause(node: exp.Expr) -> bool:
    """Whether a part of a query is not a value: a condition, a key with its direction, an alias with its value."""
    clauses = (exp.Ordered, exp.Alias, exp.Predicate, exp.Connector, exp.Not, exp.Is, exp.Between, exp.In)
    return isinstance(node.unnest(), clauses)


def argument_of(aggregate: exp.Expr) -> exp.Expr:
    """The argument of an aggregate, without DISTINCT."""
    inner = aggregate.this
    argument: exp.Expr = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    return argument


def _is_extreme(node: exp.Expr) -> bool:
    return isinstance(node, exp.Min | exp.Max)


def _first(value: exp.Expr, place: str) -> exp.Expr:
    """The value of an expression in the first row of its group; `place` is the column with the row numbers."""
    is_first = exp.column(place, table=_RANKED).eq(1)
    return exp.Max(this=exp.Case(ifs=[exp.If(this=is_first, true=value)]))


def _is_selected(node: exp.Expr) -> bool:
    """Whether a column is an item of the select list, and so names it."""
    return isinstance(node, exp.Column) and isinstance(node.parent, exp.Select) and node.arg_key == "expressions"


def _output_names(select: exp.Select) -> list[str]:
    """The names of what a query selects: an alias or column, a function, or else a number."""
    names = []
    for number, item in enumerate(select.expressions, 1):
        if isinstance(item, exp.Alias | exp.Column):
            names.append(item.alias_or_name)
        else:
            names.append(item.sql_name().lower() if isinstance(item, exp.AggFunc) else f"item_{number}")
    return names


def _number_items(select: exp.Select) -> None:
    items = enumerate(select.expressions, 1)
    select.set("expressions", [exp.alias_(item.unalias().copy(), f"item_{number}") for number, item in items])


def _named(column: exp.Column, name: str) -> exp.Expr:
    return column if column.name == name else exp.alias_(column, name, quoted=True)


def _derived(query: exp.Expr, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _unlike(names: list[str], taken: set[str]) -> list[str]:
    """The names, with a number appended to those that are taken or came before."""
    seen = {name.lower() for name in taken}
    unlike = []
    for name in names:
        own, number = name, 1
        while own.lower() in seen:
            number += 1
            own = f"{name}_{number}"
        seen.add(own.lower())
        unlike.append(own)
    return unlike
