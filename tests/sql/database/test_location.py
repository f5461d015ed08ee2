"""A database's location: parsed once from whatever a user has, without its password in any message."""

import gc
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dtfixup.errors import ConfigError, SchemaError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import Location


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "a b.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE pets (name TEXT)")
    return path


def test_a_file_by_path_and_by_url(shop: Path, tmp_path: Path) -> None:
    urls = (f"sqlite:///{shop}", f"sqlite+pysqlite:///{shop}", f"sqlite:///{tmp_path}/a%20b.db")
    for database in (shop, str(shop), *urls):
        assert Location.of(database) == Location(Dialect.SQLITE, shop)
    assert Location.of(shop).shown == str(Location.of(shop)) == str(shop)


@pytest.mark.parametrize(
    ("url", "dialect", "shown"),
    [
        ("postgresql://u@h/d", Dialect.POSTGRESQL, "postgresql://u@h/d"),
        ("postgres://u:secret@h/d", Dialect.POSTGRESQL, "postgresql://u:***@h/d"),
        ("mysql+pymysql://u:secret@h/d?ssl_ca=x", Dialect.MARIADB, "mysql://u:***@h/d"),
        ("mariadb://u@h/d", Dialect.MARIADB, "mariadb://u@h/d"),
    ],
)
def test_a_server_by_url(url: str, dialect: Dialect, shown: str) -> None:
    location = Location.of(url)
    assert (location.dialect, location.path, location.shown) == (dialect, None, shown)
    assert "secret" not in f"{location} {location!r}"


def test_a_location_and_what_has_one_stay_as_they_are(shop: Path) -> None:
    location = Location.of(shop)
    assert Location.of(location) is location
    assert Location.of(SimpleNamespace(location=location)) is location


def test_a_bundled_database_by_name() -> None:
    assert Location.of("sample:river_ferry") == Location.of(Location.of("sample:river_ferry").path or "")
    with pytest.raises(ConfigError, match="no bundled database 'river'; there are sample:bike_repair"):
        Location.of("sample:river")


def test_an_open_connection_stands_for_its_file(shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        connection.row_factory = lambda cursor, row: dict(enumerate(row))
        assert Location.of(connection) == Location(Dialect.SQLITE, shop)
    with pytest.raises(SchemaError, match="connection cannot be read: Cannot operate on a closed database"):
        Location.of(connection)


def test_a_database_in_memory_is_copied_and_the_copy_goes_with_its_location() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("CREATE TABLE pets (name TEXT); INSERT INTO pets VALUES ('Rex')")
        location = Location.of(connection)
        connection.execute("DELETE FROM pets")
    assert location.path is not None
    assert location.shown == "the database in memory"
    with closing(sqlite3.connect(location.path)) as copy:
        assert copy.execute("SELECT name FROM pets").fetchall() == [("Rex",)]
    folder = location.path.parent
    sent = pickle.loads(pickle.dumps(location))
    assert (sent.path, sent.copy) == (location.path, None)
    del sent
    gc.collect()
    assert folder.exists()
    del location
    gc.collect()
    assert not folder.exists()


def test_another_process_gets_an_absolute_path(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    location = Location.of(shop.name)
    assert location.shown == shop.name
    assert pickle.loads(pickle.dumps(location)).path == shop


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    for database in (tmp_path / "missing.db", f"sqlite:///{tmp_path}/missing.db"):
        with pytest.raises(SchemaError, match=r"missing\.db does not exist; expected a SQLite file"):
            Location.of(database)
    with pytest.raises(SchemaError, match="is not a file"):
        Location.of(tmp_path)


@pytest.mark.parametrize("thing", [None, 3, b"shop.db", ["shop.db"], {"url": "shop.db"}])
def test_anything_else_is_an_error_that_says_what_is_taken(thing: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        Location.of(thing)
    assert f"a {type(thing).__name__} is not a database: expected a SQLite file, postgresql://" in str(caught.value)
    assert "an open sqlite3.Connection, or what open_database returned" in str(caught.value)
    assert "to_sql" not in str(caught.value)


def test_a_data_frame_is_an_error_that_says_how_to_make_it_a_database() -> None:
    frame = type("DataFrame", (), {"to_sql": None})()
    with pytest.raises(SchemaError, match=r"a DataFrame is not a database: .*; .*df\.to_sql\('rows', con"):
        Location.of(frame)


WRONG = {
    "mssql://u:secret@h/d": "databases of the kind 'mssql' are not supported; expected a SQLite file, postgresql://",
    "postgresql+asyncpg://u:secret@h/d": "the driver 'asyncpg' is not used here; write postgresql://…, for psycopg",
    "postgresql://u:secret@h:port/d": "the URL cannot be read",
    "postgresql://u:se@secret@h/d": "with @ written %40",
    "postgresql://u/x:secret@h/d": "the URL cannot be read",
    "://u:secret@h": "the URL cannot be read",
    "u:secret@h/d": "there is no such file",
    "sqlite://": "in memory",
    "sqlite:///:memory:": "in memory",
    "sqlite:///secret.db?mode=rwc": "takes no options",
}


@pytest.mark.parametrize("url", WRONG)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Location.of(url)
    assert WRONG[url] in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
