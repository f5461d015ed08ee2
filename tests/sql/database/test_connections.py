"""Connections to a user's database: read-only, clear about what is wrong, silent about passwords."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.location import Location


def _database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    return path


@pytest.mark.parametrize("name", ["plain.sqlite", "50% of ?mode=rwc&x#.db", "ünï cödé.db", "a@b.db", "%41.db"])
def test_a_file_is_opened_read_only_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = _database(tmp_path / name)
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    engine = open_engine(Location.of(path))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM sqlite_master")).scalars().all() == ["t"]
        with pytest.raises(DBAPIError, match="readonly"):
            connection.execute(text("INSERT INTO t VALUES (1)"))
    engine.dispose()
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(SchemaError, match=r"notes\.txt cannot be opened as a SQLite database: file is not a database"):
        open_engine(Location.of(path))


UNREACHABLE = ["postgresql", "postgresql+psycopg", "postgres", "mysql", "mysql+pymysql", "mariadb"]


@pytest.mark.parametrize("kind", UNREACHABLE)
def test_a_server_that_is_not_there(kind: str) -> None:
    backend = "postgresql" if kind == "postgres" else kind.partition("+")[0]
    with pytest.raises(SchemaError) as caught:
        open_engine(Location.of(f"{kind}://ada:se%40cret@127.0.0.1:1/shop?connect_timeout=5"))
    assert str(caught.value).startswith(f"{backend}://ada:***@127.0.0.1:1/shop cannot be reached: ")
    assert "refused" in str(caught.value)
    assert "check that the server runs" in str(caught.value)
    assert "se@cret" not in str(caught.value)
    assert "se%40cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "module", "package"), [("postgresql", "psycopg", "psycopg[binary]"), ("mariadb", "pymysql", "PyMySQL")]
)
def test_a_missing_driver_names_its_package(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SchemaError) as caught:
        open_engine(Location.of(f"{kind}://ada:secret@127.0.0.1:1/shop"))
    assert f"needs the driver {module}; pip install '{package}'" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_driver_s_message_is_not_shown_where_it_repeats_the_password() -> None:
    location = Location.of("postgresql://ada:hunter2@127.0.0.1/shop?sslpassword=tiger")
    assert reason_of(ValueError("no such\n host"), location) == "no such host"
    for secret in ("hunter2", "tiger"):
        assert reason_of(ValueError(f"bad dsn {secret}"), location).startswith("ValueError, whose text is not shown")
    # A password that is shown anyway, as the name of the user, is no secret.
    same = Location.of("postgresql://ada:ada@127.0.0.1/shop")
    assert reason_of(ValueError("no user ada"), same) == "no user ada"


@pytest.mark.parametrize(
    ("server", "driver", "plain"),
    [("postgresql", "postgresql+psycopg:", "postgres:"), ("mariadb", "mysql+pymysql:", "mariadb:")],
)
def test_a_server(server: str, driver: str, plain: str, request: pytest.FixtureRequest) -> None:
    fresh = request.getfixturevalue(f"fresh_{server}")
    for url in (fresh, fresh.replace(driver, plain)):
        engine = open_engine(Location.of(url))
        with engine.connect() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
            with pytest.raises(DBAPIError, match=r"(?i)read.only"):
                connection.execute(text("CREATE TABLE t (a int)"))
        engine.dispose()
    wrong = make_url(fresh).set(username="nobody_here", password="pass-word").render_as_string(hide_password=False)
    with pytest.raises(SchemaError, match="cannot be reached") as caught:
        open_engine(Location.of(wrong))
    assert "nobody_here" in str(caught.value)
    assert "pass-word" not in str(caught.value)
