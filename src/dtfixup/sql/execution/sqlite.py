"""SQLite held to reading: a database file in, rows out, and nothing written anywhere.

The file is opened read-only, an authorizer allows only reading, limits bound what a statement can build, and a
handler that SQLite's machine calls every 100 steps stops a statement at the deadline.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dtfixup.errors import GuardError, RefusedError, TooMuchDataError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.schema import quoted
from dtfixup.sql.execution.guarded import Clock, GuardedConnection, Limits, Rows, Value, size_of
from dtfixup.sql.execution.text_filter import MAX_STATEMENT

# A step that copies the longest allowed value takes about a millisecond. Looking at the clock every 100 steps makes
# a scan about a tenth slower; every 10 steps would make it twice as slow.
_STEPS_PER_CHECK: Final = 100
_HEADER_BYTES: Final = 20
_MAGIC: Final = b"SQLite format 3\0"
_TRIM_CHARACTERS: Final = 100


class SqliteGuard(GuardedConnection):
    """A guarded connection to one SQLite file; other processes may go on writing to it."""

    dialect = Dialect.SQLITE

    def __init__(self, path: Path, limits: Limits, filter_text: bool) -> None:
        super().__init__(limits, filter_text)
        self._path = path.resolve()
        header = _header(self._path)
        if header and not header.startswith(_MAGIC):
            raise GuardError(f"{path} is not a SQLite database: its first bytes are {header[:16]!r}")
        self._snapshot = _stamp(self._path) if _is_quiet_wal(self._path, header) else None
        self._clock = Clock(limits.deadline)
        self._refusal = ""
        self._connection = self._connect()
        self._plain = sqlite3.connect(":memory:", check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        # Even to read a WAL database, SQLite makes a -wal and a -shm file beside it. While nobody has the database
        # open, neither is needed (immutable); otherwise both exist, and readonly_shm leaves them unchanged.
        options = "mode=ro&immutable=1" if self._snapshot else "mode=ro&readonly_shm=1"
        try:
            connection = sqlite3.connect(
                f"{self._path.as_uri()}?{options}",
                uri=True,
                timeout=self.limits.deadline,
                isolation_level=None,
                check_same_thread=False,  # `run` checks it; closing from elsewhere is allowed
            )
        except sqlite3.Error as error:
            raise GuardError(f"{self._path} cannot be opened: {error}") from None
        try:
            self._prepare(connection)
        except (sqlite3.Error, MemoryError) as error:
            connection.close()
            raise self._translate(error) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.set_progress_handler(lambda: time.monotonic() > self._clock.end, _STEPS_PER_CHECK)
        for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if self.limits.max_memory is not None:
            heap = connection.execute(f"PRAGMA hard_heap_limit={self.limits.max_memory}").fetchone()
            if heap is None or not 0 < heap[0] <= self.limits.max_memory:
                raise GuardError("this build of SQLite cannot bound its memory; pass max_memory=None to go without")
        for category, limit in _LIMITS.items():
            connection.setlimit(category, limit)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, self.limits.max_value)
        for name in ("trim", "ltrim", "rtrim"):
            connection.create_function(name, 2, self._bounded_trim(name), deterministic=True)
        _wake_virtual_tables(connection)
        connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in _READING and not (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None):
            return sqlite3.SQLITE_OK  # full-text search asks whether its index has changed
        name = _ACTIONS.get(action, f"action {action}")
        what = second if action == sqlite3.SQLITE_FUNCTION else first
        self._refusal = f"{name} {what or ''}".rstrip() + " is not reading"
        return sqlite3.SQLITE_DENY

    def _bounded_trim(self, name: str) -> Callable[[Any, Any], Any]:
        """SQLite's own `name`, for few characters: it takes the product of both lengths, all within one step."""

        def trim(text: Any, characters: Any) -> Any:
            if isinstance(characters, str | bytes) and len(characters) > _TRIM_CHARACTERS:
                self._refusal = f"{name} takes at most {_TRIM_CHARACTERS} characters to remove"
                raise ValueError
            return self._plain.execute(f"SELECT {name}(?, ?)", (text, characters)).fetchone()[0]

        return trim

    def _run(self, sql: str, parameters: tuple[Value, ...], clock: Clock) -> Rows:
        self._clock = clock
        self._refusal = ""
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql, parameters)
            if cursor.description is None:
                raise RefusedError("refused: the statement is not a query")
            columns = (column[0] for column in cursor.description)
            rows = self._collect(columns, ((row, size_of(row)) for row in cursor), clock)
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError) as error:
            raise self._translate(error) from None
        finally:
            cursor.close()
        if self._snapshot is not None and _stamp(self._path) != self._snapshot:
            raise GuardError(f"{self._path} was changed by another program while open; open it again")
        return rows

    def _translate(self, error: Exception) -> GuardError:
        code = getattr(error, "sqlite_errorname", "")
        if self._refusal:
            return RefusedError(f"refused: {self._refusal}")
        if code == "SQLITE_INTERRUPT":
            return self._clock.error()
        if code == "SQLITE_TOOBIG":
            return TooMuchDataError(f"stopped: a value is longer than {self.limits.max_value} bytes; raise max_value")
        if isinstance(error, MemoryError):
            most = self.limits.max_memory
            room = "there is" if most is None else f"the {most / 2**20:,.0f} MiB of max_memory"
            return TooMuchDataError(f"stopped: the statement needs more memory than {room}; sort or join fewer rows")
        if isinstance(error, sqlite3.Warning) or "one statement at a time" in str(error):
            return RefusedError("refused: expected one statement, got several")
        if code == "SQLITE_BUSY":
            return GuardError(f"{self._path} is locked by another program; try again")
        if code == "SQLITE_READONLY_ROLLBACK":
            return GuardError(
                f"{self._path} was left half changed by a program that stopped; open it once with a program that "
                "may write, such as sqlite3, to undo that"
            )
        if "user-defined function" in str(error):
            return GuardError(f"{self._path.name}: trim with two arguments cannot read text that is not UTF-8")
        if code in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            return GuardError(f"{self._path} is not a SQLite database, or is damaged: {error}")
        return GuardError(f"{self._path.name}: {error}")

    def _close(self) -> None:
        self._connection.close()
        self._plain.close()


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except OSError as error:
        raise GuardError(f"{path} cannot be read: {error.strerror}") from None


