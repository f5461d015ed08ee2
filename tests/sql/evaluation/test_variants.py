"""Variants keep the schema and its promises, and hold rows that the query looks for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtfixup.errors import DataError
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.evaluation.variants import VariantSource, read_source, write_variants
from dtfixup.sql.evaluation.witnesses import Witness, witness_of

_NUMBER, _TEXT = ColumnType.NUMBER, ColumnType.TEXT
_SCRIPT = """
    CREATE TABLE harbour (
        harbour_id INTEGER PRIMARY KEY, name TEXT, depth REAL, open TEXT CHECK (open IN ('yes', 'no'))
    );
    CREATE TABLE Boat (
        boat_id INT, name TEXT NOT NULL, harbour_id INT, built DATE, owner TEXT, double_id AS (boat_id * 2),
        PRIMARY KEY (boat_id), FOREIGN KEY (harbour_id) REFERENCES harbour (harbour_id)
    );
    CREATE TABLE berth (harbour_id INT, number INT, length INT, PRIMARY KEY (harbour_id, number));
    CREATE TABLE stay (boat_id INT, harbour_id INT, number INT, nights INT);
    CREATE UNIQUE INDEX names ON harbour (name);
    CREATE VIEW deep AS SELECT name FROM harbour WHERE depth > 5;
    CREATE TRIGGER no_stay AFTER INSERT ON stay BEGIN DELETE FROM stay; END;
