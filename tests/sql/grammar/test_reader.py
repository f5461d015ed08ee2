"""SQL text → tree: a whole tree, the table of `*`, dialects, depth, and text that is no query at all.

What is read and what is refused, construct by construct, is in `fixtures/round_trip.txt` and `fixtures/refused.txt`.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.errors import DtFixupError, SqlError
from dtfixup.sql.database.schema import ColumnType, Table, assemble, read_tables_json
from dtfixup.sql.grammar.reader import SqlReader, check_depth
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Literal, Node, references

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")
_SCHEMA = _SCHEMAS["harbour"]


def _read(sql: str, dialect: str = "sqlite") -> Node:
    return SqlReader(_SCHEMA, dialect).read(sql)


def _columns(sql: str, dialect: str = "sqlite") -> list[str]:
    return [_SCHEMA.qualified(column) for column, _ in references(_read(sql, dialect))]


def test_a_tree_in_full() -> None:
    columns = [_SCHEMA.qualified(column) for column in range(len(_SCHEMA.columns))]
    name, length, flag, star = map(columns.index, ("ship.name", "ship.length", "ship.flag", "ship.*"))
    tree = _read(
        "SELECT DISTINCT flag, max(length) FROM ship WHERE name LIKE 'A%' OR length + 1 > 90 GROUP BY flag "
        "HAVING count(*) >= 2 ORDER BY avg(length) DESC, flag LIMIT 3"
    )
    like = Node("Like", (Node("Column", (name,)), Node("StartsWith", (Literal("A", ValueKind.TEXT),))))
    one = Node("Value", (Literal("1", ValueKind.NUMBER),))
    more = Node("Greater", (Node("Add", (Node("Column", (length,)), one)), Node("Value", (_number("90"),))))
    keys = Node("DescendingThen", (Node("Avg", (length,)), Node("Ascending", (Node("Column", (flag,)),))))
    assert tree == Node(
        "Grouped",
        (
            Node("Distinct", (Node("Two", (Node("Column", (flag,)), Node("Max", (length,)))),)),
            Node("Or", (like, more)),
            Node("By", (flag,)),
            Node("GreaterEqual", (Node("Count", (star,)), Node("Value", (_number("2"),)))),
            Node("Sorted", (keys, Node("Limit", (_number("3"),)))),
            None,
        ),
    )


def _number(text: str) -> Literal:
    return Literal(text, ValueKind.NUMBER)


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("SELECT count(*) FROM voyage JOIN ship ON voyage.ship_id = ship.ship_id", "voyage"),
        ("SELECT count(*) FROM ship JOIN voyage ON voyage.ship_id = ship.ship_id", "voyage"),
        ("SELECT ship.name, count(*) FROM ship JOIN voyage ON voyage.ship_id = ship.ship_id "
         "GROUP BY ship.name", "voyage"),
        ("SELECT voyage.departed, count(*) FROM ship JOIN voyage ON voyage.ship_id = ship.ship_id "
         "GROUP BY voyage.departed", "ship"),
        ("SELECT count(*) FROM crew", "crew"),
    ],
)  # fmt: skip
def test_the_table_of_a_star(sql: str, table: str) -> None:
    stars = [name for name in _columns(sql) if name.endswith("*")]
    assert stars == [f"{table}.*"]


def test_stars_of_nested_queries_are_their_own() -> None:
    tree = _read("SELECT * FROM ship WHERE length > (SELECT count(*) FROM port)")
    inner = tree.children[1].children[1].children[0]
    assert [_SCHEMA.qualified(column) for column, _ in references(inner)] == ["port.*"]
    assert [_SCHEMA.qualified(column) for column, _ in references(tree)] == ["ship.*", "ship.length"]


def test_parentheses_around_a_query_or_its_left_side() -> None:
    plain = _read("SELECT name FROM ship EXCEPT SELECT name FROM port UNION SELECT name FROM crew")
    assert _read("(SELECT name FROM ship EXCEPT SELECT name FROM port) UNION SELECT name FROM crew") == plain
    assert _read("(SELECT name FROM ship)") == _read("SELECT name FROM ship")
    assert plain.rule == "Union"
    assert plain.children[0].children[0].rule == "Except"


def test_dialects() -> None:
    assert _columns('SELECT `name` FROM ship WHERE flag = "depth"', "mysql") == ["ship.name", "ship.flag"]
    assert _columns("SELECT [name] FROM ship", "tsql") == ["ship.name"]
    assert _read("SELECT name FROM ship WHERE name = 'a\\'b'", "mysql") == _read(
        "SELECT name FROM ship WHERE name = 'a''b'"
    )


def test_what_other_dialects_refuse() -> None:
    with pytest.raises(SqlError, match="Bob"):
        _read('SELECT name FROM ship WHERE name = "Bob"', "postgres")
    with pytest.raises(SqlError, match="SYMMETRIC"):
        _read("SELECT name FROM ship WHERE length BETWEEN SYMMETRIC 9 AND 1", "postgres")


def test_names_that_differ_in_case_are_told_apart() -> None:
    schema = assemble(
        "cases",
        [Table("user", "user"), Table("User", "user")],
        [[("id", "id", ColumnType.NUMBER), ("ID", "id", ColumnType.NUMBER)], [("id", "id", ColumnType.NUMBER)]],
        [[], []],
        [],
    )
    reader = SqlReader(schema, "postgres")
    for sql, column in (('SELECT "ID" FROM "user"', 2), ('SELECT "id" FROM "user"', 1), ('SELECT id FROM "User"', 4)):
        assert [index for index, _ in references(reader.read(sql))] == [column]
    with pytest.raises(DtFixupError, match="'user' and 'User'"):
        reader.read("SELECT id FROM USER")


def test_an_error_ends_with_the_query() -> None:
    sql = "SELECT colour FROM ship"
    with pytest.raises(SqlError, match=rf": {sql}$"):
        _read(sql)


def test_depth_is_counted_outside_of_strings() -> None:
    check_depth("(" * 10 + ")" * 10)
    check_depth("()" * 1000)
    with pytest.raises(SqlError, match="nested more than"):
        check_depth("(" * 1000)
    check_depth("SELECT name FROM ship WHERE name = '" + "(" * 1000 + "'")
    with pytest.raises(SqlError, match="nested more than"):
        check_depth("SELECT name FROM ship WHERE name = '" + ")" * 1000 + "' AND " + "(" * 900)


_DEEP = {
    "parentheses": "SELECT name FROM ship WHERE {(}length = 1{)}",
    "not": "SELECT name FROM ship WHERE {NOT }length = 1",
    "minus": "SELECT name FROM ship WHERE length = {- }1",
    "and": "SELECT name FROM ship WHERE {length = 1 AND }length = 1",
    "or": "SELECT name FROM ship WHERE {length = 1 OR }length = 1",
    "plus": "SELECT {length + }length FROM ship",
    "list": "SELECT name FROM ship WHERE length IN ({1, }1)",
    "keys": "SELECT name FROM ship ORDER BY {length, }length",
    "groups": "SELECT name FROM ship GROUP BY {length, }length",
    "case": "SELECT {CASE WHEN length > 1 THEN }1{ END} FROM ship",
    "unions": "{SELECT name FROM ship UNION }SELECT name FROM ship",
    "queries": "SELECT name FROM ship WHERE {name IN (SELECT name FROM ship WHERE }length = 1{)}",
}


@pytest.mark.parametrize("shape", _DEEP)
@pytest.mark.parametrize("times", [50, 400, 3000])
def test_depth_and_length_end_in_a_tree_or_an_error(shape: str, times: int) -> None:
    sql = _DEEP[shape]
    while "{" in sql:
        before, _, rest = sql.partition("{")
        part, _, after = rest.partition("}")
        sql = before + part * times + after
    _check_total(sql)


_WORDS = (
    "SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT UNION ALL INTERSECT EXCEPT JOIN LEFT CROSS ON USING AS AND "
    "OR NOT IN LIKE BETWEEN IS NULL EXISTS CASE WHEN THEN END WITH VALUES OVER DESC ASC OFFSET FETCH FIRST ROWS ONLY "
    "count max sum ( ) ( ) , . * * + - / = < > != ; 1 2.5 'x' \"x\" ? ship port crew name length ship_id a b T1 TRUE"
)
_CLAUSES = (
    "WHERE length > 1", "WHERE name", "GROUP BY flag", "GROUP BY 1", "HAVING count(*) > 1", "ORDER BY length",
    "ORDER BY 1 DESC NULLS LAST", "LIMIT 1", "LIMIT 1 OFFSET 1", "LIMIT ALL", "FETCH FIRST ROW ONLY",
    "UNION SELECT name FROM port", "UNION ALL SELECT * FROM ship", "EXCEPT SELECT * FROM ship", "JOIN port",
    "JOIN port USING (name)", "JOIN port ON 1", "LEFT JOIN port ON ship.name = port.name", ", port", "AS s",
    "TABLESAMPLE (1)", "WINDOW w AS ()", "FOR UPDATE",
)  # fmt: skip
_ITEMS = (
    "*", "name", "count(*)", "ship.*", "count(ship.*)", "max(*)", "count()", "count(1)", "count(DISTINCT *)",
    "max(name, flag)", "DISTINCT name", "DISTINCT ON (name) name", "ALL name", "-length", "NULL", "name x", "1 + name",
    "name + 1", "'a' || name", "(SELECT name)", "(SELECT name FROM port)", "CAST(name AS int)", "name COLLATE NOCASE",
    "rank() OVER ()", "count(*) FILTER (WHERE 1)", "name IS NULL", "EXISTS (SELECT 1)", "?", ":x", "{fn x()}", "x'00'",
)  # fmt: skip
_words = st.lists(st.sampled_from(_WORDS.split()), max_size=20).map(" ".join)
_clauses = st.lists(st.sampled_from(_CLAUSES), max_size=4).map(" ".join)


@pytest.mark.parametrize(
    "sql",
    [
        _words,
        st.builds("SELECT {} FROM ship {}".format, st.sampled_from(_ITEMS), _clauses),
        st.text(max_size=60),
        st.text(max_size=60).map("SELECT name FROM ship WHERE name = {}".format),
    ],
    ids=["words", "clauses", "text", "text in a condition"],
)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_anything_gives_a_tree_or_an_error(sql: st.SearchStrategy[str], data: st.DataObject) -> None:
    _check_total(data.draw(sql))


def _check_total(sql: str) -> None:
    for dialect in ("sqlite", "postgres", "mysql"):
        with suppress(SqlError):
            assert isinstance(_read(sql, dialect), Node)
