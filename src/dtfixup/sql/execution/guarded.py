"""Read-only execution: a database and a query in, its rows out, and nothing changed.

`open_guarded` opens SQLite, PostgreSQL and MariaDB so that the connection itself allows only reading, whatever the
statement says, with a deadline and caps on rows and bytes. `sqlite.py`, `postgresql.py` and `mariadb.py` hold each
database to that; a failure is a `GuardError` that says what was refused or stopped. docs/explain/safety.md says what
only a restricted role can stop.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias

from dtfixup.errors import ConfigError, DeadlineError, GuardError, RefusedError, SchemaError, TooMuchDataError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.execution.text_filter import MAX_STATEMENT, check_statement

Value: TypeAlias = bool | int | float | str | bytes | None
"""What can be bound to a placeholder. A date is bound as text, which every database reads."""

_INT64 = range(-(2**63), 2**63)
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class Limits:
    """How much one statement may take."""

    deadline: float = 5.0
    """Seconds, from the call to the last row."""
    max_rows: int = 1000
    max_bytes: int = 16 * 2**20
    """Of all values returned by one statement."""
    max_value: int = 1_200_000
    """SQLite only: the longest value that may be read or made, in bytes. Some of SQLite's functions take time
    quadratic in this and cannot be interrupted (docs/explain/safety.md)."""
    max_memory: int | None = 512 * 2**20
    """SQLite only: the heap of SQLite in this whole process, in bytes. It can be lowered later but never raised.
    None leaves the process as it is."""

    def __post_init__(self) -> None:
        if not 0 < self.deadline < math.inf:
            raise ConfigError(f"deadline: expected seconds above 0, got {self.deadline}")
        for name in ("max_rows", "max_bytes", "max_value", "max_memory"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}: expected at least 1, got {value}")


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a query; `truncated` if there were more than `max_rows` rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool


class Clock:
    """The deadline of a statement, which begins now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def check(self) -> None:
        """Raise an error if the deadline has passed; a database that cuts a statement short need not report it."""
        if self.left < 0:
            raise self.error()

    def error(self) -> DeadlineError:
        return DeadlineError(
            f"stopped after {self._seconds:g} s: the statement reads or computes too much; "
            "add a condition or a LIMIT, or raise the deadline"
        )

    def lock_error(self) -> DeadlineError:
        return DeadlineError(f"stopped after {self._seconds:g} s of waiting for another session's lock; try again")


class GuardedConnection(ABC):
    """A connection that can only read, and stops a statement at its limits. Use it as a context manager.

    It belongs to the thread that opened it: open one in each thread. After an error it can be used again.
    """

    CONNECT_SECONDS: Final = 10
    """How long a server may take to accept a connection."""
    GRACE_SECONDS: Final = 2.0
    """A server ends a late statement itself; the client waits this much longer before it hangs up."""
    dialect: ClassVar[Dialect]
    role_hint: str | None = None
    """What this connection's user may do that only a restricted role can stop."""

    def __init__(self, limits: Limits, filter_text: bool) -> None:
        self.limits = limits
        self._filter_text = filter_text
        self._thread = threading.get_ident()
        self._open = True

    def placeholder(self, position: int) -> str:
        """The placeholder of the literal at `position`, counted from 1."""
        return "?"

    def run(self, sql: str, parameters: Sequence[Value] = ()) -> Rows:
        """Run one query, with `parameters` bound to its placeholders, and return its rows up to the limits."""
        if threading.get_ident() != self._thread:
            raise GuardError("a guarded connection belongs to the thread that opened it; open one in each thread")
        if not self._open:
            raise GuardError("this connection is closed; open another with open_guarded")
        _check_text(sql)
        _check_parameters(parameters)
        if self._filter_text:
            check_statement(sql, self.dialect)
        return self._run(sql, tuple(parameters), Clock(self.limits.deadline))

    def close(self) -> None:
        """Close the connection; closing it again does nothing."""
        if self._open:
            self._open = False
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _run(self, sql: str, parameters: tuple[Value, ...], clock: Clock) -> Rows: ...

    @abstractmethod
    def _close(self) -> None: ...

    def _collect(self, columns: Iterable[str], rows: Iterable[tuple[tuple[Any, ...], int]], clock: Clock) -> Rows:
        """Take rows, each with its size in bytes, until a limit is reached. One row too many shows a truncation."""
        kept: list[tuple[Any, ...]] = []
        total = 0
        for row, size in rows:
            clock.check()
            if len(kept) == self.limits.max_rows:
                return Rows(tuple(columns), kept, truncated=True)
            total += size
            if total > self.limits.max_bytes:
                raise TooMuchDataError(
                    f"the result has more than {self.limits.max_bytes} bytes after {len(kept) + 1} rows; "
                    "choose fewer columns or rows, or raise max_bytes"
                )
            kept.append(row)
        clock.check()
        return Rows(tuple(columns), kept, truncated=False)


