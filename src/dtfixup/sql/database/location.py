"""Where a database is.

In: a path, a URL, `sample:NAME`, a `sqlite3.Connection`. Out: `Location`: the dialect, and a SQLite file or a server's
URL. Nothing is connected to. Every mistake in the text is a `SchemaError`, which repeats no password.
"""

import shutil
import sqlite3
import tempfile
import weakref
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.dialect import DRIVERS, SERVERS, Dialect
from dtfixup.sql.database.sample import is_sample, sample_file

FORMS = "a SQLite file, postgresql://user:password@host/database, mysql://… or mariadb://…"


class HasLocation(Protocol):
    """An opened database."""

    @property
    def location(self) -> "Location": ...


DatabaseLike: TypeAlias = "str | Path | sqlite3.Connection | Location | HasLocation"
"""What `Location.of` takes."""


@dataclass(frozen=True)
class Location:
    """A SQLite file, or the URL of a server's database."""

    dialect: Dialect
    path: Path | None = None
    url: URL | None = field(default=None, repr=False)
    """With the driver that is used, and the password."""
    copy: "MemoryCopy | None" = field(default=None, compare=False, repr=False)
    """The file's owner, if it is the copy of a database in memory."""

    @classmethod
    def of(cls, database: DatabaseLike) -> "Location":
        """The location of a SQLite file that exists, of a URL, `sample:NAME`, or an open sqlite3 connection.

        A connection means its file, as it was last committed. A database in memory is copied, as it is now, into a
        private file, which is removed with the location.

        >>> Location.of("postgresql://ada:secret@localhost/shop").shown
        'postgresql://ada:***@localhost/shop'
        >>> Location.of("sample:river_ferry").dialect
        <Dialect.SQLITE: 'sqlite'>
        """
        if isinstance(database, Location):
            return database
        if isinstance(database, sqlite3.Connection):
            return _of_connection(database)
        if isinstance(database, str) and is_sample(database):
            return cls(Dialect.SQLITE, sample_file(database))
        if isinstance(database, str) and "://" in database:
            return _of_url(database)
        if isinstance(database, str | Path):
            location = cls(Dialect.SQLITE, Path(database))
            location.require_file()
            return location
        located = getattr(database, "location", None)
        if isinstance(located, Location):
            return located
        advice = "; write it to a connection with df.to_sql('rows', connection)" if hasattr(database, "to_sql") else ""
        raise SchemaError(
            f"a {type(database).__name__} is not a database: expected {FORMS}, sample:NAME of a bundled database, an "
            f"open sqlite3.Connection, or what open_database returned{advice}"
        )

    @property
    def shown(self) -> str:
        """The location as a message may show it: a path, or a URL without password and options."""
        if self.url is not None:
            return self.url.set(drivername=self.url.get_backend_name(), password=None, query={}).render_as_string()
        return "the database in memory" if self.copy is not None else str(self.path)

    def __str__(self) -> str:
        return self.shown

    def require_file(self) -> None:
        """Raise if a SQLite file is not there."""
        if self.path is None or self.path.is_file():
            return
        if "@" in str(self.path):
            raise SchemaError(f"there is no such file (not shown, it may hold a password); expected {FORMS}")
        problem = "is not a file" if self.path.exists() else "does not exist"
        raise SchemaError(f"{self.path} {problem}; expected {FORMS}")

    def secrets(self) -> list[str]:
        """The passwords in the URL, which no message may repeat."""
        if self.url is None:
            return []
        options = [str(value) for key, value in self.url.query.items() if "passw" in key.lower()]
        return [secret for secret in (str(self.url.password or ""), *options) if secret]

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: it may work in another folder, and the copy of a database in memory is not its own."""
        return Location, (self.dialect, self.path and self.path.absolute(), self.url)


class MemoryCopy:
    """The private file of a database in memory, removed with this object."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        folder = tempfile.mkdtemp(prefix="dtfixup-memory-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "memory.sqlite"
        with closing(sqlite3.connect(self.path)) as file:
            connection.backup(file)


def _of_connection(connection: sqlite3.Connection) -> Location:
    try:
        cursor = connection.cursor()
        cursor.row_factory = None
        names = {name: file for _, name, file in cursor.execute("PRAGMA database_list")}
        if file := names["main"]:
            return Location(Dialect.SQLITE, Path(file))
        copy = MemoryCopy(connection)
    except sqlite3.Error as error:
        raise SchemaError(f"the sqlite3 connection cannot be read: {error}; give an open one, of this thread") from None
    return Location(Dialect.SQLITE, copy.path, copy=copy)


def _of_url(text: str) -> Location:
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
    backend = "postgresql" if backend == "postgres" else backend
    if backend not in DRIVERS:
        raise SchemaError(f"databases of the kind {backend!r} are not supported; expected {FORMS}")
    if driver not in ("", DRIVERS[backend]):
        raise SchemaError(f"the driver {driver!r} is not used here; write {backend}://…, for {DRIVERS[backend]}")
    if backend == "sqlite":
        return _of_file_url(url)
    return Location(SERVERS[backend], url=url.set(drivername=f"{backend}+{DRIVERS[backend]}"))


def _of_file_url(url: URL) -> Location:
    if not url.database or url.database == ":memory:":
        raise SchemaError(
            "a SQLite database in memory is empty when opened; give a file, as sqlite:///path or its path, or the open "
            "connection"
        )
    if url.query:
        raise SchemaError("a SQLite URL takes no options here; the file is opened read-only as it is")
    location = Location(Dialect.SQLITE, Path(url.database))
    location.require_file()
    return location
