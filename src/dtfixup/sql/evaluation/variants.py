"""Random variants of a SQLite database's content: same schema, other rows.

In: a database file, its `Schema`, and a `Witness` of the rows a query looks for. Out: small database files. Their rows
are stored rows with some cells exchanged and some changed a little; keys stay unique and foreign keys consistent. Some
rows satisfy the witness, also at the edges of its conditions. A table without rows is filled by column types. The
seed determines everything.
"""

import random
import re
import sqlite3
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from dtfixup.errors import DataError
from dtfixup.sql.database.schema import ColumnType, ForeignKey, Schema, quoted
from dtfixup.sql.evaluation.planting import Planter, nearby_value
from dtfixup.sql.evaluation.witnesses import LiteralValue, Witness

_READ_ROWS: Final = 2000
"""The most rows of a table that are read as a source of values."""
_FEWEST_ROWS: Final = 8
_MOST_ROWS: Final = 60
_WITNESSES: Final = 6
"""Times that the rows of the witness are planted in one variant."""
_EXCHANGED: Final = 0.3
_MOVED: Final = 0.1
"""The shares of cells that get another value of their column, and a value near their own."""
_CLOSED_SET: Final = 4
"""A column with no more values than this, such as yes and no, gets no new ones."""

_OBJECTS: Final = """
    SELECT type, name, sql FROM sqlite_master
    WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_' AND type <> 'trigger'
    ORDER BY type = 'table' DESC, rowid
"""
_REAL = re.compile("REAL|FLOA|DOUB|NUMERIC|DECIMAL")


