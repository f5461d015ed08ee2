"""A database's schema, from Spider's `tables.json`. `reflection.py` makes the same from a live database.

In: a row of `tables.json`. Out: `Schema`, the only description of a database the rest of the package sees; and back.
Every table carries its own `*` as its first column, so that choosing a column always chooses a table.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from dtfixup.errors import SchemaError
from dtfixup.files import read_json, write_json


class ColumnType(StrEnum):
    """What a column holds; the names are Spider's, and `STAR` is a table's `*`."""

    STAR = "star"
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or the `*` of a table. `table` is an index into `Schema.tables`."""

    table: int
    name: str
    natural: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view; `namespace` is set where the name alone does not find it."""

    name: str
    natural: str
    is_view: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that point at other columns, pair by pair; one pair unless the key is composite."""

    columns: tuple[int, ...]
    referred: tuple[int, ...]


@dataclass(frozen=True)
class Schema:
    """Tables, columns and keys; column indices run over every table's `*` and columns, table by table."""

    database: str
    tables: tuple[Table, ...]
    columns: tuple[Column, ...]
    primary_keys: tuple[tuple[int, ...], ...]
    """Per table, the columns of its key; empty where it has none."""
    foreign_keys: tuple[ForeignKey, ...]

    @cached_property
    def columns_of(self) -> tuple[tuple[int, ...], ...]:
        """Per table, its column indices, `*` first."""
        columns: list[list[int]] = [[] for _ in self.tables]
        for index, column in enumerate(self.columns):
            columns[column.table].append(index)
        return tuple(map(tuple, columns))

    @cached_property
    def stars(self) -> tuple[int, ...]:
        """Per table, the index of its `*`."""
        return tuple(columns[0] for columns in self.columns_of)

    @cached_property
    def table_index(self) -> dict[str, int]:
        """Table index by lower-case name, without names that differ only in case: `find_table` finds those.

        PostgreSQL can hold both `users` and `"Users"`, SQLite both `é` and `É`.
        """
        return _by_unique_key([table.name.lower() for table in self.tables])

    @cached_property
    def column_index(self) -> dict[tuple[int, str], int]:
        """Column index by table index and lower-case name, as in `table_index`."""
        return _by_unique_key([(column.table, column.name.lower()) for column in self.columns])

    @cached_property
    def foreign_pairs(self) -> tuple[tuple[int, int], ...]:
        """Every (column, referred column) pair of every foreign key, once each, in order."""
        pairs = (pair for key in self.foreign_keys for pair in zip(key.columns, key.referred, strict=True))
        return tuple(dict.fromkeys(pairs))

    def find_table(self, name: str) -> int | None:
        """The table of that name: as spelt, else in any case where one table alone fits, else None."""
        only = self.table_index.get(name.lower())
        if only is not None:
            return only
        return _find(name, [(index, table.name) for index, table in enumerate(self.tables)], "table")

    def find_column(self, table: int, name: str) -> int | None:
        """The column of that name in a table, `*` included; found as in `find_table`."""
        only = self.column_index.get((table, name.lower()))
        if only is not None:
            return only
        own = [(index, self.columns[index].name) for index in self.columns_of[table]]
        return _find(name, own, f"column of {self.tables[table].name}")

    def is_star(self, column: int) -> bool:
        return self.columns[column].type is ColumnType.STAR

    def qualified(self, column: int) -> str:
        """`table.column`, for messages."""
        return f"{self.tables[self.columns[column].table].name}.{self.columns[column].name}"


_Key = TypeVar("_Key", bound=Hashable)


def _by_unique_key(keys: Sequence[_Key]) -> dict[_Key, int]:
    counts = Counter(keys)
    return {key: index for index, key in enumerate(keys) if counts[key] == 1}


def _find(name: str, candidates: Sequence[tuple[int, str]], what: str) -> int | None:
    exact = [index for index, own in candidates if own == name]
    if exact:
        return exact[0]
    close = [(index, own) for index, own in candidates if own.lower() == name.lower()]
    if len(close) > 1:
        spellings = " and ".join(repr(own) for _, own in close)
        raise SchemaError(f"{what} {name!r} could be {spellings}; write it exactly as one of them")
    return close[0][0] if close else None


def quoted(name: str) -> str:
    """A name as SQL writes any name at all.

    >>> print(quoted('say "hi"'))
    "say ""hi""\"
    """
    return '"' + name.replace('"', '""') + '"'


def assemble(
    database: str,
    tables: Sequence[Table],
    columns: Sequence[Sequence[tuple[str, str, ColumnType]]],
    primary_keys: Sequence[Sequence[str]],
    foreign_keys: Sequence[tuple[tuple[int, Sequence[str]], tuple[int, Sequence[str]]]],
) -> Schema:
    """Build a `Schema` from names: per table its (name, natural name, type) columns and its key's column names.

    A foreign key is (table index, column names) and the (table index, column names) it points at.
    """
    flat: list[Column] = []
    for table, own in enumerate(columns):
        if any(name == "*" for name, _, _ in own):
            raise SchemaError(f"table {tables[table].name!r} has a column named '*', which is no name a query can use")
        flat.append(Column(table, "*", "*", ColumnType.STAR))
        flat += [Column(table, name, natural, kind) for name, natural, kind in own]
    index = {(column.table, column.name): position for position, column in enumerate(flat)}
    keys = tuple(tuple(index[table, name] for name in key) for table, key in enumerate(primary_keys))
    foreign = tuple(
        ForeignKey(tuple(index[source, name] for name in names), tuple(index[target, name] for name in referred))
        for (source, names), (target, referred) in foreign_keys
    )
    return Schema(database, tuple(tables), tuple(flat), keys, foreign)


