"""Schemas of live databases: SQLite, PostgreSQL, MySQL and MariaDB.

In: a file or URL. Out: `Schema`, tables before views, both in alphabetical order, with natural names from `names.py`.
What a schema cannot hold (a foreign key that points nowhere, a table the user may not read) is told, never dropped in
silence: `inspect_database` returns it, `reflect` logs it as warnings.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from dtfixup.errors import SchemaError
from dtfixup.sql.database.catalogs import Catalog, Reference, Relation, read_catalog
from dtfixup.sql.database.connections import open_engine, reason_of
from dtfixup.sql.database.keys import with_implied_keys
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.database.names import Names, name_schema
from dtfixup.sql.database.schema import Schema, Table, assemble

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reflection:
    """A schema, and in sentences what of the database is not in it."""

    schema: Schema
    left_out: tuple[str, ...]


def reflect(database: DatabaseLike, *, namespace: str | None = None, names: Names | None = None) -> Schema:
    """The schema of a live database; what had to be left out is logged as warnings.

    `namespace` is a PostgreSQL schema or another database of a MySQL server; without it, names are looked up as the
    server does (PostgreSQL's search path).
    """
    reflection = inspect_database(database, namespace=namespace, names=names)
    for sentence in reflection.left_out:
        _log.warning("%s: left out: %s", reflection.schema.database, sentence)
    return reflection.schema


def inspect_database(database: DatabaseLike, *, namespace: str | None = None, names: Names | None = None) -> Reflection:
    """As `reflect`, with what was left out in the result and not in the log."""
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
    if not catalog.relations:
        raise SchemaError(_nothing_found(location.shown, namespace, catalog))
    schema = _schema_of(catalog, None if location.path is not None else namespace)
    return Reflection(with_implied_keys(name_schema(schema, names)), tuple(catalog.left_out))


def _drop_unusable(catalog: Catalog) -> None:
    for relation in list(catalog.relations.values()):
        if "*" in relation.columns:
            del relation.columns["*"]
            catalog.left_out.append(f"column '*' of {relation.name!r}: no query can tell it from all columns")
        if not relation.columns:
            catalog.left_out.append(f"{relation.name!r}: it has no columns that can be read")
            del catalog.relations[relation.name]


def _nothing_found(where: str, namespace: str | None, catalog: Catalog) -> str:
    place = where if namespace is None else f"the namespace {namespace!r} of {where}"
    advice = "create some, or grant SELECT on them to this user"
    if catalog.namespaces:
        advice += f", or ask for another namespace: {', '.join(catalog.namespaces)}"
    told = "".join(f"; left out: {sentence}" for sentence in catalog.left_out)
    return f"{place} has no tables or views that can be read{told}; {advice}"


def _schema_of(catalog: Catalog, namespace: str | None) -> Schema:
    relations = sorted(catalog.relations.values(), key=lambda own: (own.is_view, own.name.lower(), own.name))
    tables = [Table(own.name, own.name, own.is_view, namespace) for own in relations]
    columns = [[(name, name, kind) for name, kind in own.columns.items()] for own in relations]
    position = {own.name: index for index, own in enumerate(relations)}
    foreign: dict[tuple[int, tuple[str, ...], int, tuple[str, ...]], None] = {}
    for own in relations:
        for reference in own.references:
            target = _resolve(own, reference, catalog)
            if target is not None:
                table, referred = target
                foreign[position[own.name], _spelt(reference.columns, own), position[table.name], referred] = None
    order = [{name: index for index, (name, _, _) in enumerate(own)} for own in columns]
    keys = sorted(foreign, key=lambda key: (key[0], [order[key[0]][name] for name in key[1]], key[2]))
    return assemble(
        catalog.database,
        tables,
        columns,
        [_primary_key(own, catalog) for own in relations],
        [((source, names), (target, referred)) for source, names, target, referred in keys],
    )


def _primary_key(relation: Relation, catalog: Catalog) -> tuple[str, ...]:
    missing = [name for name in relation.primary_key if name not in relation.columns]
    if missing:
        catalog.left_out.append(f"the primary key of {relation.name!r}: its column {missing[0]!r} is left out")
        return ()
    return relation.primary_key


def _resolve(own: Relation, reference: Reference, catalog: Catalog) -> tuple[Relation, tuple[str, ...]] | None:
    """The table and columns that a foreign key points at; None, and a sentence, where it cannot be followed."""
    table = None if reference.table is None else _match(reference.table, list(catalog.relations))
    problem = None
    referred: tuple[str, ...] = ()
    if table is None:
        problem = "which is not among the tables read"
    else:
        target = catalog.relations[table]
        referred = _spelt(reference.referred or target.primary_key, target)
        if len(referred) != len(reference.columns):
            problem = "whose key has another number of columns"
        elif not all(name in target.columns for name in referred):
            problem = "where not all of its columns are"
        elif not all(name in own.columns for name in _spelt(reference.columns, own)):
            problem = "from columns that are left out"
        else:
            return target, referred
    catalog.left_out.append(
        f"the foreign key ({', '.join(reference.columns)}) of {own.name!r} points at {reference.shown}, {problem}"
    )
    return None


def _match(name: str, known: Sequence[str]) -> str | None:
    """The same name, or the only one that differs in nothing but case, as SQLite and MySQL look them up."""
    if name in known:
        return name
    close = [own for own in known if own.lower() == name.lower()]
    return close[0] if len(close) == 1 else None


def _spelt(names: Sequence[str], relation: Relation) -> tuple[str, ...]:
    known = list(relation.columns)
    return tuple(_match(name, known) or name for name in names)
