"""The questions and gold queries of the bundled dataset: sound, in Spider's conventions, over every construct."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sqlglot
from sqlglot import exp

from dtfixup.sql.database.dataset import Example, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.evaluation.spider_reader import read_query, schema_names

TRAIN = {"public_library", "bike_repair", "river_ferry", "community_garden"}


@dataclass(frozen=True)
class Gold:
    """An example with its parsed query and a connection to its database."""

    example: Example
    tree: exp.Query
    schema: Schema
    database: sqlite3.Connection

    def rows(self, query: exp.Query) -> list[tuple[object, ...]]:
        return self.database.execute(query.sql("sqlite")).fetchall()


@pytest.fixture(scope="module")
def golds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Gold]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFIXUP_CACHE", str(tmp_path_factory.mktemp("cache")))
        dataset = open_dataset(sample_folder())
    opened = {name: sqlite3.connect(dataset.database_file(name)) for name in dataset.schemas}
    found = []
    for example in dataset.split("train") + dataset.split("dev"):
        tree = sqlglot.parse_one(example.query, read="sqlite")
        assert isinstance(tree, exp.Query), example.query
        found.append(Gold(example, tree, dataset.schemas[example.database], opened[example.database]))
    yield found
    for database in opened.values():
        database.close()


def test_every_gold_query_runs_and_returns_rows(golds: list[Gold]) -> None:
    answers = {gold.example.query: gold.database.execute(gold.example.query).fetchall() for gold in golds}
    assert [query for query, rows in answers.items() if not rows or rows == [(None,)]] == []


def test_no_answer_depends_on_the_order_of_equal_rows(golds: list[Gold]) -> None:
    for gold in golds:
        if limit := gold.tree.args.get("limit"):
            count = int(limit.expression.this)
            assert isinstance(gold.tree, exp.Select)
            keys = [ordered.this.copy() for ordered in gold.tree.args["order"].expressions]
            rows = gold.rows(gold.tree.copy().select(*keys, append=False).limit(count + 1))
            assert len(rows) <= count or rows[count - 1] != rows[count], gold.example.query


def test_not_in_never_meets_null(golds: list[Gold]) -> None:
    for gold in golds:
        for node in gold.tree.find_all(exp.Not):
            if isinstance(node.this, exp.In):
                assert (None,) not in gold.rows(node.this.args["query"].this), gold.example.query


def _selects(tree: exp.Expression) -> list[exp.Select]:
    return list(tree.find_all(exp.Select))


def _tables(select: exp.Select) -> list[exp.Expression]:
    return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]


def _columns(select: exp.Select) -> list[exp.Column]:
    return [column for column in select.find_all(exp.Column) if column.find_ancestor(exp.Select) is select]


def _index(column: exp.Column, schema: Schema) -> int:
    select = column.find_ancestor(exp.Select)
    assert select is not None
    (table,) = [t for t in _tables(select) if not column.table or t.alias == column.table]
    return schema.column_index[schema.table_index[table.name.lower()], column.name.lower()]


AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)


def test_gold_queries_keep_the_conventions_of_spider(golds: list[Gold]) -> None:
    forbidden = (exp.Window, exp.CTE, exp.Case, exp.Paren, exp.Exists, exp.Cast)
    for gold in golds:
        query = gold.example.query
        assert gold.tree.find(*forbidden) is None, query
        functions = [node for node in gold.tree.find_all(exp.Func) if not isinstance(node, exp.Connector)]
        assert all(isinstance(node, AGGREGATES) for node in functions), query
        assert all(node.quoted == (node.name == "group") for node in gold.tree.find_all(exp.Identifier)), query
        assert ";" not in query
        assert "  " not in query
        for select in _selects(gold.tree):
            assert not any(isinstance(item, exp.Alias) for item in select.expressions), query
            tables, joins = _tables(select), select.args.get("joins") or []
            names = [f"T{number}" for number in range(1, len(tables) + 1)] if joins else [""]
            assert [table.alias for table in tables] == names, query
            assert all(bool(column.table) == bool(joins) for column in _columns(select)), query
            assert all({key for key, given in join.args.items() if given} == {"this", "on"} for join in joins), query
        for node in gold.tree.find_all(*ARITHMETIC):
            assert isinstance(node.this, exp.Column), query
            assert isinstance(node.expression, exp.Column), query


def test_the_script_of_spider_reads_all_but_null_tests_and_the_reserved_name(golds: list[Gold]) -> None:
    for gold in golds:
        if _has(exp.Null)(gold) or '"group"' in gold.example.query:
            assert gold.example.database in TRAIN, "dev stays comparable with the official script"
        else:
            read_query(gold.example.query, schema_names(gold.schema))


def test_every_name_of_a_gold_query_is_in_the_schema(golds: list[Gold]) -> None:
    for gold in golds:
        for table in gold.tree.find_all(exp.Table):
            assert table.name in {known.name for known in gold.schema.tables}, gold.example.query
        for column in gold.tree.find_all(exp.Column):
            assert gold.schema.columns[_index(column, gold.schema)].name == column.name, gold.example.query


COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.Between)


def test_literals_are_stored_values_or_sensible_bounds_of_the_right_type(golds: list[Gold]) -> None:
    for gold in golds:
        for node in gold.tree.find_all(*COMPARISONS):
            if not isinstance(node.this, exp.Column):
                continue
            column = gold.schema.columns[_index(node.this, gold.schema)]
            table = gold.schema.tables[column.table].name
            for literal in node.find_all(exp.Literal):
                if literal.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select):
                    continue
                assert literal.is_string or column.type in ("number", "boolean"), gold.example.query
                assert not literal.is_string or column.type != "number", gold.example.query
                operator = "LIKE" if isinstance(node, exp.Like) else "="
                value = literal.this if literal.is_string else float(literal.this)
                stored = gold.database.execute(
                    f'SELECT count(*) FROM {table} WHERE "{column.name}" {operator} ?', (value,)
                ).fetchone()[0]
                bound = column.type == "number" or re.fullmatch(r"\d{4}-\d\d-\d\d", literal.this)
                assert stored or (bound and not isinstance(node, (exp.EQ, exp.NEQ))), (literal.this, gold.example)


def test_questions_mention_the_text_that_the_query_looks_for(golds: list[Gold]) -> None:
    for gold in golds:
        question = gold.example.question.lower()
        for literal in gold.tree.find_all(exp.Literal):
            compared = literal.parent.this if literal.parent is not None else None
            if not literal.is_string or not isinstance(compared, exp.Column):
                continue
            kind = gold.schema.columns[_index(compared, gold.schema)].type
            text = literal.this.strip("%").lower()
            year = text[:4] if kind is ColumnType.TIME else ""
            stems = [year] if year else [word[:5] for word in text.split()]
            if kind is not ColumnType.BOOLEAN:
                assert all(stem in question for stem in stems), (literal.this, gold.example.question)


def test_questions_read_as_a_person_would_write_them(golds: list[Gold]) -> None:
    questions = [gold.example.question for gold in golds]
    assert [q for q in questions if q != q.strip() or "  " in q or "_" in q or not 2 < len(q.split()) < 36] == []
    openings = Counter(question.split()[0].lower() for question in questions)
    assert max(openings.values()) <= len(questions) // 6
    assert len(openings) >= 30


def _has(*kinds: type[exp.Expression]) -> Callable[[Gold], bool]:
    return lambda gold: gold.tree.find(*kinds) is not None


def _joins(count: int) -> Callable[[Gold], bool]:
    return lambda gold: any(len(_tables(select)) == count for select in _selects(gold.tree))


def _joins_itself(gold: Gold) -> bool:
    names = ([table.name for table in _tables(select)] for select in _selects(gold.tree))
    return any(len(set(own)) < len(own) for own in names)


def _joins_beside_keys(gold: Gold) -> bool:
    known = {frozenset(pair) for pair in gold.schema.foreign_pairs}
    for join in gold.tree.find_all(exp.Join):
        on = join.args["on"]
        if frozenset((_index(on.this, gold.schema), _index(on.expression, gold.schema))) not in known:
            return True
    return False


def _joins_unmentioned(gold: Gold) -> bool:
    """Some table is there for the path alone: its columns occur only in ON."""
    for select in _selects(gold.tree):
        used = {column.table for column in _columns(select) if column.find_ancestor(exp.Join) is None}
        if any(table.alias not in used for table in _tables(select) if table.alias):
            return True
    return False


def _arithmetic(place: type[exp.Expression]) -> Callable[[Gold], bool]:
    def found(gold: Gold) -> bool:
        clauses = (node.find_ancestor(exp.Where, exp.Order, exp.Select) for node in gold.tree.find_all(*ARITHMETIC))
        return any(type(clause) is place for clause in clauses)

    return found


def _like(pattern: str) -> Callable[[Gold], bool]:
    return lambda gold: any(re.fullmatch(pattern, node.expression.this) for node in gold.tree.find_all(exp.Like))


def _negated(kind: type[exp.Expression]) -> Callable[[Gold], bool]:
    return lambda gold: any(
        node.args.get("negate") or isinstance(node.parent, exp.Not) for node in gold.tree.find_all(kind)
    )


def _in(negated: bool, kind: type[exp.Expression]) -> Callable[[Gold], bool]:
    return lambda gold: any(
        isinstance(node.args["query"].this, kind) and isinstance(node.parent, exp.Not) == negated
        for node in gold.tree.find_all(exp.In)
    )


def _scalar(place: type[exp.Expression]) -> Callable[[Gold], bool]:
    return lambda gold: any(
        isinstance(node.parent, (exp.EQ, exp.GT, exp.LT))
        and node.find_ancestor(exp.Where, exp.Having).__class__ is place
        for node in gold.tree.find_all(exp.Subquery)
    )


def _listed(clause: type[exp.Expression], count: int) -> Callable[[Gold], bool]:
    return lambda gold: any(len(node.expressions) == count for node in gold.tree.find_all(clause))


def _mixes_directions(gold: Gold) -> bool:
    return any(len({bool(o.args.get("desc")) for o in node.expressions}) == 2 for node in gold.tree.find_all(exp.Order))


def _limit(accepts: Callable[[int], bool]) -> Callable[[Gold], bool]:
    return lambda gold: any(accepts(int(node.expression.this)) for node in gold.tree.find_all(exp.Limit))


def _is_null(negated: bool) -> Callable[[Gold], bool]:
    return lambda gold: any(isinstance(node.parent, exp.Not) == negated for node in gold.tree.find_all(exp.Is))


CONSTRUCTS: dict[str, tuple[Callable[[Gold], bool], int]] = {
    "one table": (lambda gold: len(list(gold.tree.find_all(exp.Table))) == 1, 60),
    "two tables": (_joins(2), 50),
    "three tables": (_joins(3), 20),
    "four or five tables": (lambda gold: _joins(4)(gold) or _joins(5)(gold), 6),
    "a table for the path alone": (_joins_unmentioned, 15),
    "self join": (_joins_itself, 8),
    "join beside the keys": (_joins_beside_keys, 6),
    "count": (_has(exp.Count), 40),
    "sum": (_has(exp.Sum), 8),
    "avg": (_has(exp.Avg), 10),
    "min": (_has(exp.Min), 3),
    "max": (_has(exp.Max), 5),
    "count(DISTINCT x)": (lambda gold: any(n.find(exp.Distinct) for n in gold.tree.find_all(exp.Count)), 4),
    "SELECT DISTINCT": (lambda gold: any(s.args.get("distinct") for s in _selects(gold.tree)), 15),
    "a + b": (_has(exp.Add), 4),
    "a - b": (_has(exp.Sub), 8),
    "a * b": (_has(exp.Mul), 4),
    "a / b": (_has(exp.Div), 5),
    "arithmetic in SELECT": (_arithmetic(exp.Select), 12),
    "arithmetic in WHERE": (_arithmetic(exp.Where), 6),
    "arithmetic in ORDER BY": (_arithmetic(exp.Order), 6),
    "BETWEEN": (_has(exp.Between), 8),
    "NOT BETWEEN": (_negated(exp.Between), 3),
    "LIKE, contains": (_like("%.+%"), 4),
    "LIKE, starts": (_like("[^%]+%"), 4),
    "LIKE, ends": (_like("%[^%]+"), 4),
    "NOT LIKE": (_negated(exp.Like), 4),
    "IN (subquery)": (_in(False, exp.Select), 5),
    "NOT IN (subquery)": (_in(True, exp.Select), 8),
    "IN (set operation)": (_in(False, exp.SetOperation), 5),
    "AND with OR": (lambda gold: _has(exp.And)(gold) and _has(exp.Or)(gold), 4),
    "OR": (_has(exp.Or), 6),
    "scalar subquery in WHERE": (_scalar(exp.Where), 7),
    "subquery in HAVING": (_scalar(exp.Having), 5),
    "subquery in FROM": (lambda gold: any(isinstance(n.this, exp.Subquery) for n in gold.tree.find_all(exp.From)), 5),
    "UNION": (_has(exp.Union), 6),
    "INTERSECT": (_has(exp.Intersect), 8),
    "EXCEPT": (_has(exp.Except), 8),
    "GROUP BY one": (_listed(exp.Group, 1), 30),
    "GROUP BY two": (_listed(exp.Group, 2), 6),
    "HAVING": (_has(exp.Having), 15),
    "ORDER BY two, both directions": (_mixes_directions, 4),
    "LIMIT 1": (_limit(lambda n: n == 1), 6),
    "LIMIT n": (_limit(lambda n: n > 1), 6),
    "IS NULL": (_is_null(False), 4),
    "IS NOT NULL": (_is_null(True), 3),
    "!=": (_has(exp.NEQ), 4),
    ">=": (_has(exp.GTE), 8),
    "<=": (_has(exp.LTE), 3),
}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_occurs(golds: list[Gold], construct: str) -> None:
    holds, least = CONSTRUCTS[construct]
    assert sum(map(holds, golds)) >= least
