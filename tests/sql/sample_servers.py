"""The same data in SQLite and on real servers.

The bundled databases: a SQLite file in, the same tables, keys and rows in another database out. And a small farm, whose
values tell the dialects apart.
"""

import datetime
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from typing import Any

import sqlglot
from sqlalchemy import create_engine

from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.guarded import GuardedConnection, Rows, open_guarded
from tests.sql.reflected import run_script
from tests.sql.servers import fresh_database

TYPES = {
    "postgresql": {
        "INTEGER": "INTEGER",
        "REAL": "DOUBLE PRECISION",
        "TEXT": "TEXT",
        "DATE": "DATE",
        "TIME": "TIME",
        "BOOLEAN": "BOOLEAN",
    },
    "mysql": {
        "INTEGER": "INTEGER",
        "REAL": "DOUBLE",
        "TEXT": "VARCHAR(200)",
        "DATE": "DATE",
        "TIME": "TIME",
        "BOOLEAN": "BOOLEAN",
    },
}
TRUTH = {"yes": True, "no": False, "T": True, "F": False, 1: True, 0: False, None: None}


def copy_to_server(file: Path, url: str) -> None:
    """Tables with their types, primary and foreign keys, and all rows."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    kind = engine.dialect.name
    quote = engine.dialect.identifier_preparer.quote_identifier
    with closing(sqlite3.connect(file)) as source, engine.connect() as target:
        tables = [
            name
            for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
            if not name.startswith("sqlite_")
        ]
        later = []
        for table in tables:
            columns = source.execute(f"SELECT name, type, pk FROM pragma_table_info('{table}') ORDER BY cid").fetchall()
            parts = [f"{quote(name)} {TYPES[kind][declared]}" for name, declared, _ in columns]
            if key := [quote(name) for name, _, place in sorted(columns, key=lambda row: row[2]) if place]:
                parts.append(f"PRIMARY KEY ({', '.join(key)})")
            alphabet = " CHARACTER SET utf8mb4" if kind == "mysql" else ""
            target.exec_driver_sql(f"CREATE TABLE {quote(table)} ({', '.join(parts)}){alphabet}")
            rows = source.execute(f'SELECT * FROM "{table}"').fetchall()
            places = ", ".join(["%s"] * len(columns))
            converted = [
                tuple(
                    TRUTH[value] if declared == "BOOLEAN" else value
                    for value, (_, declared, _) in zip(row, columns, strict=True)
                )
                for row in rows
            ]
            target.exec_driver_sql(f"INSERT INTO {quote(table)} VALUES ({places})", converted)
            keys = source.execute(f'SELECT "from", "table", "to" FROM pragma_foreign_key_list(\'{table}\')').fetchall()
            change = f"ALTER TABLE {quote(table)} ADD FOREIGN KEY"
            later += [f"{change} ({quote(own)}) REFERENCES {quote(other)} ({quote(to)})" for own, other, to in keys]
        for statement in later:
            target.exec_driver_sql(statement)
    engine.dispose()


def alike(value: Any) -> Any:
    """A value as one type writes it, so that rows of different drivers can be compared."""
    if isinstance(value, bool) or value in ("yes", "no"):
        return float(value in (True, "yes"))
    if isinstance(value, int | float | Decimal):
        return float(f"{float(value):.9g}")
    if isinstance(value, datetime.timedelta):
        return f"{value.seconds // 3600:02}:{value.seconds // 60 % 60:02}"
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M")
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    return value


def alike_rows(rows: Sequence[Sequence[Any]], *, is_ordered: bool) -> list[tuple[Any, ...]]:
    found = [tuple(alike(value) for value in row) for row in rows]
    return found if is_ordered else sorted(found, key=repr)


def sorted_places(sql: str) -> list[int]:
    """Places of the columns that a query of SQLite is sorted by, the leading ones that it shows."""
    tree = sqlglot.parse_one(sql, read="sqlite")
    if tree.args.get("order") is None:
        return []
    shown = [item.sql() for item in tree.expressions]
    keys = [key.this.sql() for key in tree.args["order"].expressions]
    return [shown.index(key) for key in takewhile(shown.__contains__, keys)]


def same_rows(sql: str, expected: Rows, found: Rows) -> bool:
    """Whether a server finds what SQLite finds by this query; where it is sorted, in the same order of the keys."""
    rows = [alike_rows(each.rows, is_ordered=True) for each in (expected, found)]
    keys = [[[row[place] for place in sorted_places(sql)] for row in each] for each in rows]
    return sorted(rows[0], key=repr) == sorted(rows[1], key=repr) and keys[0] == keys[1]


@contextmanager
def samples_on(admin: str, dataset: Dataset) -> Iterator[dict[str, OpenedDatabase]]:
    """The bundled databases on the server of the admin's URL."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(fresh_database(admin)) for name in sorted(dataset.schemas)}
        for name, url in urls.items():
            copy_to_server(dataset.database_file(name), url)
        yield {name: OpenedDatabase(url) for name, url in urls.items()}


FARM = (
    "CREATE TABLE pets (id INTEGER PRIMARY KEY, name VARCHAR(20), kind VARCHAR(20), age INTEGER, tame BOOLEAN, "
    "key_1 INTEGER, place VARCHAR(20), said VARCHAR(20))",
    """INSERT INTO pets VALUES (1, 'Rex', 'dog', 7, TRUE, 5, 'yard', '1e3'), (2, 'Tom', 'cat', 9, FALSE, 4, 'roof',
    '2.5e-1x'), (3, 'Ida', 'dog', 3, TRUE, 6, 'yard', ' +7.'), (4, 'Bob', 'cow', NULL, NULL, 1, NULL, '.5e'),
    (5, 'Kim', 'cow', -9, FALSE, 2, 'barn', '123e4567 and more')""",
    "CREATE TABLE keepers (id INTEGER PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO keepers VALUES (1, 'Ann'), (2, 'Ben'), (4, 'Cid')",
)


@dataclass(frozen=True)
class Both:
    """The same data on a server and in a SQLite file."""

    translator: Translator
    server: GuardedConnection
    file: GuardedConnection

    def compare(self, sql: str) -> tuple[Rows, Rows]:
        """What SQLite and the server find, which are the same rows."""
        expected, found = self.file.run(sql), self.server.run(self.translator.translate(sql))
        rows = [alike_rows(each.rows, is_ordered="ORDER BY" in sql) for each in (expected, found)]
        assert rows[0] == rows[1]
        return expected, found


@contextmanager
def farm_on(admin: str, folder: Path) -> Iterator[Both]:
    """The farm on the server of the admin's URL, and in a file of the folder."""
    file = folder / "farm.sqlite"
    run_script(f"sqlite:///{file}", FARM)
    with fresh_database(admin) as url:
        run_script(url, FARM)
        with open_guarded(url) as server, open_guarded(file) as own:
            yield Both(OpenedDatabase(url).read().translator, server, own)
