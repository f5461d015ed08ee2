"""A database's schema, from Spider's `tables.json`. `reflection.py` makes the same from a live database.

In: a row of `tables.json`. Out: `Schema`, the only description of a database the rest of the package sees.
Every table carries its own `*` as its first column, so that choosing a column always chooses a table (SPEC §3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from dtfixup.errors import SchemaError
from dtfixup.files import read_json


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
        """Table index by lower-case name."""
        return {table.name.lower(): index for index, table in enumerate(self.tables)}

    @cached_property
    def column_index(self) -> dict[tuple[int, str], int]:
        """Column index by table index and lower-case name."""
        return {(column.table, column.name.lower()): index for index, column in enumerate(self.columns)}

    @cached_property
    def foreign_pairs(self) -> tuple[tuple[int, int], ...]:
        """Every (column, referred column) pair of every foreign key, once each, in order."""
        pairs = (pair for key in self.foreign_keys for pair in zip(key.columns, key.referred, strict=True))
        return tuple(dict.fromkeys(pairs))

    def is_star(self, column: int) -> bool:
        return self.columns[column].type is ColumnType.STAR

    def qualified(self, column: int) -> str:
        """`table.column`, for messages."""
        return f"{self.tables[self.columns[column].table].name}.{self.columns[column].name}"


def assemble(
    database: str,
    tables: Sequence[Table],
    columns: Sequence[Sequence[tuple[str, str, ColumnType]]],
    primary_keys: Sequence[Sequence[str]],
    foreign_keys: Sequence[tuple[tuple[int, Sequence[str]], tuple[int, Sequence[str]]]],
) -> Schema:
    """Build a `Schema` from names: per table its (name, natural name, type) columns and its key's column names."""
    flat: list[Column] = []
    for table, own in enumerate(columns):
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
    """Schemas by database name from a file in the form of Spider's `tables.json`."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise SchemaError(f"{path}: expected a list of schemas, got {type(rows).__name__}")
    schemas: dict[str, Schema] = {}
    for index, row in enumerate(rows):
        schema = _schema_of(row, f"{path}: schema {index}")
        if schema.database in schemas:
            raise SchemaError(f"{path}: schema {index}: db_id {schema.database!r} occurs twice")
        schemas[schema.database] = schema
    return schemas


def _schema_of(row: Any, where: str) -> Schema:
    if not isinstance(row, Mapping):
        raise SchemaError(f"{where}: expected an object, got {type(row).__name__}")
    for key, kind in _KEYS.items():
        if key not in row:
            raise SchemaError(f"{where}: key {key!r} is missing; tables.json of the Spider download has it")
        if not isinstance(row[key], kind):
            raise SchemaError(f"{where}: key {key!r}: expected {kind.__name__}, got {type(row[key]).__name__}")
    where = f"{where} ({row['db_id']})"
    originals, naturals = row["column_names_original"], row["column_names"]
    if len(originals) != len(naturals) or len(originals) != len(row["column_types"]):
        raise SchemaError(f"{where}: column_names, column_names_original and column_types differ in length")
    if len(row["table_names"]) != len(row["table_names_original"]):
        raise SchemaError(f"{where}: table_names and table_names_original differ in length")
    tables = [
        Table(name, natural) for name, natural in zip(row["table_names_original"], row["table_names"], strict=True)
    ]

    by_table: list[list[tuple[int, Column]]] = [[] for _ in tables]
    for index, ((table, name), (_, natural), kind) in enumerate(
        zip(originals, naturals, row["column_types"], strict=True)
    ):
        if table == -1:
            continue
        if not 0 <= table < len(tables):
            raise SchemaError(f"{where}: column_names_original {index}: table {table} does not exist")
        by_table[table].append((index, Column(table, name, natural, _type_of(kind, f"{where}: column_types {index}"))))
    flat: list[Column] = []
    position: dict[int, int] = {}  # index in the file -> index in Schema.columns
    for table, own in enumerate(by_table):
        flat.append(Column(table, "*", "*", ColumnType.STAR))
        for index, column in own:
            position[index] = len(flat)
            flat.append(column)

    def column_at(index: Any, key: str) -> int:
        if index not in position:
            raise SchemaError(f"{where}: {key}: column {index!r} does not exist")
        return position[index]

    keys: list[list[int]] = [[] for _ in tables]
    for entry in row["primary_keys"]:  # Spider has numbers, its successors also lists for composite keys
        for index in entry if isinstance(entry, list) else [entry]:
            column = column_at(index, "primary_keys")
            keys[flat[column].table].append(column)
    foreign = [
        ForeignKey((column_at(source, "foreign_keys"),), (column_at(target, "foreign_keys"),))
        for source, target in dict.fromkeys(map(tuple, row["foreign_keys"]))
    ]
    return Schema(row["db_id"], tuple(tables), tuple(flat), tuple(map(tuple, keys)), tuple(foreign))


_KEYS: dict[str, type] = {
    "db_id": str,
    "table_names": list,
    "table_names_original": list,
    "column_names": list,
    "column_names_original": list,
    "column_types": list,
    "primary_keys": list,
    "foreign_keys": list,
}


def _type_of(text: Any, where: str) -> ColumnType:
    try:
        kind = ColumnType(text)
    except ValueError:
        kind = ColumnType.STAR
    if kind is ColumnType.STAR:
        known = ", ".join(kind for kind in ColumnType if kind is not ColumnType.STAR)
        raise SchemaError(f"{where}: unknown type {text!r}; known are {known}")
    return kind
