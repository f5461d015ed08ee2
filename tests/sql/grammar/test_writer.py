"""Tree → SQL text: literals in place and as parameters, names that need quotes, and trees that are no query."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, quoted, read_tables_json
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.grammar.writer import BoundQuery, SqlWriter

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_SCHEMA = read_tables_json(_FIXTURES / "tables.json")["harbour"]
_MEGABYTE = 1 << 20


def _bound(sql: str) -> BoundQuery:
    return SqlWriter(_SCHEMA).write_bound(SqlReader(_SCHEMA).read(sql))


def test_literals_become_placeholders_in_order() -> None:
    query = _bound(
        "SELECT max(length + 1) FROM ship WHERE name LIKE '%a%' AND flag IN ('x', 'y') AND length BETWEEN 2 AND 3.5 "
        "AND ship_id IN (SELECT ship_id FROM crew WHERE age > 4) GROUP BY flag HAVING count(*) > 5 "
        "ORDER BY max(length) - 6 DESC LIMIT 7"
    )
    assert query.sql == (
        "SELECT max(length + ?) FROM ship WHERE name LIKE ? AND flag IN (?, ?) AND length BETWEEN ? AND ? "
        "AND ship_id IN (SELECT ship_id FROM crew WHERE age > ?) GROUP BY flag HAVING count(*) > ? "
        "ORDER BY max(length) - ? DESC LIMIT ?"
    )
    assert query.parameters == (1, "%a%", "x", "y", 2, 3.5, 4, 5, 6, 7)


def test_parameters_of_both_sides_of_whole_rows() -> None:
    query = _bound("SELECT * FROM ship WHERE length > 1 UNION SELECT * FROM ship WHERE flag = 'x' AND length < 2")
    assert query.parameters == (1, "x", 2)
    assert query.sql.count("?") == 3


@pytest.mark.parametrize(
    ("condition", "parameter"),
    [
        ("length = 5", 5),
        ("length = 5.0", 5.0),
        ("length = '5'", 5),
        ("length = 'five'", "five"),
        ("length = -5", -5),
        ("length = '007'", "007"),
        ("length = 0.5", 0.5),
        ("flag = 5", "5"),
        ("flag = '5'", "5"),
        ("built = 1999", "1999"),
        ("built > '1999-01-01'", "1999-01-01"),
        ("length + 1 > company_id", 1),
        ("name LIKE '5%'", "5%"),
    ],
)
def test_parameters_have_the_type_of_their_column(condition: str, parameter: object) -> None:
    query = _bound(f"SELECT name FROM ship WHERE {condition}")
    assert query.parameters == (parameter,)
    assert type(query.parameters[0]) is type(parameter)


def test_what_an_aggregate_is_compared_with() -> None:
    def having(condition: str) -> tuple[str | int | float, ...]:
        return _bound(f"SELECT flag FROM ship GROUP BY flag HAVING {condition}").parameters

    assert having("count(*) > '3'") == (3,)
    assert having("sum(length) > '3.5'") == (3.5,)
    assert having("max(length) > '3'") == (3,)
    assert having("max(name) > 3") == ("3",)


def test_another_placeholder() -> None:
    tree = SqlReader(_SCHEMA).read("SELECT name FROM ship WHERE length > 3 LIMIT 2")
    assert SqlWriter(_SCHEMA).write_bound(tree, lambda position: f"${position}") == BoundQuery(
        "SELECT name FROM ship WHERE length > $1 LIMIT $2", (3, 2)
    )


def _tree(column: int, text: str, kind: ValueKind = ValueKind.TEXT) -> Node:
    """SELECT column FROM its table WHERE column = text"""
    where = Node("Equal", (Node("Column", (column,)), Node("Value", (Literal(text, kind),))))
    return Node("Plain", (Node("One", (Node("Column", (column,)),)), where, None, None))


_CELLS = assemble(
    "cells",
    [Table("cell", "cell")],
    [[("words", "words", ColumnType.TEXT), ("amount", "amount", ColumnType.NUMBER)]],
    [[]],
    [],
)
_WORDS, _AMOUNT = 1, 2
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def _stored_and_found(text: str, column: int) -> tuple[list[object], list[object]]:
    """What a table that holds the text returns for it, with literals in place and as parameters."""
    writer = SqlWriter(_CELLS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE cell (words TEXT, amount)")
        connection.execute("INSERT INTO cell VALUES (?, ?), ('another', 'another')", (text, text))
        query = writer.write_bound(_tree(column, text))
        bound = connection.execute(query.sql, query.parameters).fetchall()
        placed = connection.execute(writer.write(_tree(column, text))).fetchall() if "\0" not in text else bound
    return [row[0] for row in bound], [row[0] for row in placed]


@settings(max_examples=300, deadline=None)
@given(_texts)
@example("O'Brien")
@example("''")
@example("x' OR '1'='1")
@example("a -- b")
@example("/* a */; DROP TABLE cell")
@example('"quoted" `and` [bracketed]')
@example("back\\slash\\'")
@example("%_?:x$1@y")
@example("naïve 漢字 😀 \u202e \x85 \u2028")
@example("line\nbreak\r\n\ttab")
@example("null \0 inside")
@example("1\n")
@example("'" * _MEGABYTE)
@example("ż" * _MEGABYTE)
def test_any_text_survives(text: str) -> None:
    assert _stored_and_found(text, _WORDS) == ([text], [text])


@settings(max_examples=200, deadline=None)
@given(_texts)
@example("1\n")
@example("٣")
@example("1e5")
@example("--1")
@example("0x10")
@example("nan")
@example("007")
@example(" 1")
@example("")
def test_text_that_is_no_plain_number_is_text_for_a_number_column_too(text: str) -> None:
    if not text.strip("-0123456789."):
        return
    assert _stored_and_found(text, _AMOUNT) == ([text], [text])


def _count_equal(text: str) -> int:
    query = SqlWriter(_CELLS).write_bound(_tree(_AMOUNT, text, ValueKind.NUMBER))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE cell (words TEXT, amount NUMERIC)")
        connection.execute(f"INSERT INTO cell VALUES ('', {text})")
        return len(connection.execute(query.sql, query.parameters).fetchall())


@pytest.mark.parametrize("text", ["9223372036854775807", "9223372036854775808", "-99999999999999999999"])
def test_numbers_past_64_bits_can_be_bound(text: str) -> None:
    assert _count_equal(text) == 1


@pytest.mark.parametrize("text", ["1" * 400 + ".5", "7" * 5000, "7" * _MEGABYTE])
def test_numbers_past_all_reason_are_bound_or_refused(text: str) -> None:
    with suppress(SqlError):
        assert _count_equal(text) == 1


def test_a_literal_with_nul_cannot_be_written_in_place() -> None:
    assert SqlWriter(_CELLS).write_bound(_tree(_WORDS, "a\0b")).parameters == ("a\0b",)
    with pytest.raises(SqlError, match="NUL"):
        SqlWriter(_CELLS).write(_tree(_WORDS, "a\0b"))


@settings(max_examples=100, deadline=None)
@given(_texts.filter(lambda text: "%" not in text and "\0" not in text))
@example("it's 50_50")
@example("{}{0}")
def test_patterns_are_built_around_any_text(text: str) -> None:
    column = Node("Column", (_WORDS,))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE cell (words TEXT, amount)")
        connection.execute("INSERT INTO cell VALUES (?, 0)", (text,))
        for shape, pattern in (("Contains", "%{}%"), ("StartsWith", "{}%"), ("EndsWith", "%{}"), ("Matches", "{}")):
            like = Node("Like", (column, Node(shape, (Literal(text, ValueKind.TEXT),))))
            tree = Node("Plain", (Node("One", (column,)), like, None, None))
            query = SqlWriter(_CELLS).write_bound(tree)
            assert query.parameters == (pattern.replace("{}", text),)
            assert connection.execute(query.sql, query.parameters).fetchall() == [(text,)]
            assert connection.execute(SqlWriter(_CELLS).write(tree)).fetchall() == [(text,)]


def _named(table: str, column: str, other: str) -> Schema:
    """Two tables of those names, the second of which refers to the first."""
    kind = ColumnType.NUMBER
    return assemble(
        "named",
        [Table(table, "x"), Table(f"{table}2", "y")],
        [[(column, "x", kind), (other, "y", kind)], [(other, "y", kind), (column, "x", kind)]],
        [[column], [other]],
        [((1, [column]), (0, [column]))],
    )


def _check_names(table: str, column: str, other: str) -> None:
    schema = _named(table, column, other)
    joined = SqlReader(schema).read(
        f"SELECT a.{quoted(other)}, max(b.{quoted(other)}) FROM {quoted(table)} AS a "
        f"JOIN {quoted(table + '2')} AS b ON b.{quoted(column)} = a.{quoted(column)} "
        f"WHERE a.{quoted(column)} = 1 GROUP BY a.{quoted(other)}"
    )
    alone = SqlReader(schema).read(
        f"SELECT {quoted(other)} FROM {quoted(table)} WHERE {quoted(column)} > 1 ORDER BY {quoted(other)}"
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        for name in (table, f"{table}2"):
            connection.execute(f"CREATE TABLE {quoted(name)} ({quoted(column)} INTEGER, {quoted(other)} INTEGER)")
            connection.execute(f"INSERT INTO {quoted(name)} VALUES (1, 10), (2, 30), (3, 20)")
        writer = SqlWriter(schema)
        for tree, rows in ((joined, [(10, 10)]), (alone, [(20,), (30,)])):
            query = writer.write_bound(tree)
            assert connection.execute(query.sql, query.parameters).fetchall() == rows
            assert connection.execute(writer.write(tree)).fetchall() == rows
            assert writer.write(SqlReader(schema).read(writer.write(tree))) == writer.write(tree)


_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


def _is_usable(table: str, column: str, other: str) -> bool:
    """SQLite keeps sqlite_ names to itself, and names that differ in case alone are one; `*` is no name."""
    return column.lower() != other.lower() and "*" not in (column, other) and not table.lower().startswith("sqlite_")


@settings(max_examples=300, deadline=None)
@given(table=_names, column=_names, other=_names)
@example(table="order", column="group", other="select")
@example(table='say "hi"', column="it's", other="a.b")
@example(table="tab\tle", column="new\nline", other="name\n")
@example(table="--", column="/*", other="a;b")
@example(table="таблица", column="größe", other="列")
@example(table="T1", column="T2", other="T1")
@example(table="?", column="%s", other=":x")
@example(table=" ", column="  ", other="[x]")
@example(table="rowid", column="oid", other="_rowid_")
@example(table="true", column="false", other="null")
def test_any_name_survives(table: str, column: str, other: str) -> None:
    if _is_usable(table, column, other):
        _check_names(table, column, other)


# sqlite.org/lang_keywords.html
_KEYWORDS = """
    abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case
    cast check collate column commit conflict constraint create cross current current_date current_time
    current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
    except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
    groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key
    last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others outer
    over partition plan pragma preceding primary query raise range recursive references regexp reindex release rename
    replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to
    transaction trigger unbounded union unique update using vacuum values view virtual when where window with without
