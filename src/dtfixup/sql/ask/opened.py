"""A user's database, opened once and kept between questions.

In: a SQLite file or a URL. Out: `OpenedDatabase`: schema, content and what the model is told of them, read at the first
question. A SQLite file that has changed since is read again; a server's database is, when `refresh` is called.
"""

from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from dtfixup.errors import DataError, SchemaError
from dtfixup.sql.database.connections import describe, open_engine, reason_of, sqlite_path
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.names import Names
from dtfixup.sql.database.reflection import inspect_database
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.text_filter import Dialect
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database

MOST_COLUMNS = 3000
"""Columns and tables of a schema that is read: the time and memory of a question grow with their square."""


@dataclass(frozen=True)
class Reading:
    """What was read of a database, at one time."""

    inputs: DatabaseInputs
    translator: Translator
    left_out: tuple[str, ...]
    """In sentences, what of the database no question can reach."""
    stamp: tuple[Any, ...]

    @property
    def schema(self) -> Schema:
        return self.inputs.schema


class OpenedDatabase:
    """A database for many questions, of several threads too.

    Args:
        database: a SQLite file, or a URL of SQLite, PostgreSQL, MySQL or MariaDB.
        schema: stands in for the one that the database tells of itself.
        names: natural names of tables and columns (`names.read_names`).
        namespace: a PostgreSQL schema, or another database of a MySQL server.
    """

    def __init__(
        self,
        database: str | Path,
        *,
        schema: Schema | None = None,
        names: Names | None = None,
        namespace: str | None = None,
    ) -> None:
        self.location = database
        self.shown = describe(database)
        """The database as a message may show it."""
        self.dialect = dialect_of(database)
        self._schema, self._names, self._namespace = schema, names, namespace
        self._reading: Reading | None = None
        self._lock = Lock()

    @property
    def reading(self) -> Reading:
        """What is known of the database; read where nothing is known yet or the file has changed since."""
        with self._lock:
            stamp = _stamp(self.location)
            if self._reading is None or self._reading.stamp != stamp:
                self._reading = self._read(stamp)
            return self._reading

    @property
    def schema(self) -> Schema:
        return self.reading.schema

    def refresh(self) -> None:
        """Read schema and content again at the next question."""
        with self._lock:
            self._reading = None

    def _read(self, stamp: tuple[Any, ...]) -> Reading:
        schema = self._schema
        left_out: tuple[str, ...] = ()
        if schema is None:
            found = inspect_database(self.location, names=self._names, namespace=self._namespace)
            schema, left_out = found.schema, found.left_out
        items = len(schema.columns) + len(schema.tables)
        if items > MOST_COLUMNS:
            raise SchemaError(
                f"{self.shown} has {items:,} columns and tables, and at most {MOST_COLUMNS:,} can be read at once: ask "
                "over a namespace, a user or a copy that sees fewer tables"
            )
        try:
            content = open_content(schema, self.location)
        except DataError as error:  # a file that went away meanwhile
            raise SchemaError(str(error)) from None
        declared = {} if self.dialect is Dialect.SQLITE else declared_types(self.location, schema)
        translator = Translator(schema, self.dialect, content=content, declared=declared)
        return Reading(describe_database(schema, content), translator, left_out, stamp)


def dialect_of(database: str | Path) -> Dialect:
    """The dialect that a database speaks."""
    if sqlite_path(database) is not None:
        return Dialect.SQLITE
    is_postgresql = make_url(str(database)).get_backend_name().startswith("postgres")
    return Dialect.POSTGRESQL if is_postgresql else Dialect.MARIADB


def _stamp(database: str | Path) -> tuple[Any, ...]:
    """What tells that a file and its log have not changed; nothing for a server."""
    path = sqlite_path(database)
    if path is None:
        return ()
    try:
        states = [path.stat(), *(log.stat() for log in [path.with_name(path.name + "-wal")] if log.exists())]
    except OSError as error:
        raise SchemaError(
            f"{path} cannot be read any more ({error.strerror}): put it back, or name another database"
        ) from None
    return tuple((state.st_ino, state.st_size, state.st_mtime_ns) for state in states)


_DECLARED = {
    Dialect.POSTGRESQL: """
        SELECT c.relname, a.attname,
               format_type(CASE WHEN t.typtype = 'd' AND t.typcategory <> 'E' THEN t.typbasetype ELSE t.oid END, NULL)
        FROM pg_attribute AS a
        JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_type AS t ON t.oid = a.atttypid
        WHERE t.typcategory NOT IN ('S', 'B', 'D', 'T') AND a.attnum > 0
          AND (n.nspname = :namespace OR (:namespace = '' AND pg_table_is_visible(c.oid)))""",
    Dialect.MARIADB: """
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE data_type IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'year')
          AND table_schema = IF(:namespace = '', database(), :namespace)""",
}
"""Columns with the types that matter. PostgreSQL's categories are those of text, truth, dates and intervals; an enum, a
uuid or an address is none of these, though a schema takes it for text. A domain goes by its base type, but for one of
an enum, which PostgreSQL does not compare with that enum."""


def declared_types(database: str | Path, schema: Schema) -> dict[int, str]:
    """Types of columns as a server names them: of numbers, and on PostgreSQL all that compare with their own only.

    Quotients of whole numbers are whole in SQLite, and SQLite compares anything with text.
    """
    namespace = schema.tables[0].namespace or ""
    engine = open_engine(database)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(_DECLARED[dialect_of(database)]), {"namespace": namespace}).all()
    except SQLAlchemyError as error:
        raise SchemaError(
            f"the columns of {describe(database)} cannot be listed: {reason_of(error, database)}"
        ) from None
    finally:
        engine.dispose()
    known = {(table, column): kind for table, column, kind in rows}
    names = [(schema.tables[column.table].name, column.name) for column in schema.columns]
    return {index: known[name] for index, name in enumerate(names) if name in known}
