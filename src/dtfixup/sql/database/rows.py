"""The distinct values stored in every column of a database, within limits.

In: a schema and where its rows are. Out: per column, its values as text. The connection is read-only, and nothing but
SELECT is sent.
"""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.schema import Column, ColumnType, Schema, Table


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """How much of a database is read; `ColumnValues.is_whole` is False for a column that goes beyond."""

    rows: int = 100_000
    """Rows read per table, the first that the database returns."""
    values: int = 10_000
    """Distinct values held per column."""
    total: int = 300_000
    """Distinct values held per database: a schema of many columns holds fewer of each."""
    length: int = 120
    """Characters of a value; a longer one is not held."""

    def per_column(self, columns: int) -> int:
        return min(self.values, max(1, self.total // max(1, columns)))


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """A column's distinct values as sorted texts; `is_whole` if no limit left any out."""

    values: tuple[str, ...]
    is_whole: bool
    rows: int
    """Rows of its table that were looked at."""


def read_values(schema: Schema, location: Location, limits: ContentLimits) -> tuple[ColumnValues, ...]:
    """The values of every column of `schema`, in its order; a table's `*` has none."""
    engine = open_engine(location)
    try:
        with engine.connect() as connection:
            if location.dialect is Dialect.SQLITE:
                raw: Any = connection.connection.driver_connection
                raw.text_factory = lambda text: text.decode("utf-8", errors="replace")
            return tuple(_read_columns(connection, schema, limits))
    except SQLAlchemyError as error:
        raise SchemaError(
            f"the rows of {location.shown} cannot be read: {reason_of(error, location)}; "
            f"the database must have the tables of schema {schema.database!r}"
        ) from None
    finally:
        engine.dispose()


def _read_columns(connection: Connection, schema: Schema, limits: ContentLimits) -> Iterator[ColumnValues]:
    most = limits.per_column(len(schema.columns) - len(schema.tables))
    rows = 0
    for index, column in enumerate(schema.columns):
        table = schema.tables[column.table]
        if schema.is_star(index):
            rows = _count_rows(connection, table, limits.rows + 1)
            yield ColumnValues((), True, min(rows, limits.rows))
            continue
        is_whole = rows <= limits.rows
        values: set[str] = set()
        for value in _distinct_values(connection, table, column, limits, is_cut=not is_whole):
            text = text_of(value)
            if text is None or text in values:
                continue
            if len(values) == most:
                is_whole = False
                break
            if len(text) > limits.length:
                is_whole = False
            else:
                values.add(text)
        yield ColumnValues(tuple(sorted(values)), is_whole, min(rows, limits.rows))


def _count_rows(connection: Connection, table: Table, most: int) -> int:
    if _is_internal(connection, table):
        return 0
    rows = f"(SELECT 1 FROM {_quoted(connection, table)} LIMIT {most}) AS first_rows"
    return int(connection.exec_driver_sql(f"SELECT COUNT(*) FROM {rows}").scalar_one())


def _distinct_values(
    connection: Connection, table: Table, column: Column, limits: ContentLimits, *, is_cut: bool
) -> Iterable[Any]:
    """A column's distinct values, of the first rows alone if `is_cut`; long texts are cut after one character more."""
    kind = connection.dialect.name
    if _is_internal(connection, table):
        return ()
    if column.type is ColumnType.OTHERS and kind != "sqlite":  # binary content and documents: DISTINCT may refuse them
        return ()
    source = _quoted(connection, table)
    # Qualified by its table, since SQLite takes an unknown quoted name alone for a text.
    item = f"{source}.{connection.dialect.identifier_preparer.quote_identifier(column.name)}"
    if is_cut:
        source, item = f"(SELECT {item} AS item FROM {source} LIMIT {limits.rows}) AS first_rows", "item"
    if kind == "sqlite":  # where any column may hold anything
        text = f"substr({item}, 1, {limits.length + 1})"
        item = f"CASE typeof({item}) WHEN 'text' THEN {text} WHEN 'blob' THEN NULL ELSE {item} END"
    elif column.type is ColumnType.TEXT:
        item = f"substr(CAST({item} AS {'VARCHAR' if kind == 'postgresql' else 'CHAR'}), 1, {limits.length + 1})"
    return connection.exec_driver_sql(f"SELECT DISTINCT {item} FROM {source}").scalars()


def _quoted(connection: Connection, table: Table) -> str:
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(name) for name in (table.namespace, table.name) if name is not None)


def _is_internal(connection: Connection, table: Table) -> bool:
    """Whether this is SQLite's own table: a schema may list it, but nobody asks for its rows."""
    return connection.dialect.name == "sqlite" and table.name.lower().startswith("sqlite_")


def text_of(value: Any) -> str | None:
    """A stored value as text, the same for every engine; None for NULL, binary content and empty text.

    >>> text_of(84.0), text_of(datetime.date(2017, 5, 1)), text_of(True), text_of(b"x")
    ('84', '2017-05-01', '1', None)
    >>> text_of(datetime.timedelta(hours=8))  # what MariaDB gives for a time
    '08:00:00'
    """
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.timedelta) and value >= datetime.timedelta():
        minutes, seconds = divmod(value.days * 86_400 + value.seconds, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value) or None
