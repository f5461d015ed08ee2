"""Whole SELECTs as servers take them: joins, groups, orders, nested queries.

In: sqlglot's tree, its columns resolved by `dialects/types.py`. Out: the tree for PostgreSQL or MariaDB. SQLite is more
lenient than either: it lets a grouped query show a column that it does not group by, takes the first row of a nested
query that gives several, and sorts distinct rows by what they do not show.
"""

from collections.abc import Iterator

from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.location import Dialect
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.dialects.types import Types

_PLACE = "place"
_RANKED, _FOUND = "ranked", "found"
"""Names of nested tables."""


class SelectTranslator:
    """Treats the SELECTs of queries over one schema."""

    def __init__(self, schema: Schema, dialect: Dialect, types: Types) -> None:
        self._schema, self._types = schema, types
        self._is_postgresql = dialect is Dialect.POSTGRESQL

    def translate(self, tree: exp.Expr) -> exp.Expr:
        """The whole query; inner ones are treated first."""
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
            select = self._settle_groups(select)
        elif not self._is_postgresql and any(isinstance(item, exp.Star) for item in select.expressions[1:]):
            self._expand_stars(select)  # MariaDB takes a * only as the first item
        if select.args.get("distinct") and select.args.get("order"):
            self._sort_distinct(select)
        for key in select.args["order"].expressions if select.args.get("order") else ():
            if isinstance(key.this, exp.Count):  # never NULL: nothing has to be said of where NULLs go
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

    def _settle_groups(self, select: exp.Select) -> exp.Select:
        """Give a value to columns that a group shows and may not have one of."""
        bare = [node for part in _outputs(select) for node in self._bare(part, self._settled(select))]
        if not bare:
            return select
        extremes = {node.sql(): node for part in _outputs(select) for node in _own(part) if _is_extreme(node)}
        if len(extremes) == 1:
            return self._take_from_extreme(select, next(iter(extremes.values())))
        for node in bare:
            self._swap(node, exp.Min(this=self.sortable(node)))
        return select

    def _grouped(self, select: exp.Select) -> set[tuple[str, int]]:
        """Columns that are grouped by, with the name of their table."""
        group = select.args.get("group")
        return {self._types.place(node) for node in (group.expressions if group else ())}

    def _settled(self, select: exp.Select) -> set[tuple[str, int]]:
        """Columns that have one value in a group: what is grouped by, and all of a table whose key is."""
        grouped = self._grouped(select)
        settled = set(grouped)
        for name, table in self._types.tables_of(select).items():
            owner = name if select.args.get("joins") else ""  # a lone table's columns go without its name
            key = self._schema.primary_keys[table]
            if key and not self._schema.tables[table].is_view and all((owner, column) in grouped for column in key):
                settled |= {(owner, column) for column in self._schema.columns_of[table]}
        return settled

    def _bare(self, node: exp.Expr, settled: set[tuple[str, int]]) -> Iterator[exp.Expr]:
        """The largest expressions without an aggregate that hold a column which is not settled."""
        if isinstance(node, exp.AggFunc | exp.Subquery | exp.Query):
            return
        columns = [own for own in _own(node) if isinstance(own, exp.Column)]
        if all(self._types.place(column) in settled for column in columns):
            return
        if not _is_clause(node) and not any(isinstance(own, exp.AggFunc) for own in _own(node)):
            yield node
            return
        for child in node.iter_expressions():
            yield from self._bare(child, settled)

    def sortable(self, node: exp.Expr) -> exp.Expr:
        """A copy of an expression, of which there is a smallest value."""
        kind = self._types.kind(node)
        if self._is_postgresql and kind is ColumnType.BOOLEAN:
            return exp.cast(node.copy(), "INT")
        return self._types.as_text(node) if self._is_postgresql and kind is ColumnType.OTHERS else node.copy()

    def _swap(self, node: exp.Expr, other: exp.Expr) -> None:
        """Put an expression in the place of another; a column that stands alone keeps its name."""
        self._types.copy_kind(self.sortable(node), other)
        node.replace(exp.alias_(other, node.name, quoted=True) if _is_shown(node) else other)

    def _ordered(self, key: exp.Expr, *, is_descending: bool = False) -> exp.Ordered:
        """A key whose NULLs come where the database puts them by itself."""
        return exp.Ordered(this=key, desc=is_descending, nulls_first=is_descending is self._is_postgresql)

    def _take_from_extreme(self, select: exp.Select, extreme: exp.Expr) -> exp.Select:
        """Beside one max or min SQLite shows the row that has it: rows are numbered from there, and the first shown.

        SELECT name, max(age) FROM t GROUP BY kind → SELECT MAX(CASE WHEN place = 1 THEN name END), MAX(age) FROM
        (SELECT name, age, kind, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY age IS NULL, age DESC) AS place FROM t)
        GROUP BY kind
        """
        group = select.args.get("group")
        settled = self._grouped(select)  # of a nested table no database knows the key
        columns: dict[tuple[str, int], exp.Expr] = {}
        outer = [*_outputs(select), *(group.expressions if group else ())]
        for part in outer:
            for node in _own(part):
                if isinstance(node, exp.Column):
                    columns.setdefault(self._types.place(node), node.copy())
        names = _unlike([column.name for column in columns.values()], set())
        [place] = _unlike([_PLACE], set(names))
        called = dict(zip(columns, names, strict=True))
        key = argument_of(extreme).copy()
        window = exp.Window(
            this=exp.RowNumber(),
            partition_by=[node.copy() for node in (group.expressions if group else ())],
            order=exp.Order(
                expressions=[
                    self._ordered(exp.Is(this=key.copy(), expression=exp.Null())),
                    self._ordered(key, is_descending=isinstance(extreme, exp.Max)),
                ]
            ),
        )
        inner = exp.Select(
            expressions=[
                *(exp.alias_(column, name, quoted=True) for column, name in zip(columns.values(), names, strict=True)),
                exp.alias_(window, place),
            ],
            from_=select.args["from_"],
            joins=select.args.get("joins"),
            where=select.args.get("where"),
        )
        for part in outer:
            bare = {id(node) for node in self._bare(part, settled)}
            for node in list(_own(part)):
                if id(node) in bare:
                    value = self.sortable(node)
                    self._rename(value, called)
                    self._swap(node, _first(value, place))
        for part in [*_outputs(select), *(group.expressions if group else ())]:
            self._rename(part, called)
        select.set("from_", exp.From(this=_derived(inner, _RANKED)))
        select.set("joins", None)
        select.set("where", None)
        return select

    def _rename(self, node: exp.Expr, called: dict[tuple[str, int], str]) -> None:
        """Call columns by the names that a nested table gives them, once; one that stands alone keeps its own too."""
        for column in [own for own in _own(node) if isinstance(own, exp.Column) and self._types.is_known(own)]:
            shown, name = column.name, called[self._types.place(column)]
            column.set("this", exp.to_identifier(name, quoted=True))
            column.set("table", exp.to_identifier(_RANKED))
            self._types.forget(column)
            if name != shown and _is_shown(column):
                column.replace(exp.alias_(column.copy(), shown, quoted=True))

    # Orders.

    def _sort_distinct(self, select: exp.Select) -> None:
        """Servers sort distinct rows by what they show; by anything else, the first of the equal rows counts."""
        shown = {item.sql() for item in select.expressions}
        keys: list[exp.Ordered] = select.args["order"].expressions
        has_star = any(isinstance(item, exp.Star) for item in select.expressions)
        if has_star or all(key.this.sql() in shown for key in keys):
            return
        items = [item.unalias() for item in select.expressions]
        shown_as = [_shown_name(item, place) for place, item in enumerate(select.expressions, 1)]
        names = _unlike(shown_as, set())
        sorted_by = _unlike([f"key_{place}" for place in range(1, len(keys) + 1)], self._names_in_sight(select, names))
        inner = select.copy()
        for part in ("distinct", "order", "limit"):
            inner.set(part, None)
        inner.set(
            "expressions",
            [
                *(exp.alias_(item.copy(), name, quoted=True) for item, name in zip(items, names, strict=True)),
                *(exp.alias_(self.sortable(key.this), name) for key, name in zip(keys, sorted_by, strict=True)),
            ],
        )
        found = [exp.column(exp.to_identifier(name, quoted=True), table=_FOUND) for name in names]
        for key, name in zip(keys, sorted_by, strict=True):
            first = exp.Max if key.args.get("desc") else exp.Min
            key.set("this", first(this=exp.column(name, table=_FOUND)))
        for part in ("distinct", "joins", "where", "having"):
            select.set(part, None)
        select.set("expressions", [_called(column.copy(), name) for column, name in zip(found, shown_as, strict=True)])
        select.set("group", exp.Group(expressions=found))
        select.set("from_", exp.From(this=_derived(inner, _FOUND)))

    def _names_in_sight(self, select: exp.Select, made_up: list[str]) -> set[str]:
        """Names that a new one of this query could be taken for."""
        columns = (
            self._schema.columns[index].name
            for table in self._types.tables_of(select).values()
            for index in self._schema.columns_of[table]
        )
        return {*made_up, *columns, *(node.name for node in select.find_all(exp.Identifier))}

    # Nested queries and set operations.

    def _nested(self, nested: exp.Subquery) -> None:
        if isinstance(nested.parent, exp.From):
            if not nested.alias:
                nested.set("alias", exp.TableAlias(this=exp.to_identifier("counted")))
                if not self._is_postgresql:
                    self._tell_apart(leaves(nested.this)[0])
        elif isinstance(nested.parent, exp.In):
            if not self._is_postgresql and nested.this.args.get("limit"):  # MariaDB knows no LIMIT there
                nested.set("this", exp.select("*").from_(_derived(nested.this.copy(), "first_ones")))
        elif not isinstance(nested.parent, exp.SetOperation | exp.Subquery) and not self._is_one_row(nested.this):
            nested.set("this", nested.this.limit(1, copy=True))

    def _is_one_row(self, query: exp.Expr) -> bool:
        return bool(query.args.get("limit")) or (
            isinstance(query, exp.Select) and self._is_grouped(query) and not query.args.get("group")
        )

    def _tell_apart(self, select: exp.Select) -> None:
        """MariaDB wants every column of a nested table to have a name of its own."""
        if any(isinstance(item, exp.Star) for item in select.expressions) and len(self._types.tables_of(select)) > 1:
            self._expand_stars(select)
        names = [
            item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql()
            for item in select.expressions
        ]
        if len({name.lower() for name in names}) < len(names):
            items = enumerate(select.expressions, 1)
            select.set("expressions", [exp.alias_(item.unalias().copy(), f"item_{place}") for place, item in items])

    def _set_operation(self, operation: exp.SetOperation) -> None:
        if self._is_postgresql:
            self._match_sides(operation)
        elif isinstance(operation.this, exp.Subquery):  # in a nested query MariaDB miscounts columns in parentheses
            first = leaves(operation)[0]
            shown_as = [_shown_name(item, place) for place, item in enumerate(first.expressions, 1)]
            names = [f"item_{place}" for place in range(1, len(first.expressions) + 1)]
            items = zip(first.expressions, names, strict=True)
            first.set("expressions", [exp.alias_(item.unalias().copy(), name) for item, name in items])
            shown = [_called(exp.column(name), own) for name, own in zip(names, shown_as, strict=True)]
            operation.set("this", exp.select(*shown).from_(_derived(operation.this.this.copy(), "sides")))

    def _match_sides(self, operation: exp.SetOperation) -> None:
        """PostgreSQL wants both sides of a set operation to have the same types: where they differ, their text."""
        sides = leaves(operation)
        for place in range(len(sides[0].expressions)):
            items = [side.expressions[place] for side in sides]
            if len({self._types.sort(item) for item in items}) > 1:
                for item in items:
                    item.replace(self._types.as_text(item.unalias()))


