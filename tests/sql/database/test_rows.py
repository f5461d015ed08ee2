"""Distinct values of real databases, within limits."""

import datetime
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from dtfixup.errors import SchemaError
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.rows import ColumnValues, ContentLimits, read_values, text_of
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble

_, TEXT, NUMBER, TIME, BOOLEAN, OTHERS = ColumnType


def _schema(table: str, columns: list[tuple[str, ColumnType]]) -> Schema:
    return assemble("town", [Table(table, table)], [[(name, name, kind) for name, kind in columns]], [[]], [])


def _make(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return _make(
        tmp_path / "town.sqlite",
        'CREATE TABLE "odd ""table" (id INTEGER, "the name" TEXT, price REAL, picture BLOB)',
        """INSERT INTO "odd ""table" VALUES (3, 'Zoé', 84.0, x'00'), (1, 'Ann', 2.5, x'01'), (2, 'Ann', NULL, NULL),
        (4, '', 84, x'')""",
    )


ODD = _schema('odd "table', [("id", NUMBER), ("the name", TEXT), ("price", NUMBER), ("picture", OTHERS)])


def test_distinct_values_as_sorted_texts(town: Path) -> None:
    for database in (town, str(town), f"sqlite:///{town}"):
        star, ids, names, prices, pictures = read_values(ODD, Location.of(database), ContentLimits())
        assert star == ColumnValues((), True, 4)
        assert ids.values == ("1", "2", "3", "4")
        assert names.values == ("Ann", "Zoé")
        assert prices.values == ("2.5", "84")
        assert pictures.values == ()


@pytest.mark.parametrize(
    ("limits", "ids", "is_whole"),
    [
        (ContentLimits(rows=2), ("1", "3"), False),
        (ContentLimits(rows=4), ("1", "2", "3", "4"), True),
        (ContentLimits(values=4), ("1", "2", "3", "4"), True),
    ],
)
def test_limits_of_rows(town: Path, limits: ContentLimits, ids: tuple[str, ...], is_whole: bool) -> None:
    values = read_values(ODD, Location.of(town), limits)[1]
    assert (values.values, values.is_whole) == (ids, is_whole)
    assert values.rows == min(4, limits.rows)


def test_limits_of_values_and_their_length(town: Path) -> None:
    few = read_values(ODD, Location.of(town), ContentLimits(values=2))
    assert len(few[1].values) == 2
    assert not few[1].is_whole
    assert few[2].is_whole  # two names are not more than two
    short = read_values(ODD, Location.of(town), ContentLimits(length=2))
    assert short[2] == ColumnValues((), False, 4)
    assert short[3].values == ("84",)
    together = read_values(ODD, Location.of(town), ContentLimits(total=8))  # four columns
    assert len(together[1].values) == 2


def test_a_value_of_a_million_characters_is_left_out(tmp_path: Path) -> None:
    path = _make(tmp_path / "a.sqlite", "CREATE TABLE t (c)", f"INSERT INTO t VALUES ('{'x' * 10**6}'), ('y')")
    assert read_values(_schema("t", [("c", TEXT)]), Location.of(path), ContentLimits())[1] == ColumnValues(
        ("y",), False, 2
    )


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    path = _make(tmp_path / "a.sqlite", "CREATE TABLE t (c)", "INSERT INTO t VALUES (CAST(x'41ff' AS TEXT))")
    assert read_values(_schema("t", [("c", TEXT)]), Location.of(path), ContentLimits())[1].values == ("A\ufffd",)


def test_a_column_that_is_not_there_is_an_error(town: Path) -> None:
    wrong = _schema('odd "table', [("missing", TEXT)])
    with pytest.raises(SchemaError, match=r"no such column.*schema 'town'"):
        read_values(wrong, Location.of(town), ContentLimits())


def test_tables_of_sqlite_itself_are_not_read(town: Path) -> None:
    internal = _schema("sqlite_sequence", [("seq", TEXT)])
    assert read_values(internal, Location.of(town), ContentLimits()) == (
        ColumnValues((), True, 0),
        ColumnValues((), True, 0),
    )


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_values_of_a_server(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"fresh_{server}")
    mark = '"' if server == "postgresql" else "`"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = f"{mark}Odd 5%% Table{mark}"
        columns = "id INTEGER, name VARCHAR(200), price DECIMAL(8,2), opened DATE, is_open BOOLEAN, extra JSON"
        connection.exec_driver_sql(f"CREATE TABLE {name} ({columns})")
        for row in ("3, 'Zoé', 84.00, '2017-05-01', true, '{}'", "1, 'Ann', 2.5, '2018-01-31', false, '[]'"):
            connection.exec_driver_sql(f"INSERT INTO {name} VALUES ({row})")
        connection.exec_driver_sql(f"INSERT INTO {name} (id, name) VALUES (2, '{'x' * 130}')")
    engine.dispose()
    schema = _schema(
        "Odd 5% Table",
        [("id", NUMBER), ("name", TEXT), ("price", NUMBER), ("opened", TIME), ("is_open", BOOLEAN), ("extra", OTHERS)],
    )
    star, ids, names, prices, opened, is_open, extra = read_values(schema, Location.of(url), ContentLimits())
    assert star.rows == 3
    assert ids.values == ("1", "2", "3")
    assert names == ColumnValues(("Ann", "Zoé"), False, 3)
    assert prices.values == ("2.50", "84.00")
    assert opened.values == ("2017-05-01", "2018-01-31")
    assert is_open.values == ("0", "1")
    assert extra.values == ()
    cut = read_values(schema, Location.of(url), ContentLimits(rows=1))
    assert (cut[1].rows, len(cut[1].values), cut[1].is_whole) == (1, 1, False)
    with pytest.raises(SchemaError, match="cannot be read"):
        read_values(_schema("none", [("id", NUMBER)]), Location.of(url), ContentLimits())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"x", None),
        ("", None),
        (" a ", " a "),
        (True, "1"),
        (datetime.timedelta(hours=8, minutes=5), "08:05:00"),
        (datetime.time(8, 5), "08:05:00"),
        (7, "7"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        (Decimal("2.50"), "2.50"),
        (datetime.datetime(2017, 5, 1, 10, 30), "2017-05-01 10:30:00"),
    ],
)
def test_texts_of_stored_values(value: object, expected: str | None) -> None:
    assert text_of(value) == expected
