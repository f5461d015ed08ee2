"""The distinct values stored in every column of a database, within limits.

In: a schema and where its rows are. Out: per column, its values as text. A SQLite file is read through `sqlite3`,
read-only; every other database through a SQLAlchemy engine. Nothing but SELECT is sent.
"""

import datetime
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from dtfixup.errors import SchemaError
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.schema import Column, ColumnType, Schema, Table, quoted


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """How much of a database is looked at; what lies beyond is not linked, and `ColumnValues` says so."""

    rows: int = 100_000
    """Rows read per table, the first the database gives."""
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
    """A column's distinct values as sorted texts; `is_whole` when nothing was left out for a limit."""

    values: tuple[str, ...]
    is_whole: bool
    rows: int
    """Rows of its table that were looked at."""


def read_values(schema: Schema, location: Location, limits: ContentLimits) -> tuple[ColumnValues, ...]:
    """The values of every column of `schema`, in its order; a table's `*` has none."""
    path = location.path
    if path is None:
        return _read_from_server(schema, location, limits)
    location.require_file()
    try:
        return _read_from_file(schema, path, limits)
    except sqlite3.DatabaseError as error:
        raise SchemaError(
            f"{path}: {error}; the file must be a SQLite database with the tables of schema {schema.database!r}"
        ) from None


def _collect(
    schema: Schema,
    limits: ContentLimits,
    count: Callable[[Table], int],
    select: Callable[[Table, Column, bool], Iterable[Any]],
) -> Iterator[ColumnValues]:
    """Walk the columns: `count` counts a table's rows up to one more than the limit, `select` gives values."""
    limit = limits.per_column(len(schema.columns) - len(schema.tables))
    rows = 0
    for index, column in enumerate(schema.columns):
        table = schema.tables[column.table]
        if schema.is_star(index):
            rows = count(table)
            yield ColumnValues((), True, min(rows, limits.rows))
            continue
        is_cut = rows > limits.rows
        is_whole = not is_cut
        held: set[str] = set()
        for value in select(table, column, is_cut):
            text = text_of(value)
            if text is None:
                continue
            if len(held) == limit and text not in held:
                is_whole = False
                break
            if len(text) > limits.length:
                is_whole = False
            else:
                held.add(text)
        yield ColumnValues(tuple(sorted(held)), is_whole, min(rows, limits.rows))


def _read_from_file(schema: Schema, path: Path, limits: ContentLimits) -> tuple[ColumnValues, ...]:
    with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", errors="replace")

        def count(table: Table) -> int:
            if _is_internal(table):
                return 0
            rows = f"SELECT 1 FROM {quoted(table.name)} LIMIT {limits.rows + 1}"
            (counted,) = connection.execute(f"SELECT COUNT(*) FROM ({rows})").fetchone()
            return int(counted)

        def select(table: Table, column: Column, is_cut: bool) -> Iterable[Any]:
            if _is_internal(table):
                return ()
            # The table's name stands before the column's: alone, SQLite takes an unknown quoted name for a text.
            source, item = quoted(table.name), f"{quoted(table.name)}.{quoted(column.name)}"
            if is_cut:
                source, item = f"(SELECT {item} AS item FROM {source} LIMIT {limits.rows})", "item"
            short = f"substr({item}, 1, {limits.length + 1})"  # enough to see that a text is too long
            held = f"CASE typeof({item}) WHEN 'text' THEN {short} WHEN 'blob' THEN NULL ELSE {item} END"
            return (value for (value,) in connection.execute(f"SELECT DISTINCT {held} FROM {source}"))

        return tuple(_collect(schema, limits, count, select))


def _is_internal(table: Table) -> bool:
    """Whether SQLite keeps this table for itself: a schema may list it, but nobody asks for its rows."""
    return table.name.lower().startswith("sqlite_")


def _read_from_server(schema: Schema, location: Location, limits: ContentLimits) -> tuple[ColumnValues, ...]:
    engine = open_engine(location)
    try:
        with engine.connect() as connection:

            def count(table: Table) -> int:
                source = sa.table(table.name, schema=table.namespace)
                rows = sa.select(sa.literal(1).label("one")).select_from(source).limit(limits.rows + 1).subquery()
                return connection.execute(sa.select(sa.func.count()).select_from(rows)).scalar_one()

            def select(table: Table, column: Column, is_cut: bool) -> Iterable[Any]:
                if column.type is ColumnType.OTHERS:  # binary content, documents: no DISTINCT, and nothing said
                    return ()
                source: Any = sa.table(table.name, sa.column(column.name), schema=table.namespace)
                if is_cut:
                    source = sa.select(source.c[column.name]).limit(limits.rows).subquery()
                item = source.c[column.name]
                if column.type is ColumnType.TEXT:
                    item = sa.func.substr(sa.cast(item, sa.String), 1, limits.length + 1)
                return connection.execute(sa.select(item).distinct()).scalars()

            return tuple(_collect(schema, limits, count, select))
    except sa.exc.SQLAlchemyError as error:
        raise SchemaError(f"the rows of {location.shown} cannot be read: {reason_of(error, location)}") from None
    finally:
        engine.dispose()


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