def size_of(row: Iterable[Any]) -> int:
    """Roughly how many bytes the values of a row take."""
    return sum(len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES for value in row)


def _check_text(sql: str) -> None:
    if not sql.strip():
        raise RefusedError("the statement is empty")
    if len(sql) > MAX_STATEMENT:
        raise RefusedError(f"the statement has {len(sql)} characters; {MAX_STATEMENT} are allowed: bind long literals")
    if "\0" in sql:
        raise RefusedError("the statement has a NUL character, where some databases stop reading; leave it out")
    _check_utf8(sql, "the statement")


def _check_parameters(parameters: Sequence[Value]) -> None:
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise GuardError(f"parameters: expected a list or tuple of literals, got {type(parameters).__name__}")
    for position, value in enumerate(parameters, 1):
        if not isinstance(value, bool | int | float | str | bytes | None):
            raise GuardError(
                f"parameter {position}: a {type(value).__name__} cannot be bound; give text, a number, bytes or None"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise GuardError(f"parameter {position}: {value} is not a number that SQL can write")
        if isinstance(value, int) and value not in _INT64:
            raise GuardError(f"parameter {position}: {value} does not fit in 64 bits")
        if isinstance(value, str):
            _check_utf8(value, f"parameter {position}")


def _check_utf8(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise GuardError(f"{what}: half a surrogate pair at character {error.start} is not text") from None


def open_guarded(
    database: DatabaseLike,
    *,
    deadline: float = Limits.deadline,
    max_rows: int = Limits.max_rows,
    max_bytes: int = Limits.max_bytes,
    max_value: int = Limits.max_value,
    max_memory: int | None = Limits.max_memory,
    filter_text: bool = True,
) -> GuardedConnection:
    """Open a database for reading only.

    `Limits` explains the limits. `filter_text` adds `check_statement` in front of the connection.

    >>> with open_guarded("pets.sqlite") as pets:  # doctest: +SKIP
    ...     pets.run("SELECT name FROM pets WHERE age > ?", [3]).rows
    [('Rex',)]
    """
    limits = Limits(deadline, max_rows, max_bytes, max_value, max_memory)
    try:
        location = Location.of(database)
        location.require_file()
    except SchemaError as error:
        raise GuardError(str(error)) from None
    # Each driver is imported for its own databases only.
    if location.path is not None:
        from dtfixup.sql.execution.sqlite import SqliteGuard

        return SqliteGuard(location.path, limits, filter_text)
    if location.dialect is Dialect.POSTGRESQL:
        from dtfixup.sql.execution.postgresql import PostgresqlGuard

        return PostgresqlGuard(location, limits, filter_text)
    if location.dialect is Dialect.MARIADB:
        from dtfixup.sql.execution.mariadb import MariadbGuard

        return MariadbGuard(location, limits, filter_text)
    raise GuardError(f"there is no guard for {location.dialect.name}")
