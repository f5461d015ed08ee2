"""A user's database, opened once and kept between questions.

In: whatever `Location.of` takes. Out: `OpenedDatabase`, whose `read` returns the schema, the content and the model's
inputs. They are read at the first question. A SQLite file is read again when it has changed, a server's database when
`refresh` was called.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from dtfixup.errors import DataError, SchemaError
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.database.names import Names
from dtfixup.sql.database.reflection import inspect_database
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database

MOST_COLUMNS = 3000
"""Largest number of columns and tables: the time and memory of a question grow with their square."""


@dataclass(frozen=True)
class Reading:
    """The content of a database at one time."""

    inputs: DatabaseInputs
    translator: Translator
    left_out: tuple[str, ...]
    """Sentences on the parts of the database that no question can reach."""
    stamp: tuple[Any, ...]

    @property
    def schema(self) -> Schema:
        return self.inputs.schema


class OpenedDatabase:
    """A database for many questions, also from several threads; made by `open_database`."""

    def __init__(
        self,
        database: DatabaseLike,
        *,
        schema: Schema | None = None,
        names: Names | None = None,
        namespace: str | None = None,
    ) -> None:
        self.location = Location.of(database)
        self._schema, self._names, self._namespace = schema, names, namespace
        self._reading: Reading | None = None
        self._lock = Lock()

    @property
    def shown(self) -> str:
        """The database for messages, without a password."""
        return self.location.shown

    @property
    def dialect(self) -> Dialect:
        return self.location.dialect

    def read(self) -> Reading:
        """The schema and content; read from the database the first time, and when its file has changed."""
        with self._lock:
            stamp = _stamp(self.location)
            if self._reading is None or self._reading.stamp != stamp:
                self._reading = self._read(stamp)
            return self._reading

    def refresh(self) -> None:
        """Read schema and content again at the next question."""
        with self._lock:
            self._reading = None

    def _read(self, stamp: tuple[Any, ...]) -> Reading:
        schema = self._schema
        left_out: tuple[str, ...] = ()
        if schema is None:
            reflection = inspect_database(self.location, names=self._names, namespace=self._namespace)
            schema, left_out = reflection.schema, reflection.left_out
        items = len(schema.columns) + len(schema.tables)
        if items > MOST_COLUMNS:
            raise SchemaError(
                f"{self.shown} has {items:,} columns and tables; the limit is {MOST_COLUMNS:,}: ask over a namespace, "
                "a user or a copy with fewer tables"
            )
        try:
            content = open_content(schema, self.location)
        except DataError as error:  # the cache cannot be written, so the question is not at fault
            raise SchemaError(str(error)) from None
        declared = {} if self.dialect is Dialect.SQLITE else declared_types(self.location, schema)
        translator = Translator(schema, self.dialect, content=content, declared=declared)
        return Reading(describe_database(schema, content), translator, left_out, stamp)


def open_database(
    database: DatabaseLike, *, schema: Schema | None = None, names: Names | None = None, namespace: str | None = None
) -> OpenedDatabase:
    """Open a database for many questions: its schema and content are read once.

    Args:
        database: a SQLite file, a URL of PostgreSQL, MySQL or MariaDB, `sample:NAME` of a bundled database, or an open
            `sqlite3.Connection`, which stands for its file; a database in memory is copied as it is now.
        schema: a schema to use instead of the database's own.
        names: natural names of tables and columns (`names.read_names`).
        namespace: a PostgreSQL schema, or another database of a MySQL server.
    """
    return OpenedDatabase(database, schema=schema, names=names, namespace=namespace)


def _stamp(location: Location) -> tuple[Any, ...]:
    """A value that changes with the file or its log; empty for a server."""
    path = location.path
    if path is None:
        return ()
    try:
        states = [path.stat(), *(log.stat() for log in [path.with_name(path.name + "-wal")] if log.exists())]
    except OSError as error:
        raise SchemaError(
            f"{path} can no longer be read ({error.strerror}): put it back, or name another database"
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
"""Columns whose types matter to a translation. PostgreSQL's query leaves out the categories of text, booleans, dates
and intervals; an enum, a uuid or an address is in none of them, although a schema has it as text. A domain has its base
type, except over an enum, which PostgreSQL does not compare with that enum."""


def declared_types(location: Location, schema: Schema) -> dict[int, str]:
    """The server's types of number columns, and on PostgreSQL of columns that compare only with their own type.

    A translation needs them, because SQLite divides integers to integers and compares anything with text.
    """
    namespace = schema.tables[0].namespace or ""
    engine = open_engine(location)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(_DECLARED[location.dialect]), {"namespace": namespace}).all()
    except SQLAlchemyError as error:
        raise SchemaError(f"the columns of {location.shown} cannot be listed: {reason_of(error, location)}") from None
    finally:
        engine.dispose()
    types = {(table, column): kind for table, column, kind in rows}
    names = [(schema.tables[column.table].name, column.name) for column in schema.columns]
    return {index: types[name] for index, name in enumerate(names) if name in types}