def leaves(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a set operation, from left to right; the query itself where it is none."""
    match query:
        case exp.Select():
            return [query]
        case exp.SetOperation():
            return [*leaves(query.this), *leaves(query.expression)]
        case exp.Subquery() | exp.Paren():
            return leaves(query.this)
    raise SqlError(f"{query.key} is not a query")


def _outputs(select: exp.Select) -> list[exp.Expr]:
    """What a group has to give a value to."""
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having.this] if having else ()), *(order.expressions if order else ())]


def _own(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression that are not in nested queries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Subquery))


def _is_clause(node: exp.Expr) -> bool:
    """Whether a part of a query is no value of its own: a condition, a key with its direction, a name for a value."""
    clauses = (exp.Ordered, exp.Alias, exp.Predicate, exp.Connector, exp.Not, exp.Is, exp.Between, exp.In)
    return isinstance(node.unnest(), clauses)


def argument_of(aggregate: exp.Expr) -> exp.Expr:
    """What is aggregated, whether all of it or distinct values."""
    inner = aggregate.this
    argument: exp.Expr = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    return argument


def _is_extreme(node: exp.Expr) -> bool:
    return isinstance(node, exp.Min | exp.Max)


def _first(value: exp.Expr, place: str) -> exp.Expr:
    """The value of an expression in the first row of its group; `place` is the column of the rows' numbers."""
    is_first = exp.column(place, table=_RANKED).eq(1)
    return exp.Max(this=exp.Case(ifs=[exp.If(this=is_first, true=value)]))


def _is_shown(node: exp.Expr) -> bool:
    """Whether a column stands alone among what a query shows, and so gives it its name."""
    return isinstance(node, exp.Column) and isinstance(node.parent, exp.Select) and node.arg_key == "expressions"


def _shown_name(item: exp.Expr, place: int) -> str:
    """What an item is called: by its own name, its function's, or its place."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    return item.sql_name().lower() if isinstance(item, exp.AggFunc) else f"item_{place}"


def _called(column: exp.Column, name: str) -> exp.Expr:
    """A column that is shown by that name."""
    return column if column.name == name else exp.alias_(column, name, quoted=True)


def _derived(query: exp.Expr, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _unlike(names: list[str], taken: set[str]) -> list[str]:
    """The names with a number behind those that came before."""
    seen = {name.lower() for name in taken}
    found = []
    for name in names:
        own, number = name, 1
        while own.lower() in seen:
            number += 1
            own = f"{name}_{number}"
        seen.add(own.lower())
        found.append(own)
    return found