def _is_quiet_wal(path: Path, header: bytes) -> bool:
    """Whether a database in write-ahead mode has an empty log, so that its file holds everything."""
    if header[18:20] != b"\2\2":
        return False
    log, shared = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not log.exists():
        return True
    if shared.exists():
        return False
    if log.stat().st_size:
        raise GuardError(
            f"{log} holds changes that were never merged, and reading them would write beside it; open {path.name} "
            "once with a program that may write, such as sqlite3, to merge them"
        )
    return True


def _stamp(path: Path) -> tuple[int, int, bool]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, Path(f"{path}-wal").exists()


def _wake_virtual_tables(connection: sqlite3.Connection) -> None:
    """Let full-text and other virtual tables declare their columns now: the authorizer would refuse that later."""
    virtual = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").fetchall()
    for name in [name for (name,) in virtual] + ["json_each", "json_tree"]:
        with suppress(sqlite3.DatabaseError):  # this build lacks the module, and a query of it will say so
            connection.execute(f"SELECT 1 FROM {quoted(name)} LIMIT 0").close()


_READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
# json_patch only reads, but takes the product of both lengths within one step.
_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "json_patch"})
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_STATEMENT,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 200,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 32_766,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ACTIONS: Final = {
    getattr(sqlite3, f"SQLITE_{name.replace(' ', '_')}"): name
    for name in (
        "INSERT", "UPDATE", "DELETE", "PRAGMA", "ATTACH", "DETACH", "ANALYZE", "REINDEX", "ALTER TABLE",
        "TRANSACTION", "SAVEPOINT", "FUNCTION", "CREATE TABLE", "CREATE VIEW", "CREATE INDEX", "CREATE TRIGGER",
        "CREATE TEMP TABLE", "CREATE TEMP VIEW", "CREATE TEMP INDEX", "CREATE TEMP TRIGGER", "CREATE VTABLE",
        "DROP TABLE", "DROP VIEW", "DROP INDEX", "DROP TRIGGER", "DROP VTABLE",
    )
}  # fmt: skip
