"""Conditions and expressions, read as parts of whole queries: literals, shapes of LIKE, names of columns."""

from pathlib import Path

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import read_tables_json
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Literal, Node, literals, references

_SCHEMA = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")["harbour"]


def _read(sql: str) -> Node:
    return SqlReader(_SCHEMA).read(sql)


def _columns(sql: str) -> list[str]:
    return [_SCHEMA.qualified(column) for column, _ in references(_read(sql))]


def _number(text: str) -> Literal:
    return Literal(text, ValueKind.NUMBER)


def test_chains_of_and_lean_to_the_right() -> None:
    chain = _read("SELECT name FROM ship WHERE length > 1 AND (length > 2 AND length > 3) AND length > 4").children[1]
    for text in ("1", "2", "3"):
        assert chain.rule == "And"
        first, chain = chain.children
        assert list(literals(first)) == [_number(text)]
    assert list(literals(chain)) == [_number("4")]


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
    assert list(literals(_read(f"SELECT name FROM ship WHERE {condition}"))) == [literal]


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
    columns = _columns("SELECT depth, length FROM ship JOIN port ON ship.name = port.name")
    assert columns == ["port.depth", "ship.length"]
    columns = _columns("SELECT name FROM port WHERE port_id IN (SELECT from_port FROM voyage)")
    assert columns == ["port.name", "port.port_id"]


def test_a_quoted_name_is_a_string_only_where_no_column_has_it() -> None:
    assert _columns('SELECT "name" FROM ship WHERE flag = "name"') == ["ship.name", "ship.flag", "ship.name"]
    assert _columns('SELECT "name" FROM ship WHERE flag = "depth"') == ["ship.name", "ship.flag"]
    assert _columns('SELECT name FROM ship WHERE flag IN ("depth", "x")') == ["ship.name", "ship.flag"]