"""


def _schema() -> Schema:
    columns = {
        "harbour": [("harbour_id", _NUMBER), ("name", _TEXT), ("depth", _NUMBER), ("open", _TEXT)],
        "boat": [
            ("boat_id", _NUMBER), ("name", _TEXT), ("harbour_id", _NUMBER),
            ("built", ColumnType.TIME), ("owner", _TEXT), ("double_id", _NUMBER),
        ],
        "berth": [("harbour_id", _NUMBER), ("number", _NUMBER), ("length", _NUMBER)],
        "stay": [("boat_id", _NUMBER), ("harbour_id", _NUMBER), ("number", _NUMBER), ("nights", _NUMBER)],
        "deep": [("name", _TEXT)],
    }  # fmt: skip
    return assemble(
        "boats",
        [Table(name, name, is_view=name == "deep") for name in columns],
        [[(name, name.replace("_", " "), kind) for name, kind in own] for own in columns.values()],
        [["harbour_id"], ["boat_id"], ["harbour_id", "number"], [], []],
        [
            ((1, ["harbour_id"]), (0, ["harbour_id"])),
            ((2, ["harbour_id"]), (0, ["harbour_id"])),
            ((3, ["boat_id"]), (1, ["boat_id"])),
            ((3, ["harbour_id", "number"]), (2, ["harbour_id", "number"])),
        ],
    )


_SCHEMA = _schema()


def _make(path: Path, *, filled: bool) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_SCRIPT)
        if filled:
            harbours = [
                (number, f"Port {number}", number * 1.5, "yes" if number % 2 else "no") for number in range(1, 11)
            ]
            connection.executemany("INSERT INTO harbour VALUES (?, ?, ?, ?)", harbours)
            boats = [
                (row, "abc"[row % 3] * 3, row % 10 + 1, f"{1700 + 3 * row}-05-01", None if row % 4 else "Ann")
                for row in range(80)
            ]
            connection.executemany("INSERT INTO boat VALUES (?, ?, ?, ?, ?)", boats)
            connection.executemany(
                "INSERT INTO berth VALUES (?, ?, ?)", [(row % 10 + 1, row // 10, row) for row in range(30)]
            )
        connection.commit()
    return path


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> VariantSource:
    return read_source(_make(tmp_path_factory.mktemp("full") / "boats.sqlite", filled=True), _SCHEMA)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> VariantSource:
    return read_source(_make(tmp_path_factory.mktemp("empty") / "boats.sqlite", filled=False), _SCHEMA)


def _ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _broken_keys(path: Path) -> Iterator[str]:
    """Foreign keys that point nowhere."""
    for key in _SCHEMA.foreign_keys:
        child, parent = (
            _SCHEMA.tables[_SCHEMA.columns[columns[0]].table].name for columns in (key.columns, key.referred)
        )
        own, referred = (
            ", ".join(_SCHEMA.columns[column].name for column in columns) for columns in (key.columns, key.referred)
        )
        query = f"SELECT count(*) FROM {child} WHERE ({own}) NOT IN (SELECT {referred} FROM {parent})"
        if _ask(path, query) != [(0,)]:
            yield f"{child} ({own})"


@pytest.mark.parametrize("kind", ["full", "empty"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers())
def test_keys_hold_in_every_variant(kind: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    content = request.getfixturevalue(kind)
    query = (
        "SELECT T1.name FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id "
        "WHERE T2.depth > 3 AND T1.owner = 'Ann' GROUP BY T1.harbour_id HAVING count(*) > 2"
    )
    (path,) = write_variants(content, witness_of(query, _SCHEMA), tmp_path, 1, seed=seed)
    assert list(_broken_keys(path)) == []
    for table, key in (
        ("harbour", "harbour_id"),
        ("harbour", "name"),
        ("boat", "boat_id"),
        ("berth", "harbour_id, number"),
    ):
        assert _ask(path, f"SELECT {key} FROM {table} GROUP BY {key} HAVING count(*) > 1") == []
    for table in ("harbour", "boat", "berth", "stay"):
        assert 1 <= _ask(path, f"SELECT count(*) FROM {table}")[0][0] <= 60


def test_the_same_seed_gives_the_same_variants(full: VariantSource, tmp_path: Path) -> None:
    dumps = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        paths = write_variants(full, Witness(), tmp_path / name, 2, seed=seed)
        dumps.append([_dump(path) for path in paths])
    assert dumps[0] == dumps[1]
    assert dumps[0] != dumps[2]
    assert dumps[0][0] != dumps[0][1]


def test_the_schema_is_kept(full: VariantSource, tmp_path: Path) -> None:
    (path,) = write_variants(full, Witness(), tmp_path, 1, seed=0)
    names = {name for (name,) in _ask(path, "SELECT name FROM sqlite_master WHERE sql IS NOT NULL")}
    assert names == {"harbour", "Boat", "berth", "stay", "names", "deep"}, "a trigger would change the rows"
    assert _ask(path, "SELECT count(*) FROM deep") == _ask(path, "SELECT count(*) FROM harbour WHERE depth > 5")
    assert _ask(path, "SELECT count(*) FROM boat WHERE double_id <> boat_id * 2") == [(0,)]


def test_values_are_stored_ones_and_their_neighbours(full: VariantSource, tmp_path: Path) -> None:
    paths = write_variants(full, Witness(), tmp_path, 8, seed=0)
    built = {value for path in paths for (value,) in _ask(path, "SELECT built FROM boat")}
    stored = {f"{1700 + 3 * row}-05-01" for row in range(80)}
    assert built & stored
    assert built - stored, "some values are moved"
    assert all(value.endswith("-05-01") for value in built)
    assert {value for path in paths for (value,) in _ask(path, "SELECT open FROM harbour")} == {"yes", "no"}
    owners = [value for path in paths for (value,) in _ask(path, "SELECT owner FROM boat")]
    assert set(owners) == {"Ann", None}, "two values are a closed set"
    names = [value for path in paths for (value,) in _ask(path, "SELECT name FROM boat")]
    assert None not in names, "no NULL where there was none"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM boat WHERE name = 'never seen' AND built > '2050-01-01'",
        "SELECT name FROM boat WHERE boat_id = 4711",
        "SELECT name FROM harbour WHERE name LIKE '%zzz%' AND open = 'yes'",
        "SELECT T1.name FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id WHERE T2.harbour_id = 4711",
        "SELECT name FROM boat WHERE harbour_id IN (SELECT harbour_id FROM harbour WHERE depth > 1000)",
        "SELECT owner FROM boat WHERE name = 'x' INTERSECT SELECT owner FROM boat WHERE name = 'y'",
        "SELECT owner FROM boat GROUP BY owner HAVING count(*) > 50",
        "SELECT T1.name FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id "
        "WHERE T2.depth > 1000 AND T1.owner = 'Ida' GROUP BY T1.harbour_id HAVING count(*) > 2",
        "SELECT nights FROM stay WHERE nights BETWEEN 900 AND 901",
    ],
)
@pytest.mark.parametrize("kind", ["full", "empty"])
def test_a_query_finds_rows(query: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    paths = write_variants(request.getfixturevalue(kind), witness_of(query, _SCHEMA), tmp_path, 3, seed=0)
    assert any(_ask(path, query) for path in paths)
    plain = write_variants(request.getfixturevalue(kind), Witness(), tmp_path, 3, seed=0)
    assert not any(_ask(path, query) for path in plain), "the witness is what makes the difference"


def test_a_literal_that_does_not_fit_a_key_is_left_out(full: VariantSource, tmp_path: Path) -> None:
    query = "SELECT name FROM harbour WHERE harbour_id = 'north'"
    (path,) = write_variants(full, witness_of(query, _SCHEMA), tmp_path, 1, seed=0)
    assert _ask(path, "SELECT count(*) > 3, max(typeof(harbour_id)) FROM harbour") == [(1, "integer")]


def test_a_declared_key_that_the_rows_repeat_is_none(tmp_path: Path) -> None:
    schema = assemble("log", [Table("log", "log")], [[("day", "day", _NUMBER)]], [["day"]], [])
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE log (day INT); INSERT INTO log VALUES (1), (1), (2);")
    content = read_source(path, schema)
    assert content.keys == frozenset()
    (variant,) = write_variants(content, Witness(), tmp_path, 1, seed=0)
    assert _ask(variant, "SELECT count(*) > count(DISTINCT day) FROM log") == [(1,)]


def test_a_table_may_point_at_itself(tmp_path: Path) -> None:
    columns = [("id", "id", _NUMBER), ("boss", "boss", _NUMBER)]
    schema = assemble("staff", [Table("staff", "staff")], [columns], [["id"]], [((0, ["boss"]), (0, ["id"]))])
    path = tmp_path / "staff.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE staff (id INT PRIMARY KEY, boss INT); INSERT INTO staff VALUES (1, NULL), (2, 1);"
        )
    (variant,) = write_variants(read_source(path, schema), Witness(), tmp_path, 1, seed=3)
    bosses = _ask(variant, "SELECT boss, boss IN (SELECT id FROM staff) FROM staff")
    assert {known for boss, known in bosses if boss is not None} == {1}
    assert None in [boss for boss, _ in bosses], "NULLs are kept"


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_source(tmp_path / "none.sqlite", _SCHEMA)
    (tmp_path / "text.sqlite").write_text("not a database, " * 100)
    with pytest.raises(DataError, match=r"text\.sqlite cannot be read for variants"):
        read_source(tmp_path / "text.sqlite", _SCHEMA)
