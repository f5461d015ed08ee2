"""Schemas of live databases: SQLite, PostgreSQL, MySQL and MariaDB.

In: a file or URL. Out: `Schema`, tables before views, both in alphabetical order, with natural names from `names.py`.
What a schema cannot hold (a foreign key that points nowhere, a table the user may not read) is never dropped silently:
`inspect_database` returns it, `reflect` logs it as warnings.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.catalogs import Catalog, CatalogKey, CatalogTable, read_catalog
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.keys import with_implied_keys
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.database.names import Names, name_schema
from dtfixup.sql.database.schema import Schema, Table, assemble

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reflection:
    """A schema, and sentences about what it leaves out of the database."""

    schema: Schema
    left_out: tuple[str, ...]


def reflect(database: DatabaseLike, *, namespace: str | None = None, names: Names | None = None) -> Schema:
    """Return the schema of a live database; log what it leaves out as warnings.

    `namespace` is a PostgreSQL schema or another database of a MySQL server; without it, names are looked up as the
    server does (PostgreSQL's search path).
    """
    reflection = inspect_database(database, namespace=namespace, names=names)
    for sentence in reflection.left_out:
        _log.warning("%s: left out: %s", reflection.schema.database, sentence)
    return reflection.schema


def inspect_database(database: DatabaseLike, *, namespace: str | None = None, names: Names | None = None) -> Reflection:
    """Return the schema of a live database, with what it leaves out."""
    location = Location.of(database)
    engine = open_engine(location)
    try:
        with engine.connect() as connection:
            catalog = read_catalog(connection, namespace)
    except SQLAlchemyError as error:
        raise SchemaError(f"the tables of {location.shown} cannot be listed: {reason_of(error, location)}") from None
    finally:
        engine.dispose()
    if location.path is not None:
        catalog.database = location.path.stem
    _drop_unusable(catalog)
    if not catalog.tables:
        raise SchemaError(_no_tables(location.shown, namespace, catalog))
    schema = _schema_of(catalog, None if location.path is not None else namespace)
    return Reflection(with_implied_keys(name_schema(schema, names)), tuple(catalog.left_out))


def _drop_unusable(catalog: Catalog) -> None:
    for table in list(catalog.tables.values()):
        if "*" in table.columns:
            del table.columns["*"]
            catalog.left_out.append(f"column '*' of {table.name!r}: no query can tell it from all columns")
        if table.columns and table.unreadable:
            columns = ", ".join(table.unreadable)
            catalog.left_out.append(f"columns {columns} of {table.name!r}: the user may not SELECT them")
        elif table.unreadable:
            catalog.left_out.append(f"{table.name!r}: the user may not SELECT from it")
        elif not table.columns:
            catalog.left_out.append(f"{table.name!r}: it has no columns that can be read")
        if not table.columns:
            del catalog.tables[table.name]


def _no_tables(where: str, namespace: str | None, catalog: Catalog) -> str:
    place = where if namespace is None else f"the namespace {namespace!r} of {where}"
    advice = "create some, or grant SELECT on them to this user"
    if catalog.namespaces:
        advice += f", or ask for another namespace: {', '.join(catalog.namespaces)}"
    reasons = "".join(f"; left out: {sentence}" for sentence in catalog.left_out)
    return f"{place} has no tables or views that can be read{reasons}; {advice}"


def _schema_of(catalog: Catalog, namespace: str | None) -> Schema:
    stored = sorted(catalog.tables.values(), key=lambda table: (table.is_view, table.name.lower(), table.name))
    tables = [Table(table.name, table.name, table.is_view, namespace) for table in stored]
    columns = [[(name, name, kind) for name, kind in table.columns.items()] for table in stored]
    table_index = {table.name: index for index, table in enumerate(stored)}
    foreign: dict[tuple[int, tuple[str, ...], int, tuple[str, ...]], None] = {}
    for index, table in enumerate(stored):
        for key in table.foreign_keys:
            target = _resolve(table, key, catalog)
            if target is not None:
                referred_table, referred = target
                foreign[index, _spelt(key.columns, table), table_index[referred_table.name], referred] = None
    order = [list(table.columns) for table in stored]
    keys = sorted(foreign, key=lambda key: (key[0], [order[key[0]].index(name) for name in key[1]], key[2]))
    return assemble(
        catalog.database,
        tables,
        columns,
        [_primary_key(table, catalog) for table in stored],
        [((source, names), (target, referred)) for source, names, target, referred in keys],
    )


def _primary_key(table: CatalogTable, catalog: Catalog) -> tuple[str, ...]:
    missing = [name for name in table.primary_key if name not in table.columns]
    if missing:
        catalog.left_out.append(f"the primary key of {table.name!r}: its column {missing[0]!r} is left out")
        return ()
    return table.primary_key


def _resolve(table: CatalogTable, key: CatalogKey, catalog: Catalog) -> tuple[CatalogTable, tuple[str, ...]] | None:
    """The table and columns that a foreign key refers to; None, and a reason, where it cannot be followed."""
    name = None if key.table is None else _match(key.table, list(catalog.tables))
    if name is None:
        problem = "which is not among the tables read"
    else:
        target = catalog.tables[name]
        referred = _spelt(key.referred or target.primary_key, target)
        if len(referred) != len(key.columns):
            problem = "whose key has another number of columns"
        elif not target.columns.keys() >= set(referred):
            problem = "where not all of its columns are"
        elif not table.columns.keys() >= set(_spelt(key.columns, table)):
            problem = "from columns that are left out"
        else:
            return target, referred
    catalog.left_out.append(
        f"the foreign key ({', '.join(key.columns)}) of {table.name!r} points at {key.shown}, {problem}"
    )
    return None


def _match(name: str, names: Sequence[str]) -> str | None:
    """The same name, or the only one that differs in nothing but case, as SQLite and MySQL look them up."""
    if name in names:
        return name
    close = [own for own in names if own.lower() == name.lower()]
    return close[0] if len(close) == 1 else None


def _spelt(names: Sequence[str], table: CatalogTable) -> tuple[str, ...]:
    return tuple(_match(name, list(table.columns)) or name for name in names)
