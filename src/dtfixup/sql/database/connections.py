"""Read-only connections to a user's own database: SQLite, PostgreSQL, MySQL and MariaDB.

In: a `Location`. Out: a SQLAlchemy engine whose sessions are read-only. It connects once, so that a missing file,
driver, server or right is a `SchemaError` here. No message repeats a password.
"""

import os
from typing import Any
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.dialect import DRIVERS, Dialect
from dtfixup.sql.database.location import FORMS, Location

_CONNECT_SECONDS = 10
_PACKAGES = {Dialect.POSTGRESQL: "psycopg[binary]", Dialect.MARIADB: "PyMySQL"}
_READ_ONLY = {
    Dialect.POSTGRESQL: "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    Dialect.MARIADB: "SET SESSION TRANSACTION READ ONLY",
}
"""Sent at the start of every session; a SQLite file is opened read-only."""


def open_engine(location: Location) -> Engine:
    """Return an engine with read-only sessions; dispose of it after use."""
    location.require_file()
    url = _url_of(location)
    is_server = location.url is not None
    waits = {"connect_timeout": _CONNECT_SECONDS} if is_server and "connect_timeout" not in url.query else {}
    try:
        engine = create_engine(url, connect_args=waits)
    except ModuleNotFoundError:
        raise SchemaError(
            f"{location.shown} needs the driver {DRIVERS[url.get_backend_name()]}; "
            f"pip install '{_PACKAGES[location.dialect]}'"
        ) from None
    if is_server:
        event.listen(engine, "connect", lambda connection, _: _make_read_only(connection, location.dialect))
    try:
        with engine.connect() as connection:
            if not is_server:
                connection.exec_driver_sql("SELECT 1 FROM sqlite_master")  # only now is the file looked at
    except (SQLAlchemyError, TypeError, ValueError, RuntimeError, OSError) as error:
        engine.dispose()
        raise SchemaError(_failure(location, error)) from None
    return engine


def reason_of(error: Exception, location: Location) -> str:
    """A driver's message in one line; if it repeats the password, only that it does."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    text = " ".join(str(cause.args[-1] if cause.args else cause).split())
    # A password that is shown anyway, such as one equal to the user, is no secret.
    if any(secret in text and secret not in location.shown for secret in location.secrets()):
        return f"{type(cause).__name__}, whose text is not shown, as it repeats the password"
    return text


def _failure(location: Location, error: Exception) -> str:
    reason = reason_of(error, location)
    if location.dialect is Dialect.SQLITE:
        return f"{location.shown} cannot be opened as a SQLite database: {reason}{_advice(reason)}"
    return (
        f"{location.shown} cannot be reached: {reason}; check that the server runs, and the user, the password, "
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


def _url_of(location: Location) -> URL:
    if location.url is not None:
        return location.url
    assert location.path is not None
    file = "file:" + quote(os.fsencode(location.path.absolute()))
    return URL.create("sqlite", database=file, query={"mode": "ro", "uri": "true"})


def _make_read_only(connection: Any, dialect: Dialect) -> None:
    cursor = connection.cursor()
    cursor.execute(_READ_ONLY[dialect])
    cursor.close()
    connection.commit()
