"""The catalogue of a database: its tables, views, columns and keys, as it stores them.

In: a connection and a namespace. Out: `Catalog`, in which names are as stored and keys may still point nowhere.

Departs: the design names SQLAlchemy's Inspector. It misreads PostgreSQL's foreign keys where a column's name holds a
comma, doubles a backtick in MySQL's names, needs a right on MySQL's views that a SELECT-only user lacks, loses SQLite's
declared types and gives up on the whole database for one broken view. The catalogues hold it all, a query or two away.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from dtfixup.sql.database.schema import ColumnType


@dataclass(frozen=True)
class CatalogKey:
    """A foreign key. `table` is None outside the namespace; without `referred` columns, the key is the primary key."""

    columns: tuple[str, ...]
    table: str | None
    referred: tuple[str, ...]
    shown: str
    """What it points at, for messages."""


@dataclass
class CatalogTable:
    """A table or view as stored."""

    name: str
    is_view: bool
    columns: dict[str, ColumnType] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    foreign_keys: list[CatalogKey] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Columns that the user may not SELECT."""


@dataclass
class Catalog:
    """What a database holds; `left_out` says in sentences what could not be read."""

    database: str
    tables: dict[str, CatalogTable] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    namespaces: Sequence[str] = ()
    """Those to name in the message if this one has no tables."""


def read_catalog(connection: Connection, namespace: str | None) -> Catalog:
    """Read the catalogue of the connection's database; None is the default namespace for names."""
    return _READERS[connection.dialect.name](connection, namespace)


_SQLITE_SAMPLE_ROWS = 100
_SQLITE_SAMPLE_STEPS = 20_000_000  # instructions of SQLite's machine: about a second
_SQLITE_SAMPLE_BYTES = 10_000_000  # of one value, which a view may make as large as memory
_SQLITE_TABLES = """
    SELECT name, type = 'view' FROM main.sqlite_master
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"""
_SQLITE_SHADOWS = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"
_SQLITE_COLUMNS = "SELECT name, type, pk FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1 ORDER BY cid"
_SQLITE_KEYS = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?, \'main\') ORDER BY id, seq'


def _read_sqlite(connection: Connection, namespace: str | None) -> Catalog:
    """Leave out the tables that SQLite or a virtual table keeps for itself."""
    catalog = Catalog("")
    if namespace not in (None, "main"):
        catalog.namespaces = ("main",)
        return catalog
    listed = _SQLITE_TABLES
    if sqlite3.sqlite_version_info >= (3, 37):  # before, nothing tells a virtual table's own tables from others
        listed += f" AND name NOT IN ({_SQLITE_SHADOWS})"
    for name, is_view in connection.exec_driver_sql(listed).all():
        try:
            rows = connection.exec_driver_sql(_SQLITE_COLUMNS, (name,)).all()
            keys = connection.exec_driver_sql(_SQLITE_KEYS, (name,)).all()
        except DBAPIError as error:
            catalog.left_out.append(f"{'view' if is_view else 'table'} {name!r} cannot be read: {error.orig}")
            continue
        table = catalog.tables[name] = CatalogTable(name, bool(is_view))
        declared = {column: sqlite_type(kind) for column, kind, _ in rows}
        untyped = [column for column, kind in declared.items() if kind is None]
        sampled = _sample_sqlite(connection, name, untyped, catalog)
        table.columns = {column: kind or sampled[column] for column, kind in declared.items()}
        table.primary_key = tuple(column for column, _, place in sorted(rows, key=lambda row: row.pk) if place)
        for (_, target), group in groupby(keys, key=lambda row: (row.id, row.table)):
            _, _, columns, referred = zip(*group, strict=True)
            referred = tuple(name for name in referred if name is not None)
            table.foreign_keys.append(CatalogKey(columns, target, referred, repr(target)))
    return catalog


def sqlite_type(declared: str) -> ColumnType | None:
    """SQLite takes any word for a type; None where the word, or its lack, says nothing.

    >>> sqlite_type("VARCHAR2(20)"), sqlite_type("unsigned big int"), sqlite_type("TIMESTAMPTZ"), sqlite_type("")
    (<ColumnType.TEXT: 'text'>, <ColumnType.NUMBER: 'number'>, <ColumnType.TIME: 'time'>, None)
    """
    word = declared.lower()
    for kind, parts in _SQLITE_WORDS.items():
        if any(part in word for part in parts):
            return kind
    return ColumnType.BOOLEAN if word == "bit" else None