"""


@pytest.mark.parametrize("word", _KEYWORDS.split())
def test_words_of_sql_can_be_names(word: str) -> None:
    _check_names(word, word, f"{word}_x")
    _check_names(word.title(), f"{word}_x", word.upper())


def test_plain_names_stay_bare() -> None:
    writer = SqlWriter(_SCHEMA)
    for name in ("name", "Name_2", "_x", "T1"):
        assert writer.identifier(name) == name
    for name, written in (("order", '"order"'), ("Order", '"Order"'), ("a b", '"a b"'), ("2nd", '"2nd"'), ("é", '"é"'),
                         ('a"b', '"a""b"'), ("", '""'), ("name\n", '"name\n"'), ("a$b", '"a$b"')):  # fmt: skip
        assert writer.identifier(name) == written
    assert SqlWriter(_SCHEMA, quote_names=False).identifier("order") == "order"


def test_a_name_with_nul_is_refused() -> None:
    schema = _named("a\0b", "x", "y")
    with pytest.raises(SqlError, match="NUL"):
        SqlWriter(schema).write(Node("Plain", (Node("One", (Node("Column", (1,)),)), None, None, None)))


def test_a_namespace_stands_before_its_table() -> None:
    schema = assemble(
        "spaces",
        [Table("ship", "ship", namespace="north sea"), Table("port", "port", namespace="public")],
        [[("id", "id", ColumnType.NUMBER)], [("id", "id", ColumnType.NUMBER), ("ship", "ship", ColumnType.NUMBER)]],
        [["id"], ["id"]],
        [((1, ["ship"]), (0, ["id"]))],
    )
    items = Node("Two", (Node("Column", (1,)), Node("Column", (3,))))
    assert SqlWriter(schema).write(Node("Plain", (items, None, None, None))) == (
        'SELECT T1.id, T2.id FROM "north sea".ship AS T1 JOIN public.port AS T2 ON T1.id = T2.ship'
    )


def test_aliases_run_on_through_nested_queries() -> None:
    sql = SqlWriter(_SCHEMA).write(
        SqlReader(_SCHEMA).read(
            "SELECT s.name FROM ship s JOIN voyage v ON s.ship_id = v.ship_id WHERE v.passengers > 1 AND s.name IN "
            "(SELECT p.name FROM port p JOIN voyage v ON v.from_port = p.port_id WHERE v.passengers > 1) AND s.name IN "
            "(SELECT s.name FROM ship s JOIN crew c ON s.ship_id = c.ship_id WHERE c.age > 1)"
        )
    )
    aliases = [table.alias for table in sqlglot.parse_one(sql, read="sqlite").find_all(sqlglot.exp.Table)]
    assert sorted(aliases) == ["T1", "T2", "T3", "T4", "T5", "T6"], "Spider's evaluator has one table of aliases"


def test_a_condition_on_a_lone_table_goes_into_where() -> None:
    name, flag, length, star = 12, 16, 13, 10
    on = Node("On", (Node("Column", (name,)), Node("Column", (flag,)), None))
    either = Node(
        "On",
        (*on.children[:2], Node("OrOn", (Node("Column", (length,)), Node("Column", (11,)), None))),
    )
    where = Node("Greater", (Node("Column", (length,)), Node("Value", (Literal("9", ValueKind.NUMBER),))))
    narrow = Node("Or", (where, where))
    item = Node("One", (Node("Column", (star,)),))
    writer = SqlWriter(_SCHEMA)
    assert writer.write(Node("Plain", (item, None, None, on))) == "SELECT * FROM ship WHERE name = flag"
    assert writer.write(Node("Plain", (item, where, None, on))) == (
        "SELECT * FROM ship WHERE name = flag AND length > 9"
    )
    assert writer.write(Node("Plain", (item, narrow, None, on))) == (
        "SELECT * FROM ship WHERE name = flag AND (length > 9 OR length > 9)"
    )
    assert writer.write(Node("Plain", (item, where, None, either))) == (
        "SELECT * FROM ship WHERE (name = flag OR length = ship_id) AND length > 9"
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Node("Column", (12,)), "Column is not a query"),
        (Node("Plain", (Node("One", (Node("Plain", ()),)), None, None, Node("Through", (10, None)))),
         "Plain is not an expression"),
        (Node("Plain", (12, None, None, None)), "expected a rule, found 12"),
        (Node("Plain", (Node("One", (Node("Column", (12,)),)), None, Node("Value", ()), None)),
         "Value is not an order"),
        (Node("Plain", (Node("One", (Node("Column", (12,)),)), Node("Limit", (Node("Column", (12,)),)), None, None)),
         "Limit is not a condition"),
        (Node("Plain", (Node("One", ()), None, None, None)), "the query reads no table"),
    ],
)  # fmt: skip
def test_what_is_no_query_is_refused(tree: Node, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        SqlWriter(_SCHEMA).write(tree)
