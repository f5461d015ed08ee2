"""What the official Spider script can read, and what it makes of it. The schema is our own."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import ColumnType, Table, assemble
from dtfixup.sql.evaluation.spider_reader import (
    ColumnUse,
    Condition,
    Expression,
    SchemaNames,
    SpiderQuery,
    read_query,
    schema_names,
)
from tests.sql.evaluation.boats import boat_schema

_KEYWORDS = ["select", "from", "where", "as", "*", "and", "not", "group", "order", "by", "having", "limit", "union"]


_SCHEMA = boat_schema(
    {
        "Boat": ["Boat_id", "name", "length", "harbour_id", "speed"],
        "Harbour": ["harbour_id", "name", "depth"],
        "Trip": ["trip_id", "boat_id", "start_harbour", "length"],
    },
    ("Boat.harbour_id", "Harbour.harbour_id"),
    ("Trip.boat_id", "Boat.Boat_id"),
    ("Trip.start_harbour", "Harbour.harbour_id"),
)


@pytest.fixture(scope="module")
def names() -> SchemaNames:
    return schema_names(_SCHEMA)


def _column(name: str) -> Expression:
    return Expression("none", ColumnUse("none", name, False), None)


def _only_condition(query: SpiderQuery) -> Condition:
    (condition,) = query.where
    assert isinstance(condition, Condition)
    return condition


def test_a_whole_query(names: SchemaNames) -> None:
    query = read_query(
        "SELECT DISTINCT T1.name , count(DISTINCT T2.trip_id) "
        "FROM boat AS T1 JOIN trip AS T2 ON T1.boat_id = T2.boat_id "
        "WHERE T1.length BETWEEN 3 AND 9.5 OR T1.name NOT LIKE '%a' GROUP BY T1.name HAVING count(*) > 1 "
        "ORDER BY max(T1.speed) - min(T1.speed) DESC LIMIT 3 EXCEPT SELECT name , depth FROM harbour",
        names,
    )
    trips = ColumnUse("none", "trip.trip_id", True)
    assert query.distinct
    assert [(item.aggregate, item.expression) for item in query.select] == [
        ("none", _column("boat.name")),
        ("count", Expression("none", trips, None)),
    ]
    assert query.tables == ("boat", "trip")
    assert query.joins == (
        Condition(False, "=", _column("boat.boat_id"), ColumnUse("none", "trip.boat_id", False), None),
    )
    assert query.where == (
        Condition(False, "between", _column("boat.length"), 3.0, 9.5),
        "or",
        Condition(True, "like", _column("boat.name"), '"%a"', None),
    )
    assert query.group == (ColumnUse("none", "boat.name", False),)
    having = Expression("none", ColumnUse("count", "*", False), None)
    assert query.having == (Condition(False, ">", having, 1.0, None),)
    assert query.order is not None
    assert query.order.direction == "desc"
    assert query.order.items == (
        Expression("-", ColumnUse("max", "boat.speed", False), ColumnUse("min", "boat.speed", False)),
    )
    assert query.limit
    assert query.set_operation == "except"
    assert query.other is not None
    assert query.other.tables == ("harbour",)


def test_a_bare_column_belongs_to_the_first_table_that_has_it(names: SchemaNames) -> None:
    first = read_query("SELECT length FROM boat JOIN trip", names)
    second = read_query("SELECT length FROM trip JOIN boat", names)
    assert first.select[0].expression == _column("boat.length")
    assert second.select[0].expression == _column("trip.length")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM boat B",
        "SELECT name FROM boat , harbour",
        "SELECT name FROM boat LEFT JOIN harbour ON boat.harbour_id = harbour.harbour_id",
        "SELECT name FROM (SELECT name FROM boat) AS x",
        "SELECT name FROM (boat JOIN trip)",
        "SELECT count(*) FROM boat.name AS x",
        "SELECT name FROM ship",
        "SELECT depth FROM boat",
        "SELECT T1.name FROM boat AS T2",
        "SELECT T1.* FROM boat AS T1",
        "SELECT boat.name.length FROM boat",
        "SELECT max(length) - min(length) FROM boat",
        "SELECT (SELECT name FROM boat) FROM boat",
        "SELECT 1 FROM boat",
        "SELECT boat AS name FROM trip AS boat",
        "SELECT name",
        "SELECT name FROM boat WHERE length=3",
        "SELECT name FROM boat WHERE length <> 3",
        "SELECT name FROM boat WHERE name IS NOT NULL",
        "SELECT name FROM boat WHERE NOT length > 3",
        "SELECT name FROM boat WHERE length > (speed)",
        "SELECT name FROM boat WHERE length > max(speed)",
        "SELECT name FROM boat WHERE length > -speed",
        "SELECT name FROM boat WHERE length > 3 HAVING speed > 3",
        "SELECT name FROM boat WHERE (length > 3)",
        "SELECT name FROM boat WHERE length IN (1, 2)",
        "SELECT name FROM boat WHERE length BETWEEN 3",
        "SELECT name FROM boat HAVING count(*) > 1",
        "SELECT name FROM boat GROUP name",
        "SELECT name FROM boat LIMIT",
        "SELECT name FROM boat AS",
        "(SELECT name FROM boat",
        "SELECT name FROM boat UNION",
        "",
        ";",
    ],
)
def test_what_cannot_be_read(text: str, names: SchemaNames) -> None:
    with pytest.raises(SqlError):
        read_query(text, names)


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("SELECT name FROM boat ; DROP TABLE boat", "SELECT name FROM boat"),
        ("SELECT name FROM boat WHERE", "SELECT name FROM boat"),
        ("SELECT name FROM boat LIMIT all", "SELECT name FROM boat LIMIT 1"),
        ("SELECT name length FROM boat", "SELECT name , length FROM boat"),
        ("SELECT name FROM boat trip", "SELECT name FROM boat JOIN trip"),
        ("SELECT name FROM (boat) JOIN trip", "SELECT name FROM boat JOIN trip"),
        ("(SELECT name FROM boat ; )", "SELECT name FROM boat"),
        ("SELECT name FROM boat ORDER BY ((max(speed))", "SELECT name FROM boat ORDER BY max(speed)"),
        ("SELECT name FROM boat ORDER BY speed DESC , length ASC", "SELECT name FROM boat ORDER BY speed , length"),
        ("SELECT x.name FROM boat AS x", "SELECT name FROM boat"),
        ("SELECT name FROM boat WHERE length = speed OR speed = 3", "SELECT name FROM boat WHERE length = speed"),
        ("SELECT name FROM boat WHERE length > speed + 3 * 2", "SELECT name FROM boat WHERE length > speed"),
        ("SELECT name FROM boat WHERE length > ('x')", "SELECT name FROM boat WHERE length > 'x'"),
    ],
)
def test_what_is_read_as_if_it_said_something_else(text: str, like: str, names: SchemaNames) -> None:
    assert read_query(text, names) == read_query(like, names)


def test_a_query_without_tables_may_use_the_star_alone(names: SchemaNames) -> None:
    assert read_query("SELECT count(*) FROM", names).tables == ()
    with pytest.raises(SqlError):
        read_query("SELECT name FROM", names)


def test_a_missing_connective_is_not_noticed(names: SchemaNames) -> None:
    where = read_query("SELECT name FROM boat WHERE length > 3 speed > 4", names).where
    assert [type(part) for part in where] == [Condition, Condition]
    assert read_query("SELECT name FROM boat WHERE length > 3 AND", names).where[1:] == ("and",)


def test_joins_of_several_tables_are_one_list(names: SchemaNames) -> None:
    query = read_query(
        "SELECT T1.name FROM boat AS T1 JOIN trip AS T2 ON T1.boat_id = T2.boat_id AND T1.length = T2.length "
        "JOIN harbour AS T3 ON T3.harbour_id = T2.start_harbour",
        names,
    )
    assert [part if isinstance(part, str) else part.left.left.column for part in query.joins] == [
        "boat.boat_id",
        "and",
        "boat.length",
        "and",
        "harbour.harbour_id",
    ]


def test_subqueries_see_their_own_tables_only(names: SchemaNames) -> None:
    inner = _only_condition(
        read_query("SELECT name FROM boat WHERE length > (SELECT avg(length) FROM trip)", names)
    ).low
    assert isinstance(inner, SpiderQuery)
    assert inner.select[0].expression == _column("trip.length")
    with pytest.raises(SqlError):
        read_query("SELECT name FROM boat WHERE harbour_id IN (SELECT speed FROM harbour)", names)


@pytest.mark.parametrize("depth", [100, 101])
def test_nesting_has_an_end(depth: int, names: SchemaNames) -> None:
    text = "SELECT name FROM boat" + " WHERE length > (SELECT length FROM boat" * (depth - 1) + ")" * (depth - 1)
    if depth == 100:
        assert isinstance(_only_condition(read_query(text, names)).low, SpiderQuery)
    else:
        with pytest.raises(SqlError, match="deeper than 100"):
            read_query(text, names)


def test_columns_of_a_foreign_key_share_the_first_of_them(names: SchemaNames) -> None:
    assert names.representative == {
        "boat.harbour_id": "boat.harbour_id",
        "harbour.harbour_id": "boat.harbour_id",
        "trip.start_harbour": "boat.harbour_id",
        "boat.boat_id": "boat.boat_id",
        "trip.boat_id": "boat.boat_id",
    }


def test_keys_that_a_later_key_connects_stay_apart() -> None:
    """a-b and c-d are two groups; b-c joins the first and leaves c in the second too, which then decides about c."""
    columns = [[(name, name, ColumnType.NUMBER)] for name in "abcd"]
    keys = [((0, ["a"]), (1, ["b"])), ((2, ["c"]), (3, ["d"])), ((1, ["b"]), (2, ["c"]))]
    schema = assemble("keys", [Table(f"t_{name}", name) for name in "abcd"], columns, [[]] * 4, keys)
    assert schema_names(schema).representative == {
        "t_a.a": "t_a.a",
        "t_b.b": "t_a.a",
        "t_c.c": "t_c.c",
        "t_d.d": "t_c.c",
    }


@given(st.lists(st.sampled_from(sorted(["name", "boat", "x", "'a'", "3", ",", "=", "(", ")", *_KEYWORDS]))))
def test_any_text_is_read_or_refused(words: list[str]) -> None:
    with suppress(SqlError):
        assert isinstance(read_query(" ".join(words), schema_names(_SCHEMA)), SpiderQuery)