# In this order: `interval` and `point` have `int` in them, and `datetime2` would be a number by SQLite's own rules.
_SQLITE_WORDS: Mapping[ColumnType, Sequence[str]] = {
    ColumnType.BOOLEAN: ("bool",),
    ColumnType.TIME: ("date", "time", "year", "interval"),
    ColumnType.TEXT: ("char", "clob", "text", "string", "enum", "uuid", "guid"),
    ColumnType.OTHERS: ("json", "blob", "binary", "bytea", "point", "polygon", "geometry", "array", "image", "xml"),
    ColumnType.NUMBER: ("int", "real", "floa", "doub", "num", "dec", "money", "currency", "serial"),
}


def _sample_sqlite(
    connection: Connection, table: str, columns: Sequence[str], catalog: Catalog
) -> dict[str, ColumnType]:
    """Types of columns without one, such as a view's expressions, from the first rows and with bounded effort."""
    types = dict.fromkeys(columns, ColumnType.OTHERS)
    if not columns:
        return types
    quoted = connection.dialect.identifier_preparer.quote_identifier
    kinds = ", ".join(f"typeof({quoted(table)}.{quoted(column)})" for column in columns)
    raw: Any = connection.connection.driver_connection
    raw.set_progress_handler(lambda: 1, _SQLITE_SAMPLE_STEPS)
    largest = raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _SQLITE_SAMPLE_BYTES)
    try:
        rows = connection.exec_driver_sql(f"SELECT {kinds} FROM main.{quoted(table)} LIMIT {_SQLITE_SAMPLE_ROWS}").all()
    except DBAPIError as error:
        catalog.left_out.append(
            f"the types of {', '.join(columns)} in {table!r}, as its rows cannot be read: {error.orig}"
        )
        return types
    finally:
        raw.set_progress_handler(None, 0)
        raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, largest)
    for column, stored in zip(columns, zip(*rows, strict=True), strict=False):
        found = set(stored) - {"null"}
        if found and found <= {"integer", "real"}:
            types[column] = ColumnType.NUMBER
        elif "text" in found and "blob" not in found:
            types[column] = ColumnType.TEXT
    return types


_POSTGRESQL_IS_HERE = """
    (n.nspname = :namespace OR CAST(:namespace AS text) IS NULL AND pg_catalog.pg_table_is_visible(c.oid)
                               AND n.nspname NOT IN ('pg_catalog', 'information_schema'))"""

_POSTGRESQL_COLUMNS = f"""
    SELECT c.oid, c.relname, c.relkind IN ('v', 'm') AS is_view, a.attname, t.typcategory,
           COALESCE(b.typname, t.typname) AS type, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') AS is_readable
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
      AND {_POSTGRESQL_IS_HERE}
      AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'
                      AND d.classid = CAST('pg_catalog.pg_class' AS regclass))
    ORDER BY c.relname, a.attnum"""

_POSTGRESQL_KEYS = f"""
    SELECT k.conrelid, k.confrelid, k.contype = 'p' AS is_primary, CAST(k.confrelid AS regclass) AS shown,
           ARRAY(SELECT CAST(a.attname AS text)
                 FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number
                 ORDER BY u.place) AS columns,
           ARRAY(SELECT CAST(a.attname AS text)
                 FROM unnest(k.confkey) WITH ORDINALITY AS u (number, place)
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number
                 ORDER BY u.place) AS referred
    FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype IN ('p', 'f') AND k.conparentid = 0 AND {_POSTGRESQL_IS_HERE}
    ORDER BY k.conrelid, k.conname"""

_POSTGRESQL_NAMESPACES = """
    SELECT DISTINCT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname"""


def _read_postgresql(connection: Connection, namespace: str | None) -> Catalog:
    """Read partitions through their parent, and leave out what an extension brought."""
    catalog = Catalog(connection.exec_driver_sql("SELECT pg_catalog.current_database()").scalar_one())
    catalog.namespaces = connection.execute(text(_POSTGRESQL_NAMESPACES)).scalars().all()
    name_of: dict[int, str] = {}
    for row in connection.execute(text(_POSTGRESQL_COLUMNS), {"namespace": namespace}):
        name_of[row.oid] = row.relname
        table = catalog.tables.setdefault(row.relname, CatalogTable(row.relname, row.is_view))
        if row.is_readable:
            table.columns[row.attname] = postgresql_type(row.typcategory, row.type)
        elif row.attname is not None:
            table.unreadable.append(row.attname)
    for row in connection.execute(text(_POSTGRESQL_KEYS), {"namespace": namespace}):
        if row.conrelid not in name_of:  # a partition
            continue
        table = catalog.tables[name_of[row.conrelid]]
        if row.is_primary:
            table.primary_key = tuple(row.columns)
        else:
            target = name_of.get(row.confrelid)
            table.foreign_keys.append(CatalogKey(tuple(row.columns), target, tuple(row.referred), row.shown))
    return catalog