@dataclass(frozen=True)
class VariantSource:
    """What variants need of a database. Values are indexed by column of the schema, then by row."""

    schema: Schema
    statements: tuple[str, ...]
    """Statements that make the tables, indices and views."""
    stored: frozenset[int]
    """Tables that are no views, which have no rows of their own."""
    values: tuple[tuple[Any, ...], ...]
    declared: tuple[str, ...]
    """The declared type of every column."""
    computed: frozenset[int]
    """Columns that the database fills itself."""
    indices: tuple[tuple[int, ...], ...]
    """Columns of every unique index."""

    @cached_property
    def keys(self) -> frozenset[int]:
        """Columns that identify a row or that foreign keys refer to. A declared key that repeats is left out."""
        referred = {column for _, column in self.schema.foreign_pairs}
        single = {key[0] for key in self.schema.primary_keys if len(key) == 1 and self._is_distinct(key)}
        return frozenset(referred | single | {index[0] for index in self.indices if len(index) == 1})

    @cached_property
    def distinct(self) -> frozenset[int]:
        """Columns that hold no value twice, as far as the rows show it."""
        enough = (column for column, values in enumerate(self.values) if len(values) >= _FEWEST_ROWS)
        return self.keys | {column for column in enough if self._is_distinct((column,))}

    @cached_property
    def identifying(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The unique keys of each table: its primary key, unless rows repeat it, and its unique indices."""
        keys_of_table = [{key} if key and self._is_distinct(key) else set() for key in self.schema.primary_keys]
        for index in self.indices:
            keys_of_table[self.schema.columns[index[0]].table].add(index)
        return tuple(tuple(sorted(keys)) for keys in keys_of_table)

    @cached_property
    def inserted(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each table that an INSERT fills."""
        return tuple(
            tuple(column for column in columns[1:] if column not in self.computed) for columns in self.schema.columns_of
        )

    def _is_distinct(self, columns: tuple[int, ...]) -> bool:
        rows = list(zip(*(self.values[column] for column in columns), strict=True))
        return len(set(rows)) == len(rows)


def read_source(database: str | Path, schema: Schema) -> VariantSource:
    """Read what variants of a database are made from."""
    path = Path(database)
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    declared = [""] * len(schema.columns)
    values: list[tuple[Any, ...]] = [()] * len(schema.columns)
    stored, computed = set(), set()
    indices: list[tuple[int, ...]] = []
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            objects = connection.execute(_OBJECTS).fetchall()
            tables = {name.lower() for kind, name, _ in objects if kind == "table"}
            for table, own in enumerate(schema.columns_of):
                name = schema.tables[table].name
                if name.lower() not in tables:
                    continue
                stored.add(table)
                for _, column_name, kind, *_, hidden in connection.execute(f"PRAGMA table_xinfo({quoted(name)})"):
                    position = schema.column_index.get((table, column_name.lower()))
                    if position is not None:
                        declared[position] = kind.upper()
                        computed |= {position} if hidden else set()
                indices += _unique_indices(connection, schema, table)
                listed = ", ".join(quoted(schema.columns[column].name) for column in own[1:])
                rows = connection.execute(f"SELECT {listed} FROM {quoted(name)} LIMIT {_READ_ROWS}").fetchall()
                for column, column_values in zip(own[1:], zip(*rows, strict=True), strict=False):
                    values[column] = column_values
        except sqlite3.Error as error:
            raise DataError(f"{path} cannot be read for variants: {error}") from None
    statements = tuple(sql for _, _, sql in objects)
    return VariantSource(
        schema, statements, frozenset(stored), tuple(values), tuple(declared), frozenset(computed), tuple(indices)
    )


def _unique_indices(connection: sqlite3.Connection, schema: Schema, table: int) -> Iterator[tuple[int, ...]]:
    listed = connection.execute(f"PRAGMA index_list({quoted(schema.tables[table].name)})").fetchall()
    for _, index, is_unique, _, is_partial in listed:
        names = [row[2] for row in connection.execute(f"PRAGMA index_info({quoted(index)})")]
        columns = [schema.column_index.get((table, (name or "").lower())) for name in names]
        known = tuple(column for column in columns if column is not None)
        if is_unique and not is_partial and len(known) == len(names):
            yield known


def write_variants(
    source: VariantSource, witness: Witness, folder: str | Path, number: int, *, seed: int | str
) -> list[Path]:
    """Write `number` variants into a folder."""
    paths = []
    for position in range(number):
        path = Path(folder) / f"variant_{position}.sqlite"
        path.unlink(missing_ok=True)
        rows = _Builder(source, witness, random.Random(f"{seed} {position}")).build()
        try:
            _write(source, rows, path)
        except sqlite3.Error as error:
            raise DataError(f"a variant of {source.schema.database} cannot be written: {error}") from None
        paths.append(path)
    return paths


def _write(source: VariantSource, tables: dict[int, list[tuple[Any, ...]]], path: Path) -> None:
    schema = source.schema
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        # Invented values rarely satisfy one, and an empty table would hide more than an odd value.
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("BEGIN")
        for statement in source.statements:
            connection.execute(statement)
        for table, rows in tables.items():
            columns = source.inserted[table]
            names = ", ".join(quoted(schema.columns[column].name) for column in columns)
            marks = ", ".join("?" * len(columns))
            insert = f"INSERT INTO {quoted(schema.tables[table].name)} ({names}) VALUES ({marks})"
            for row in rows:
                # Rows that break a constraint unknown to the schema, or that do not fit, are left out.
                with suppress(sqlite3.IntegrityError, OverflowError):
                    connection.execute(insert, row)
        connection.execute("COMMIT")


class _Builder:
    """Makes the rows of one variant, column by column: `self._cells[column][row]`."""

    def __init__(self, source: VariantSource, witness: Witness, rng: random.Random) -> None:
        self._source = source
        self._schema = source.schema
        self._witness = witness
        self._rng = rng
        self._cells: dict[int, list[Any]] = {}
        self._filling: set[int] = set()
        self._keys = {key.columns[0]: key for key in reversed(self._schema.foreign_keys) if self._is_stored(key)}
        self._literals = self._literals_by_column()
        self._sizes: dict[int, int] = {}
        self._start_rows: dict[int, list[int]] = {}
        """Per table, the stored rows that its rows begin as."""

    def build(self) -> dict[int, list[tuple[Any, ...]]]:
        for table in sorted(self._source.stored):
            self._start(table)
        for table in self._sizes:
            for column in self._schema.columns_of[table][1:]:
                self._fill(column)
        composite = {column for key in self._schema.foreign_keys if len(key.columns) > 1 for column in key.columns}
        planter = Planter(self._schema, self._witness, self._cells, self._source.keys | composite, self._rng)
        planted = {row for _ in range(_WITNESSES) for row in planter.plant()}
        return {
            table: [
                tuple(self._cells[column][row] for column in self._source.inserted[table])
                for row in self._kept_rows(table, planted)
            ]
            for table in self._sizes
        }

    def _is_stored(self, key: ForeignKey) -> bool:
        return all(self._table(column) in self._source.stored for column in (*key.columns, *key.referred))

    def _table(self, column: int) -> int:
        return self._schema.columns[column].table

    def _literals_by_column(self) -> dict[int, list[LiteralValue]]:
        """The witness's literals by column, also for the columns that foreign keys refer to."""
        literals: dict[int, list[LiteralValue]] = {}
        parents = dict(self._schema.foreign_pairs)
        for condition in self._witness.conditions:
            column = condition.cell.column
            seen: set[int] = set()
            while column not in seen:
                seen.add(column)
                literals.setdefault(column, []).extend(condition.literals)
                column = parents.get(column, column)
        return literals

    def _start(self, table: int) -> None:
        """Choose the number of rows of a table, and the stored rows to start from."""
        stored = max((len(self._source.values[column]) for column in self._schema.columns_of[table]), default=0)
        size = round(stored * self._rng.uniform(0.6, 1.4)) if stored else self._rng.randint(15, 40)
        groups = [group.size for group in self._witness.groups if self._table(group.cell.column) == table]
        self._sizes[table] = min(max(size, _FEWEST_ROWS, *groups), _MOST_ROWS)
        self._start_rows[table] = self._rng.choices(range(stored), k=self._sizes[table]) if stored else []

    def _fill(self, column: int) -> None:
        if column in self._cells or column in self._filling:
            return
        self._filling.add(column)
        key = self._keys.get(column)
        if key is not None and not any(referred in self._filling for referred in key.referred):
            parent = self._table(key.referred[0])
            for needed in (*key.referred, *chain(*self._source.identifying[parent])):
                self._fill(needed)
            self._fill_foreign(key)
        elif column in self._source.distinct:
            self._cells[column] = self._distinct_values(column)
        else:
            self._cells[column] = self._mixed_values(column)
        self._filling.discard(column)

    def _fill_foreign(self, key: ForeignKey) -> None:
        """Fill a foreign key. Parents are drawn unevenly: some get many children and some none."""
        size = self._sizes[self._table(key.columns[0])]
        parents = self._kept_rows(self._table(key.referred[0]), frozenset())
        self._rng.shuffle(parents)
        if key.columns[0] in self._source.distinct:
            chosen = [parents[row % len(parents)] for row in range(size)]
        else:
            chosen = self._rng.choices(parents, [1 / (rank + 1) for rank in range(len(parents))], k=size)
        stored = self._source.values[key.columns[0]]
        missing = stored.count(None) / len(stored) if stored else 0
        absent = [self._rng.random() < missing for _ in range(size)]
        for column, referred in zip(key.columns, key.referred, strict=True):
            values = self._cells[referred]
            self._cells[column] = [
                None if gone else values[parent] for gone, parent in zip(absent, chosen, strict=True)
            ]

    def _distinct_values(self, column: int) -> list[Any]:
        """Distinct values: literals of the query first, then stored values, then new ones near them."""
        size = self._sizes[self._table(column)]
        stored = list(dict.fromkeys(value for value in self._source.values[column] if value is not None))
        self._rng.shuffle(stored)
        stored = [nearby_value(value, self._rng) if self._rng.random() < _MOVED else value for value in stored]
        values = dict.fromkeys([*self._literals.get(column, []), *stored])
        is_text = any(isinstance(value, str) for value in stored) or isinstance(self._invent(column), str)
        for serial in count(1):
            if len(values) >= size:
                break
            fresh = nearby_value(self._rng.choice(list(values)), self._rng) if values else self._invent(column)
            if fresh in values:
                fresh = f"{self._schema.columns[column].natural} {serial}" if is_text else serial
            values.setdefault(fresh)
        chosen = list(values)[:size]
        self._rng.shuffle(chosen)
        return chosen

    def _mixed_values(self, column: int) -> list[Any]:
        """Stored values, some exchanged for others or for literals of the query, some moved."""
        table = self._table(column)
        stored = self._source.values[column]
        literals = self._literals.get(column, [])
        if stored:
            values = [stored[row] for row in self._start_rows[table]]
        else:
            pool = [self._invent(column) for _ in range(self._sizes[table] // 3 + 1)]
            values = self._rng.choices(pool, k=self._sizes[table])
        is_open = len(set(stored or values)) > _CLOSED_SET
        for row, value in enumerate(values):
            if self._rng.random() < _EXCHANGED:
                values[row] = self._rng.choice(literals if literals and self._rng.random() < 0.5 else stored or values)
            elif value is not None and is_open and self._rng.random() < _MOVED:
                values[row] = nearby_value(value, self._rng)
        return values

    def _invent(self, column: int) -> Any:
        """A value made from the column's name and type alone."""
        described = self._schema.columns[column]
        number = self._rng.randint(1, 60)
        if described.type is ColumnType.BOOLEAN:
            return self._rng.randint(0, 1)
        if "year" in described.natural.lower():
            return 1960 + number
        if described.type is ColumnType.TIME or "DATE" in self._source.declared[column]:
            return f"{1960 + number}-{self._rng.randint(1, 12):02}-{self._rng.randint(1, 28):02}"
        if described.type is ColumnType.NUMBER or "INT" in self._source.declared[column]:
            return number + self._rng.random() if _REAL.search(self._source.declared[column]) else number
        return f"{described.natural} {number}"

    def _kept_rows(self, table: int, planted: AbstractSet[tuple[int, int]]) -> list[int]:
        """The rows of a table that repeat no key, planted ones first."""
        keys = [key for key in self._source.identifying[table] if all(column in self._cells for column in key)]
        seen: set[tuple[Any, ...]] = set()
        kept = []
        for row in sorted(range(self._sizes[table]), key=lambda row: (table, row) not in planted):
            marks = {(key, *(self._cells[column][row] for column in key)) for key in keys}
            if seen.isdisjoint(marks):
                kept.append(row)
                seen |= {mark for mark in marks if None not in mark}
        return kept
