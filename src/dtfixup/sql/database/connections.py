"""Connections to a user's own database: SQLite, PostgreSQL, MySQL and MariaDB.

In: a file or a URL. Out: a SQLAlchemy engine whose sessions are read-only, connected to once, so that whatever is wrong
(no such file, no driver, no server, no right) shows here as one `SchemaError`. No message repeats a password.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from dtfixup.errors import SchemaError

FORMS = "a SQLite file, postgresql://user:password@host/database, mysql://… or mariadb://…"
_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class _Kind:
    """How one kind of database is reached; `read_only` is said at the start of every session."""

    driver: str
    package: str = ""
    read_only: str = ""


_KINDS = {
    "sqlite": _Kind("pysqlite"),
    "postgresql": _Kind("psycopg", "psycopg[binary]", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
    "mysql": _Kind("pymysql", "PyMySQL", "SET SESSION TRANSACTION READ ONLY"),
    "mariadb": _Kind("pymysql", "PyMySQL", "SET SESSION TRANSACTION READ ONLY"),
}


def open_engine(database: str | Path) -> Engine:
    """An engine with read-only sessions on a SQLite file or the database of a URL; dispose of it after use."""
    url = _url_of(database)
    kind = _KINDS[url.get_backend_name()]
    waits = {"connect_timeout": _CONNECT_SECONDS} if kind.package and "connect_timeout" not in url.query else {}
    try:
        engine = create_engine(url, connect_args=waits)
    except ModuleNotFoundError:
        raise SchemaError(
            f"{describe(database)} needs the driver {kind.driver}; pip install '{kind.package}'"
        ) from None
    if kind.read_only:
        event.listen(engine, "connect", lambda connection, _: _say(connection, kind.read_only))
    try:
        with engine.connect() as connection:
            if url.get_backend_name() == "sqlite":
                connection.exec_driver_sql("SELECT 1 FROM sqlite_master")  # only now is the file looked at
    except (SQLAlchemyError, TypeError, ValueError, RuntimeError, OSError) as error:
        engine.dispose()
        raise SchemaError(_failure(database, url, error)) from None
    return engine


def describe(database: str | Path) -> str:
    """The database as a message may show it: a path, or a URL without password and options."""
    url = _url_of(database)
    if url.get_backend_name() == "sqlite":
        return str(sqlite_path(database))
    return url.set(drivername=url.get_backend_name(), password=None, query={}).render_as_string()


def sqlite_path(database: str | Path) -> Path | None:
    """The file of a SQLite database given by path or `sqlite:///` URL; None for a database on a server."""
    if isinstance(database, Path) or "://" not in database:
        return Path(database)
    url = _parsed(database)
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise SchemaError(
            "a SQLite database in memory is empty when opened; give a file, as sqlite:///path or its path"
        )
    if url.query:
        raise SchemaError("a SQLite URL takes no options here; the file is opened read-only as it is")
    return Path(url.database)


def reason_of(error: Exception, database: str | Path) -> str:
    """What a driver says went wrong, in one line; without its words where they repeat the password."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    text = " ".join(str(cause.args[-1] if cause.args else cause).split())
    url = _url_of(database)
    options = [value for key, value in url.query.items() if "passw" in key.lower()]
    secrets = [str(url.password or ""), *(str(value) for value in options)]
    shown = describe(database)  # what stands there already is no secret, such as a password equal to the user
    if any(secret and secret in text and secret not in shown for secret in secrets):
        return f"{type(cause).__name__}, whose text is not shown, as it repeats the password"
    return text


def _failure(database: str | Path, url: URL, error: Exception) -> str:
    reason = reason_of(error, database)
    if url.get_backend_name() == "sqlite":
        return f"{describe(database)} cannot be opened as a SQLite database: {reason}{_advice(reason)}"
    return (
        f"{describe(database)} cannot be reached: {reason}; check that the server runs, and the user, the password, "
        "the host, the port and the database in the URL"
    )


def _advice(reason: str) -> str:
    """What to do about a SQLite file that cannot be read."""
    if "locked" in reason:
        return "; another program is writing to it: wait until it has finished, or close it"
    if "malformed" in reason:
        return "; it is damaged: use a copy that is whole, or what `sqlite3 FILE .recover` saves of it"
    if "not a database" in reason:
        return f"; it is encrypted, damaged or of another kind: expected {FORMS}"
    return ""


def _url_of(database: str | Path) -> URL:
    path = sqlite_path(database)
    if path is None:
        return _parsed(str(database))
    if not path.is_file():
        if "@" in str(database):
            raise SchemaError(f"there is no such file (not shown, it may hold a password); expected {FORMS}")
        raise SchemaError(f"{path} {'is not a file' if path.exists() else 'does not exist'}; expected {FORMS}")
    where = "file:" + quote(os.fsencode(path.absolute()))
    return URL.create("sqlite", database=where, query={"mode": "ro", "uri": "true"})


def _parsed(text: str) -> URL:
    """The URL with the one driver that is used for its kind of database."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    # An @ that is not the one before the host was meant for a password, parts of which would pass for host or database.
    is_file = url is not None and url.get_backend_name() == "sqlite"
    if url is None or (not is_file and text.count("@") != (url.username is not None)):
        raise SchemaError(
            f"the URL cannot be read; expected {FORMS}, with @ written %40 in a user or password and / written %2F"
        )
    backend, _, driver = url.drivername.partition("+")
    backend = {"postgres": "postgresql"}.get(backend, backend)
    if backend not in _KINDS:
        raise SchemaError(f"databases of the kind {backend!r} are not supported; expected {FORMS}")
    if driver not in ("", _KINDS[backend].driver):
        raise SchemaError(f"the driver {driver!r} is not used here; write {backend}://…, for {_KINDS[backend].driver}")
    return url.set(drivername=f"{backend}+{_KINDS[backend].driver}")


def _say(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()
    connection.commit()
