"""SQL text → tree: names, literals, the table of `*`, dialects, and text that is no query at all.

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
from dtfixup.sql.grammar.tree import Literal, Node, literals, references

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")
_SCHEMA = _SCHEMAS["harbour"]


def _read(sql: str, dialect: str = "sqlite") -> Node:
    return SqlReader(_SCHEMA, dialect).read(sql)


def _columns(sql: str, dialect: str = "sqlite") -> list[str]:
    return [_SCHEMA.qualified(column) for column, _ in references(_read(sql, dialect))]


def test_a_tree_in_full() -> None:
    name, length, flag, star = 12, 13, 16, 10
    assert [_SCHEMA.qualified(column) for column in (name, length, flag, star)] == [
        "ship.name", "ship.length", "ship.flag", "ship.*",
    ]  # fmt: skip
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


def test_chains_of_and_lean_to_the_right() -> None:
    chain = _read("SELECT name FROM ship WHERE length > 1 AND (length > 2 AND length > 3) AND length > 4").children[1]
    rules, values = [], []
    while isinstance(chain, Node) and chain.rule == "And":
        rules.append(chain.rule)
        values += list(literals(chain.children[0]))
        chain = chain.children[1]
    assert rules == ["And"] * 3
    assert [literal.text for literal in [*values, *literals(chain)]] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("condition", "literal"),
    [
        ("name = 'x'", Literal("x", ValueKind.TEXT)),
        ("name = 'O''Hara'", Literal("O'Hara", ValueKind.TEXT)),
        ("name = ''", Literal("", ValueKind.TEXT)),
        ("name = 'a -- b; /* c */ \\n %'", Literal("a -- b; /* c */ \\n %", ValueKind.TEXT)),
        ("name = \"x\"", Literal("x", ValueKind.TEXT)),
        ("name = \"a \"\"b\"\"\"", Literal('a "b"', ValueKind.TEXT)),
        ("length = 5", _number("5")),
        ("length = 5.50", _number("5.50")),
        ("length = -5", _number("-5")),
        ("length = (- 5)", _number("-5")),
        ("length = '5'", Literal("5", ValueKind.TEXT)),
        ("length = true", _number("1")),
        ("length = false", _number("0")),
        ("length + 5 < length", _number("5")),
        ("length IN (7)", _number("7")),
        ("name LIKE '%a b%'", Literal("a b", ValueKind.TEXT)),
        ("name LIKE 'a_%'", Literal("a_", ValueKind.TEXT)),
        ("name LIKE '%a%b'", Literal("%a%b", ValueKind.TEXT)),
        ("name LIKE '%%'", Literal("%%", ValueKind.TEXT)),
    ],
)  # fmt: skip
def test_literals(condition: str, literal: Literal) -> None:
    (found,) = literals(_read(f"SELECT name FROM ship WHERE {condition}"))
    assert found == literal


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [("%x%", "Contains"), ("x%", "StartsWith"), ("%x", "EndsWith"), ("x", "Matches"), ("%", "Matches"),
     ("%x%y%", "Matches"), ("%%x", "Matches"), ("_x%", "StartsWith")],
)  # fmt: skip
def test_shapes_of_like(pattern: str, shape: str) -> None:
    condition = _read(f"SELECT name FROM ship WHERE name LIKE '{pattern}'").children[1]
    assert condition.children[1].rule == shape


def test_names_in_any_case_and_by_table_or_alias() -> None:
    assert _columns("SELECT SHIP.Name, LENGTH FROM Ship") == ["ship.name", "ship.length"]
    assert _columns("SELECT S.name FROM ship AS s") == ["ship.name"]
    assert _columns("SELECT port.name FROM ship AS port") == ["ship.name"], "an alias hides the table it is named after"
    assert _columns("SELECT a.name, b.name FROM ship a, port b") == ["ship.name", "port.name"]
    with pytest.raises(SqlError, match=r"there is no column ship\.name"):
        _read("SELECT ship.name FROM ship AS s")


def test_a_bare_name_is_of_the_first_table_that_has_it() -> None:
    assert _columns("SELECT depth, length FROM ship JOIN port ON ship.name = port.name") == [
        "port.depth",
        "ship.length",
    ]
    assert _columns("SELECT name FROM port WHERE port_id IN (SELECT from_port FROM voyage)") == [
        "port.name", "port.port_id",
    ]  # fmt: skip


def test_a_quoted_name_is_a_string_only_where_no_column_has_it() -> None:
    assert _columns('SELECT "name" FROM ship WHERE flag = "name"') == ["ship.name", "ship.flag", "ship.name"]
    assert _columns('SELECT "name" FROM ship WHERE flag = "depth"') == ["ship.name", "ship.flag"]
    assert _columns('SELECT name FROM ship WHERE flag IN ("depth", "x")') == ["ship.name", "ship.flag"]


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
def test_the_table_of_a_star_is_one_that_need_not_be_said_otherwise(sql: str, table: str) -> None:
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


def test_what_other_dialects_mean_by_it() -> None:
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
        assert [found for found, _ in references(reader.read(sql))] == [column]
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


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_WORDS.split()), max_size=20))
def test_any_words_give_a_tree_or_an_error(tokens: list[str]) -> None:
    _check_total(" ".join(tokens))


_clauses = st.lists(
    st.sampled_from(
        ["WHERE length > 1", "WHERE name", "GROUP BY flag", "GROUP BY 1", "HAVING count(*) > 1", "ORDER BY length",
         "ORDER BY 1 DESC NULLS LAST", "LIMIT 1", "LIMIT 1 OFFSET 1", "LIMIT ALL", "FETCH FIRST ROW ONLY",
         "UNION SELECT name FROM port", "UNION ALL SELECT * FROM ship", "EXCEPT SELECT * FROM ship", "JOIN port",
         "JOIN port USING (name)", "JOIN port ON 1", "LEFT JOIN port ON ship.name = port.name", ", port", "AS s",
         "TABLESAMPLE (1)", "WINDOW w AS ()", "FOR UPDATE"]
    ), max_size=4,
)  # fmt: skip
_selects = st.sampled_from(
    ["*", "name", "count(*)", "ship.*", "count(ship.*)", "max(*)", "count()", "count(1)", "count(DISTINCT *)",
     "max(name, flag)", "DISTINCT name", "DISTINCT ON (name) name", "ALL name", "-length", "NULL", "name x", "1 + name",
     "name + 1", "'a' || name", "(SELECT name)", "(SELECT name FROM port)", "CAST(name AS int)", "name COLLATE NOCASE",
     "rank() OVER ()", "count(*) FILTER (WHERE 1)", "name IS NULL", "EXISTS (SELECT 1)", "?", ":x", "{fn x()}", "x'00'"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(select=_selects, clauses=_clauses)
def test_any_clauses_give_a_tree_or_an_error(select: str, clauses: list[str]) -> None:
    _check_total(f"SELECT {select} FROM ship {' '.join(clauses)}")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_a_tree_or_an_error(text: str) -> None:
    _check_total(text)
    _check_total(f"SELECT name FROM ship WHERE name = {text}")


def _check_total(sql: str) -> None:
    for dialect in ("sqlite", "postgres", "mysql"):
        with suppress(SqlError):
            assert isinstance(_read(sql, dialect), Node)