def read_tables_json(path: str | Path) -> dict[str, Schema]:
    """Read schemas by database name from a file in the form of Spider's `tables.json`."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise SchemaError(f"{path}: expected a list of schemas, got {type(rows).__name__}")
    schemas: dict[str, Schema] = {}
    for index, row in enumerate(rows):
        name = f" ({row['db_id']})" if isinstance(row, Mapping) and "db_id" in row else ""
        try:
            schema = _schema_of(row)
        except SchemaError as error:
            raise SchemaError(f"{path}: schema {index}{name}: {error}") from None
        if schema.database in schemas:
            raise SchemaError(f"{path}: schema {index}: key 'db_id': {schema.database!r} occurs twice")
        schemas[schema.database] = schema
    return schemas


def write_tables_json(schemas: Iterable[Schema], path: str | Path) -> Path:
    """Write schemas in the form of Spider's `tables.json`; `read_tables_json` gives the same ones back."""
    return write_json(path, [tables_row(schema) for schema in schemas])


def tables_row(schema: Schema) -> dict[str, Any]:
    """One entry of `tables.json`.

    Spider's form has no composite keys, views or namespaces. A composite primary key is a list of columns, a composite
    foreign key a pair of such lists; the keys `views` and `namespaces` are there only where the schema has some.
    """
    stored = [index for index in range(len(schema.columns)) if not schema.is_star(index)]
    position = {index: place for place, index in enumerate(stored, 1)}  # in the file, where one `*` stands for all
    columns = [schema.columns[index] for index in stored]
    keys = [[position[column] for column in key] for key in schema.primary_keys if key]
    foreign = [
        [[position[column] for column in side] for side in (key.columns, key.referred)] for key in schema.foreign_keys
    ]
    row: dict[str, Any] = {
        "db_id": schema.database,
        "table_names": [table.natural for table in schema.tables],
        "table_names_original": [table.name for table in schema.tables],
        "column_names": [[-1, "*"], *([column.table, column.natural] for column in columns)],
        "column_names_original": [[-1, "*"], *([column.table, column.name] for column in columns)],
        "column_types": ["text", *(str(column.type) for column in columns)],
        "primary_keys": [key if len(key) > 1 else key[0] for key in keys],
        "foreign_keys": [pair if len(pair[0]) > 1 else [pair[0][0], pair[1][0]] for pair in foreign],
    }
    if any(table.is_view for table in schema.tables):
        row["views"] = [index for index, table in enumerate(schema.tables) if table.is_view]
    if any(table.namespace is not None for table in schema.tables):
        row["namespaces"] = [table.namespace for table in schema.tables]
    return row


_LISTS = (
    *("table_names", "table_names_original", "column_names", "column_names_original", "column_types"),
    *("primary_keys", "foreign_keys"),
)
_ColumnNames = tuple[int, tuple[str, ...]]
"""A table's index and the names of some of its columns."""


def _schema_of(row: Any) -> Schema:
    if not isinstance(row, Mapping):
        raise SchemaError(f"expected an object, got {type(row).__name__}")
    for key in ("db_id", *_LISTS):
        if key not in row:
            raise SchemaError(f"key {key!r} is missing; tables.json of the Spider download has it")
    _check_natural(row["db_id"], "key 'db_id'")
    for key in (*_LISTS, *(key for key in ("views", "namespaces") if key in row)):
        if not isinstance(row[key], list):
            raise SchemaError(f"key {key!r}: expected a list, got {type(row[key]).__name__}")
    tables = _tables_of(row)
    columns, owners = _columns_of(row, tables)
    primary = _primary_keys(row["primary_keys"], owners, len(tables))
    return assemble(row["db_id"], tables, columns, primary, _foreign_keys(row["foreign_keys"], owners))