def postgresql_type(category: str, name: str) -> ColumnType:
    """From `pg_type.typcategory`, which domains have from their base type and extensions' types state themselves."""
    if name in ("uuid", "macaddr", "macaddr8"):
        return ColumnType.TEXT
    return _POSTGRESQL_CATEGORIES.get(category, ColumnType.OTHERS)


_POSTGRESQL_CATEGORIES = {
    "B": ColumnType.BOOLEAN,
    "N": ColumnType.NUMBER,
    "D": ColumnType.TIME,
    "T": ColumnType.TIME,  # intervals
    "S": ColumnType.TEXT,
    "E": ColumnType.TEXT,  # enums
    "I": ColumnType.TEXT,  # network addresses
    "Z": ColumnType.TEXT,  # "char"
}

# Not joined: MySQL compares the names in its catalogue without regard to case, though `Users` and `users` may be two
# tables.
_MYSQL_TABLES = """
    SELECT table_name, table_type FROM information_schema.tables
    WHERE table_schema = :namespace AND table_type <> 'SEQUENCE'"""

_MYSQL_COLUMNS = """
    SELECT table_name, column_name, data_type, column_type, privileges FROM information_schema.columns
    WHERE table_schema = :namespace ORDER BY table_name, ordinal_position"""

_MYSQL_KEYS = """
    SELECT table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
           referenced_column_name
    FROM information_schema.key_column_usage
    WHERE table_schema = :namespace AND (constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL)
    ORDER BY table_name, constraint_name, ordinal_position"""

_MYSQL_NAMESPACES = """
    SELECT schema_name FROM information_schema.schemata
    WHERE schema_name NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') ORDER BY schema_name"""


def _read_mysql(connection: Connection, namespace: str | None) -> Catalog:
    """A namespace is another database of the same server."""
    current = connection.exec_driver_sql("SELECT DATABASE()").scalar_one()
    here = namespace or current or ""

    def rows_of(query: str) -> Iterator[Any]:
        return iter(connection.execute(text(query), {"namespace": here}))

    catalog = Catalog(current or here)
    catalog.namespaces = connection.execute(text(_MYSQL_NAMESPACES)).scalars().all()
    catalog.tables = {name: CatalogTable(name, "VIEW" in kind) for name, kind in rows_of(_MYSQL_TABLES)}
    for name, column, kind, full, rights in rows_of(_MYSQL_COLUMNS):
        if name not in catalog.tables:  # a sequence
            continue
        if "select" in rights.lower():
            catalog.tables[name].columns[column] = mysql_type(kind, full)
        else:
            catalog.tables[name].unreadable.append(column)
    keys = sorted(rows_of(_MYSQL_KEYS), key=itemgetter(0, 1))  # the server sorts names without regard to case
    for (name, _), group in groupby(keys, key=itemgetter(0, 1)):
        if name not in catalog.tables:
            continue
        _, _, columns, elsewhere, targets, referred = zip(*group, strict=True)
        if targets[0] is None:
            catalog.tables[name].primary_key = columns
        else:
            target = targets[0] if elsewhere[0] == here else None
            key = CatalogKey(columns, target, referred, repr(f"{elsewhere[0]}.{targets[0]}"))
            catalog.tables[name].foreign_keys.append(key)
    return catalog


def mysql_type(kind: str, full: str) -> ColumnType:
    """From `information_schema.columns`: `data_type` and `column_type`. MariaDB's JSON is text with a check.

    >>> mysql_type("tinyint", "tinyint(1)"), mysql_type("tinyint", "tinyint(4)"), mysql_type("enum", "enum('a','b')")
    (<ColumnType.BOOLEAN: 'boolean'>, <ColumnType.NUMBER: 'number'>, <ColumnType.TEXT: 'text'>)
    """
    if full.lower().startswith(("tinyint(1)", "bit(1)")):
        return ColumnType.BOOLEAN
    return _MYSQL_TYPES.get(kind.lower(), ColumnType.OTHERS)


_MYSQL_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), ColumnType.NUMBER),
    **dict.fromkeys(("decimal", "numeric", "float", "double"), ColumnType.NUMBER),
    **dict.fromkeys(("date", "datetime", "timestamp", "time", "year"), ColumnType.TIME),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), ColumnType.TEXT),
    **dict.fromkeys(("enum", "set", "uuid", "inet4", "inet6"), ColumnType.TEXT),
}


_READERS: Mapping[str, Callable[[Connection, str | None], Catalog]] = {
    "sqlite": _read_sqlite,
    "postgresql": _read_postgresql,
    "mysql": _read_mysql,
    "mariadb": _read_mysql,
}
