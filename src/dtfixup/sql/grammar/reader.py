"""SQL text to trees. sqlglot parses; an error names what is not in the grammar.

In: a query in a dialect of sqlglot, and the schema. Out: a tree of `grammar.txt`'s rules. Aliases are resolved, `*`
becomes the `*` of one of the query's tables, and the tree keeps only those parts of the FROM clause that `joins.py`
cannot infer.
"""

import re
from collections.abc import Iterable

import sqlglot
from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.expressions import STAR, ExpressionReader, Scope, bare, clauses, split
from dtfixup.sql.grammar.joins import Condition, Join, Joiner
from dtfixup.sql.grammar.sources import find_source, infers
from dtfixup.sql.grammar.tree import Child, Node, Occurrence, nodes, occurrences, references

_MAX_DEPTH = 100
_QUOTES_STRINGS = {"sqlite", "mysql"}
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`""")
_NUMBERS = ("One", "Two", "Three", "Four", "Five", "Six")
_KNOWN_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "kind"}


class SqlReader:
    """Reads queries over one schema."""

    def __init__(self, schema: Schema, dialect: str = "sqlite", joiner: Joiner | None = None) -> None:
        self.schema = schema
        self.dialect = dialect
        self._nulls_are_large = sqlglot.Dialect.get_or_raise(dialect).NULL_ORDERING == "nulls_are_large"
        self.joiner = joiner or Joiner(schema)
        self._expressions = ExpressionReader(schema, self._nested_column, quotes_strings=dialect in _QUOTES_STRINGS)

    def read(self, sql: str) -> Node:
        """The tree of one query."""
        try:
            check_depth(sql)
            statements = [statement for statement in sqlglot.parse(sql, read=self.dialect) if statement is not None]
            if len(statements) != 1:
                raise SqlError(f"expected one query, found {len(statements)}")
            tree = self._statement(statements[0], nested=False)
            if depth_of(tree) > _MAX_DEPTH:
                raise SqlError(f"it nests or lists more than {_MAX_DEPTH} items")
            return tree
        except RecursionError:
            raise SqlError(f"it is nested too deeply to be parsed: {sql}") from None
        except sqlglot.errors.SqlglotError as error:
            raise SqlError(f"cannot be parsed: {str(error).splitlines()[0]}: {sql}") from None
        except SqlError as error:
            raise SqlError(f"{error}: {sql}") from None

    def _statement(self, query: exp.Expr, *, nested: bool) -> Node:
        if isinstance(query, exp.Subquery):
            if odd := clauses(query) - {"this"}:
                raise SqlError(f"{', '.join(sorted(odd)).upper()} after a query in parentheses is not in the grammar")
            return self._statement(query.this, nested=nested)
        if isinstance(query, exp.SetOperation):
            _check_set_operation(query)
            return self._whole_rows(query, nested=nested) or self._set_operation(query, nested=nested)
        if not isinstance(query, exp.Select):
            raise SqlError(f"{query.key.upper()} is not a query")
        return self._select(query, member=False, nested=nested)

    def _nested_column(self, query: exp.Expr) -> Node:
        """The tree of a nested query, which must return one column."""
        statement = self._statement(query, nested=True)
        if self._width(statement) != 1:
            raise SqlError("a query after IN or in a comparison must return one column")
        return statement

    def _set_operation(self, query: exp.SetOperation, *, nested: bool) -> Node:
        left, right = query.this, query.expression
        if isinstance(left, exp.Subquery):  # how sqlglot keeps SQLite's left-to-right order
            left = left.this
        if isinstance(left, exp.SetOperation):
            _check_set_operation(left)
            first = self._set_operation(left, nested=nested)
        else:
            first = self._member(left, nested=nested)
        second = self._member(right, nested=nested)
        widths = {self._width(first), self._width(second)}
        if len(widths) > 1:
            raise SqlError("the sides of a set operation return different numbers of columns")
        return Node(type(query).__name__, (Node(f"Pair{widths.pop()}", (first, second)),))

    def _member(self, query: exp.Expr, *, nested: bool) -> Node:
        if not isinstance(query, exp.Select):
            raise SqlError(f"{query.key.upper()} as a side of a set operation is not in the grammar")
        if any(isinstance(item, exp.Star) for item in query.expressions):
            raise SqlError("SELECT * in a set operation is in the grammar only where both sides read the same tables")
        return self._select(query, member=True, nested=nested)

    def _whole_rows(self, query: exp.SetOperation, *, nested: bool) -> Node | None:
        """The tree of `SELECT * FROM s WHERE a UNION SELECT * FROM s WHERE b`; None for other set operations."""
        sides = [side for side in (query.left, query.right) if isinstance(side, exp.Select)]
        plain = {"expressions", "from_", "joins", "where", "kind"}
        for side in sides:
            is_star = len(side.expressions) == 1 and isinstance(side.expressions[0], exp.Star)
            if not is_star or clauses(side) - plain:
                return None
        if len(sides) != 2:
            return None
        scopes, (joins, others) = zip(*map(self._sources, sides), strict=True)
        if joins != others:
            return None
        wheres = [self._where(side, scope) for side, scope in zip(sides, scopes, strict=True)]
        node = Node(f"{type(query).__name__}Rows", (STAR, *wheres, None))
        return self._place_stars(node, joins, ordered=nested)

    def _select(self, query: exp.Select, *, member: bool, nested: bool) -> Node:
        if odd := clauses(query) - _KNOWN_CLAUSES:
            raise SqlError(f"{', '.join(sorted(name.strip('_').upper() for name in odd))} is not in the grammar")
        source = query.args.get("from_")
        if source is None:
            raise SqlError("a query without FROM is not in the grammar")
        if isinstance(source.this, exp.Subquery):
            return self._count_rows(query, source.this)
        scope, joins = self._sources(query)
        select = self._select_list(query, scope)
        has_star = Node("Column", (STAR,)) in _items(select)
        if has_star and any(join.args.get("using") for join in query.args.get("joins") or []):
            raise SqlError("SELECT * over USING, which merges columns, is not in the grammar")
        where = self._where(query, scope)
        group, having = query.args.get("group"), query.args.get("having")
        order = self._order(query, scope)
        if member and order is not None:
            raise SqlError("ORDER BY or LIMIT on one side of a set operation is not SQL")
        children: list[Child] = [select, where]
        if group is not None:
            children += [self._group(group, scope)]
            children += [None if having is None else self._expressions.condition(having.this, scope)]
        elif having is not None:
            raise SqlError("HAVING without GROUP BY is not in the grammar")
        if member:
            rule = "Member" if group is None else "GroupedMember"
        else:
            rule = "Plain" if group is None else "Grouped"
            children += [order]
        # The order of the tables is the order of the columns of a `*`.
        return self._place_stars(Node(rule, (*children, None)), joins, ordered=nested or has_star)

    def _count_rows(self, query: exp.Select, inner: exp.Subquery) -> Node:
        counts = len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Count)
        is_plain = not clauses(query) - {"expressions", "from_", "kind"}
        if not is_plain or not counts or not isinstance(query.expressions[0].this, exp.Star):
            raise SqlError("a query over a query is in the grammar only as SELECT count(*) FROM (...)")
        return Node("CountRows", (self._statement(inner.this, nested=True),))

    def _place_stars(self, node: Node, joins: tuple[Join, ...], *, ordered: bool) -> Node:
        """Choose the table of each `*`, and add a `source` if the FROM clause cannot be inferred."""
        choices = [_with_star(node, self.schema.stars[table]) for table in self._star_tables(node, joins)]
        for choice in choices:
            if infers(self.joiner, joins, occurrences(choice, self.schema), ordered=ordered):
                return choice
        chosen = choices[0]
        source = find_source(self.joiner, joins, occurrences(chosen, self.schema), ordered=ordered)
        return Node(chosen.rule, (*chosen.children[:-1], source))

    def _star_tables(self, node: Node, joins: tuple[Join, ...]) -> list[int]:
        """Tables for `*`, best first: one without a named column, then one whose rows are the rows of the join."""
        tables = list(dict.fromkeys(join.table for join in joins))
        if not any(STAR in part.children for part in nodes(node)):
            return tables[:1]
        columns = self.schema.columns
        named = {columns[column].table for column, _ in references(node) if column != STAR}
        referred = {
            columns[target].table
            for source, target in self.schema.foreign_pairs
            if columns[source].table in tables and columns[target].table != columns[source].table
        }
        return sorted(tables, key=lambda table: (table in named, table in referred, table))

    def _sources(self, query: exp.Select) -> tuple[Scope, tuple[Join, ...]]:
        scope: list[tuple[str, Occurrence]] = []
        joined = query.args.get("joins") or []
        for source in (query.args["from_"].this, *(join.this for join in joined)):
            if not isinstance(source, exp.Table):
                raise SqlError(f"{source.key.upper()} in FROM is not in the grammar")
            table = self._table(source)
            earlier = sum(other == table for _, (other, _) in scope)
            scope.append((source.alias_or_name.lower(), (table, earlier + 1)))
        joins = [Join(*scope[0][1])]
        for position, join in enumerate(joined, 1):
            if join.side or (join.kind and join.kind not in {"INNER", "CROSS"}) or join.method:
                raise SqlError(f"{join.side or join.kind or join.method} JOIN is not in the grammar")
            joins.append(Join(*scope[position][1], tuple(self._join_conditions(join, scope, position))))
        return scope, tuple(joins)

    def _table(self, source: exp.Table) -> int:
        if odd := clauses(source) - {"this", "alias", "db"}:
            raise SqlError(f"{', '.join(sorted(name.upper() for name in odd))} of a table is not in the grammar")
        alias = source.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise SqlError("names for the columns of a table are not in the grammar")
        table = self.schema.find_table(source.name)
        if table is None:
            raise SqlError(f"there is no table {source.name!r} in {self.schema.database}")
        if source.db and source.db != self.schema.tables[table].namespace:
            raise SqlError(f"{source.db}.{source.name} is not in {self.schema.database}")
        return table

    def _join_conditions(self, join: exp.Join, scope: Scope, position: int) -> Iterable[Condition]:
        for name in join.args.get("using") or []:
            left = self._expressions.find(name.name, scope[:position])
            right = self._expressions.find(name.name, [scope[position]])
            if left is None or right is None:
                raise SqlError(f"USING names {name.name!r}, which is not a column of both tables")
            yield ((left, right),)
        on = join.args.get("on")
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return
        for part in split(on, exp.And):
            pairs = []
            for equal in split(part, exp.Or):
                sides = (equal.this, equal.expression) if isinstance(equal, exp.EQ) else ()
                references = [self._expressions.column(side, scope) for side in sides if isinstance(side, exp.Column)]
                match references:
                    case [(int(), int()) as left, (int(), int()) as right]:
                        pairs.append((left, right))
                    case _:
                        raise SqlError(f"the join condition {equal.sql()} is not in the grammar: column = column is")
            yield tuple(pairs)

    def _select_list(self, query: exp.Select, scope: Scope) -> Node:
        items = [self._item(item, scope) for item in query.expressions]
        if len(items) > len(_NUMBERS):
            raise SqlError(f"{len(items)} columns are selected; the grammar knows up to {len(_NUMBERS)}")
        select = Node(_NUMBERS[len(items) - 1], tuple(items))
        distinct = query.args.get("distinct")
        if distinct is None:
            return select
        if distinct.args.get("on"):
            raise SqlError("DISTINCT ON is not in the grammar")
        return Node("Distinct", (select,))

    def _item(self, item: exp.Expr, scope: Scope) -> Node:
        if isinstance(item, exp.Alias):
            return self._item(item.this, scope)
        is_table_star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        if is_table_star and len(scope) > 1:
            raise SqlError("table.* beside other tables is not in the grammar")
        if is_table_star or isinstance(item, exp.Star):
            return Node("Column", (STAR,))
        return self._expressions.expression(item, scope)

    def _where(self, query: exp.Select, scope: Scope) -> Node | None:
        where = query.args.get("where")
        return None if where is None else self._expressions.condition(where.this, scope)

    def _group(self, group: exp.Group, scope: Scope) -> Node:
        node: Node | None = None
        for key in reversed([bare(key) for key in group.expressions]):
            reference = self._expressions.column(key, scope) if isinstance(key, exp.Column) else None
            if reference is None:
                raise SqlError(f"GROUP BY {key.sql()} is not in the grammar: columns are")
            if reference[1] > 2:
                raise SqlError("GROUP BY a column of a table's third occurrence is not in the grammar")
            rule = "By" if reference[1] == 1 else "ByAgain"
            node = Node(rule, (reference[0],)) if node is None else Node(f"{rule}Then", (reference[0], node))
        if node is None or clauses(group) - {"expressions"}:
            raise SqlError("this GROUP BY is not in the grammar")
        return node

    def _order(self, query: exp.Select, scope: Scope) -> Node | None:
        order, limit = query.args.get("order"), query.args.get("limit")
        if limit is not None and not isinstance(limit, exp.Limit):
            raise SqlError(f"{limit.key.upper()} is not in the grammar: LIMIT is")
        count = None if limit is None else self._expressions.number(limit.expression)
        if order is None:
            return None if count is None else Node("First", (count,))
        keys = []
        for key in order.expressions:
            descending = bool(key.args.get("desc"))
            if bool(key.args.get("nulls_first")) != (descending == self._nulls_are_large):
                raise SqlError("NULLS FIRST and NULLS LAST are not in the grammar")
            keys.append((self._expressions.expression(_unaliased(key.this, query), scope), descending))
        if len(keys) == 1 and count is not None and count.text == "1":
            [(expression, descending)] = keys
            return Node("Highest" if descending else "Lowest", (expression,))
        node: Node | None = None
        for expression, descending in reversed(keys):
            rule = "Descending" if descending else "Ascending"
            node = Node(rule, (expression,)) if node is None else Node(f"{rule}Then", (expression, node))
        return Node("Sorted", (node, None if count is None else Node("Limit", (count,))))

    def _width(self, node: Node) -> int:
        """The number of columns that a query returns; 0 for whole rows."""
        if node.rule == "CountRows":
            return 1
        first = node.children[0]
        if not isinstance(first, Node):
            return 0
        if first.rule.startswith("Pair"):
            return int(first.rule.removeprefix("Pair"))
        items = _items(first)
        has_star = any(Node("Column", (star,)) in items for star in self.schema.stars)
        return 0 if has_star else len(items)


def check_depth(sql: str) -> None:
    """Refuse parentheses nested too deeply for a recursive parser; those in quotes do not count."""
    depth = 0
    for character in _QUOTED.sub("", sql):
        depth += (character == "(") - (character == ")")
        if depth > _MAX_DEPTH:
            raise SqlError(f"parentheses are nested more than {_MAX_DEPTH} deep")


def depth_of(tree: Node) -> int:
    """The depth of a tree, without recursion, which a deep tree would exhaust."""
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in node.children if isinstance(child, Node)]
    return deepest


def _check_set_operation(query: exp.SetOperation) -> None:
    if query.args.get("order") or query.args.get("limit") or query.args.get("with_"):
        raise SqlError("ORDER BY, LIMIT and WITH around a set operation are not in the grammar")
    if not query.args.get("distinct"):
        raise SqlError(f"{query.key.upper()} ALL is not in the grammar")


def _items(select: Node) -> tuple[Child, ...]:
    inner = select.children[0]
    return inner.children if select.rule == "Distinct" and isinstance(inner, Node) else select.children


def _unaliased(key: exp.Expr, query: exp.Select) -> exp.Expr:
    """In ORDER BY, an alias of the select list comes before a column of the same name."""
    if isinstance(key, exp.Column) and not key.table:
        for item in query.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == key.name.lower():
                return item.this
    return key


def _with_star(node: Node, star: int) -> Node:
    """The node with a table's `*` for every open one; nested queries have none left."""
    children: list[Child] = []
    for child in node.children:
        if isinstance(child, Node):
            children.append(_with_star(child, star))
        else:
            children.append(star if child == STAR else child)
    return Node(node.rule, tuple(children))