def _tables_of(row: Mapping[str, Any]) -> list[Table]:
    names, naturals = row["table_names_original"], row["table_names"]
    if len(names) != len(naturals):
        raise SchemaError("table_names and table_names_original differ in length")
    if not names:
        raise SchemaError("key 'table_names_original': there are no tables")
    for index, (name, natural) in enumerate(zip(names, naturals, strict=True)):
        if not isinstance(name, str):
            raise SchemaError(f"key 'table_names_original' {index}: expected a name, got {name!r}")
        _check_natural(natural, f"key 'table_names' {index}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise SchemaError(f"key 'table_names_original': {repeated[0]!r} occurs twice")
    views = row.get("views", [])
    for entry in views:
        if not _is_index(entry, len(names)):
            raise SchemaError(f"key 'views': table {entry!r} does not exist")
    namespaces = row.get("namespaces", [None] * len(names))
    if len(namespaces) != len(names):
        raise SchemaError("namespaces and table_names_original differ in length")
    for index, namespace in enumerate(namespaces):
        if namespace is not None and not isinstance(namespace, str):
            raise SchemaError(f"key 'namespaces' {index}: expected a name or null, got {namespace!r}")
    return [Table(names[index], naturals[index], index in views, namespaces[index]) for index in range(len(names))]


def _columns_of(
    row: Mapping[str, Any], tables: Sequence[Table]
) -> tuple[list[list[tuple[str, str, ColumnType]]], dict[int, tuple[int, str]]]:
    """Per table its columns as `assemble` takes them; and per index in the file, the table and the column's name."""
    originals, naturals, types = row["column_names_original"], row["column_names"], row["column_types"]
    if not len(originals) == len(naturals) == len(types):
        raise SchemaError("column_names, column_names_original and column_types differ in length")
    columns: list[list[tuple[str, str, ColumnType]]] = [[] for _ in tables]
    owners: dict[int, tuple[int, str]] = {}
    for index, (original, natural, kind) in enumerate(zip(originals, naturals, types, strict=True)):
        place = f"key 'column_names_original' {index}"
        table, name = _pair_of(original, place)
        natural_table, natural_name = _pair_of(natural, f"key 'column_names' {index}")
        _check_natural(natural_name, f"key 'column_names' {index}")
        if table != natural_table:
            raise SchemaError(f"{place}: table {table}, but column_names says {natural_table}")
        if table == -1 and name == "*":
            continue
        if name == "*":
            raise SchemaError(f"{place}: only the entry [-1, '*'] may be named '*'")
        if not _is_index(table, len(tables)):
            raise SchemaError(f"{place}: table {table} does not exist")
        if any(name == own for own, _, _ in columns[table]):
            raise SchemaError(f"{place}: column {name!r} occurs twice in table {tables[table].name!r}")
        owners[index] = table, name
        columns[table].append((name, natural_name, _type_of(kind, f"key 'column_types' {index}")))
    for table, own in enumerate(columns):
        if not own:
            raise SchemaError(f"key 'column_names_original': table {tables[table].name!r} has no columns")
    return columns, owners


def _primary_keys(entries: Sequence[Any], owners: Mapping[int, tuple[int, str]], tables: int) -> list[list[str]]:
    """Spider has numbers, one for each column of a composite key; its successors also have lists."""
    keys: list[list[str]] = [[] for _ in range(tables)]
    for index, entry in enumerate(entries):
        place = f"key 'primary_keys' {index}"
        table, names = _key_columns(entry, owners, place)
        for name in names:
            if name in keys[table]:
                raise SchemaError(f"{place}: column {name!r} occurs twice")
            keys[table].append(name)
    return keys


def _foreign_keys(
    entries: Sequence[Any], owners: Mapping[int, tuple[int, str]]
) -> list[tuple[_ColumnNames, _ColumnNames]]:
    """Spider repeats some keys; each is kept once."""
    keys: dict[tuple[_ColumnNames, _ColumnNames], None] = {}
    for index, entry in enumerate(entries):
        place = f"key 'foreign_keys' {index}"
        if not isinstance(entry, list) or len(entry) != 2:
            raise SchemaError(f"{place}: expected a pair [column, referred column], got {entry!r}")
        source, referred = (_key_columns(side, owners, place) for side in entry)
        if len(source[1]) != len(referred[1]):
            raise SchemaError(f"{place}: {len(source[1])} columns point at {len(referred[1])}")
        keys[source, referred] = None
    return list(keys)


def _key_columns(entry: Any, owners: Mapping[int, tuple[int, str]], place: str) -> _ColumnNames:
    """One column or a list of columns of one table."""
    indices = entry if isinstance(entry, list) else [entry]
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, int) or index not in owners:
            raise SchemaError(f"{place}: column {index!r} does not exist")
    if len({owners[index][0] for index in indices}) != 1:
        raise SchemaError(f"{place}: expected one or more columns of one table, got {entry!r}")
    return owners[indices[0]][0], tuple(owners[index][1] for index in indices)


def _pair_of(entry: Any, where: str) -> tuple[int, str]:
    match entry:
        case [int(table), str(name)] if not isinstance(table, bool):
            return table, name
    raise SchemaError(f"{where}: expected a pair [table index, name], got {entry!r}")


def _check_natural(name: Any, where: str) -> None:
    """Identifiers may be anything a database takes, even blank; a name to be read must have something in it."""
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(f"{where}: expected a name, got {name!r}")


def _is_index(entry: Any, length: int) -> bool:
    return isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < length


def _type_of(text: Any, where: str) -> ColumnType:
    try:
        kind = ColumnType(text)
    except ValueError:
        kind = ColumnType.STAR
    if kind is ColumnType.STAR:
        known = ", ".join(kind for kind in ColumnType if kind is not ColumnType.STAR)
        raise SchemaError(f"{where}: unknown type {text!r}; known are {known}")
    return kind
