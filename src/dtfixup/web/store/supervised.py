"""A visitor's SQLite file, read in a process of its own.

In: a file that nobody vouches for. Out: an `OpenedDatabase` like any other. A view can make SQLite count for ever
within one step, so the file is read by a process that is ended at a deadline; and what it holds is kept in memory
alone, not in the cache folder, since it goes when its visitor goes.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup.errors import SchemaError, UploadError, WorkerStartError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.ask.opened import MOST_COLUMNS, OpenedDatabase, Reading
from dtfixup.sql.database.content import ContentIndex, open_content
from dtfixup.sql.database.reflection import inspect_database
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.guarded import Limits, open_guarded
from dtfixup.sql.linking.inputs import describe_database

READ_SECONDS = 20.0


@dataclass(frozen=True)
class Found:
    """What a file holds."""

    schema: Schema
    left_out: tuple[str, ...]
    content: ContentIndex


class UploadedDatabase(OpenedDatabase):
    """A file of a visitor; `seconds` is how long it may take to read."""

    def __init__(self, path: Path, seconds: float = READ_SECONDS) -> None:
        super().__init__(path)
        self._seconds = seconds

    def _read(self, stamp: tuple[Any, ...]) -> Reading:
        assert self.location.path is not None
        found = read_supervised(self.location.path, self._seconds)
        translator = Translator(found.schema, self.dialect, content=found.content, declared={})
        return Reading(describe_database(found.schema, found.content), translator, found.left_out, stamp)


def read_supervised(path: Path, seconds: float = READ_SECONDS) -> Found:
    """Schema and content of a SQLite file, or an error that says why it cannot be used."""
    try:
        [(_, outcome)] = run_supervised(_read_file, [path.absolute()], workers=1, deadline=seconds)
    except WorkerStartError as error:
        raise UploadError(f"the process that reads the file did not start: {error}") from None
    if isinstance(outcome, Lost):
        if outcome.is_late:
            raise UploadError(f"the file could not be read within {seconds:g} s: leave out views that compute much")
        raise UploadError(f"the file ended the process that read it ({outcome.reason}): it is damaged or made to harm")
    return outcome


def _read_file(path: Path) -> Found:
    with closing(sqlite3.connect(":memory:")) as connection:  # of the whole process
        connection.execute(f"PRAGMA hard_heap_limit={Limits.max_memory}")
    with open_guarded(path) as guarded:
        guarded.run("SELECT count(*) FROM sqlite_master")
    found = inspect_database(path)
    items = len(found.schema.columns) + len(found.schema.tables)
    if items > MOST_COLUMNS:
        raise SchemaError(f"the file has {items:,} columns and tables, and at most {MOST_COLUMNS:,} can be read")
    return Found(found.schema, found.left_out, open_content(found.schema, path, use_cache=False))
