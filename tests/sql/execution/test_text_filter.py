"""The text filter: what it lets pass, what it refuses and how it says so."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import RefusedError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.text_filter import MAX_DEPTH, check_statement

_DEEP = MAX_DEPTH + 5
_MANY = 4000


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select name from pets where name = 'DROP TABLE; (((' order by 1;",
        'SELECT "delete" FROM "update"',
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a UNION SELECT 2",
        "SELECT * FROM (SELECT 1 AS n) AS a WHERE EXISTS (SELECT 1) -- not (((( deep",
        "SELECT CASE WHEN a THEN 1 ELSE 2 END FROM t",
        "(SELECT 1)",
        "SELECT " + " + ".join(["1"] * 1000),
        "SELECT replace(name, 'a', 'b'), COUNT(*) FROM pets GROUP BY 1",
    ],
)
def test_queries_pass(sql: str, dialect: Dialect) -> None:
    check_statement(sql, dialect)


@pytest.mark.parametrize(
    ("sql", "dialect", "message"),
    [
        ("DELETE FROM pets", Dialect.SQLITE, "DELETE is not a query"),
        ("EXPLAIN SELECT 1", Dialect.SQLITE, "EXPLAIN is not a query"),
        ("SELECT 1; SELECT 2", Dialect.SQLITE, "expected one statement, got 2"),
        ("/* only */ -- comments", Dialect.SQLITE, "says nothing"),
        ("SELECT FROM WHERE", Dialect.SQLITE, "cannot be read"),
        ("SELECT load_extension('x')", Dialect.SQLITE, "the function load_extension"),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", Dialect.POSTGRESQL, "DELETE is not reading"),
        ("SELECT * INTO evil FROM pets", Dialect.POSTGRESQL, "INTO is not reading"),
        ("SELECT * FROM pets FOR UPDATE", Dialect.POSTGRESQL, "lock rows"),
        ("SELECT pg_catalog.pg_sleep(1)", Dialect.POSTGRESQL, "the function pg_sleep"),
        ("SELECT \"pg_read_file\"('x')", Dialect.POSTGRESQL, "the function pg_read_file"),
        ("SELECT Sleep(1)", Dialect.MARIADB, "the function sleep"),
        ("SELECT 1 /*! INTO OUTFILE 'x' */", Dialect.MARIADB, r"begins with /\*!"),
        ("SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", Dialect.MARIADB, r"begins with /\*\+"),
    ],
)
def test_all_else_is_refused_with_its_reason(sql: str, dialect: Dialect, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        check_statement(sql, dialect)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("times", [_DEEP, _MANY])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("[", "]"),
        ("{a:", "}"),
        ("(SELECT ", ")"),
        ("f(", ")"),
        ("CASE WHEN 1 THEN ", " END"),
        ("NOT ", ""),
        ("- ", ""),
        ("~", ""),
        ("NOT - ", ""),
        ("INTERVAL ", ""),
        ("@a := ", ""),
    ],
)
def test_nesting_is_refused_before_the_parser_sees_it(
    opening: str, closing: str, times: int, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dtfixup.sql.execution.text_filter.sqlglot.parse", lambda *_, **__: pytest.fail("the parser was called")
    )
    with pytest.raises(RefusedError, match="nested more than 40 levels"):
        check_statement(f"SELECT {opening * times}1{closing * times}", dialect)


@pytest.mark.parametrize("tail", [" AT TIME ZONE 'UTC'", "::ARRAY<INT>"])
def test_suffixes_that_nest_are_refused(tail: str) -> None:
    with pytest.raises(RefusedError, match="nested more than"):
        check_statement("SELECT a" + tail * _DEEP, Dialect.POSTGRESQL)


def test_brackets_in_text_and_comments_are_not_nesting() -> None:
    brackets = "(" * _MANY
    check_statement(f"SELECT '{brackets}', \"{brackets}\" /* {brackets} */ -- {brackets}", Dialect.SQLITE)
    check_statement(f"SELECT '\\'{brackets}'", Dialect.MARIADB)


@given(st.text())
def test_any_text_is_passed_or_refused(text: str) -> None:
    for dialect in Dialect:
        for sql in (text, f"SELECT {text}"):
            try:
                check_statement(sql, dialect)
            except RefusedError:
                continue


@pytest.mark.parametrize("split", ["train_spider", "dev"])
def test_every_query_of_spider_passes(split: str, spider_folder: Path) -> None:
    for example in json.loads((spider_folder / f"{split}.json").read_text(encoding="utf-8")):
        check_statement(example["query"], Dialect.SQLITE)
