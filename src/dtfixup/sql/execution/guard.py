"""What guarded connections of every kind share: their limits, what they return, how they fail.

In: a statement and its literals. Out: `Rows`, or a `GuardError` that says what was refused or stopped.
`execution/sqlite.py`, `execution/postgresql.py` and `execution/mariadb.py` fill in how each database is held to
reading.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from dtfixup.errors import ConfigError, DeadlineError, GuardError, RefusedError, TooMuchDataError
from dtfixup.sql.database.location import Dialect
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
    """SQLite only: the longest value that may be read or made, in bytes. Some of its functions take time
    quadratic in this and cannot be interrupted (docs/explain/safety.md)."""
    max_memory: int | None = 512 * 2**20
    """SQLite only: the heap of SQLite in this whole process, which can be lowered later and never raised.
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
    """The result of a query; `truncated` where it had more than `max_rows` rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool


@dataclass(slots=True)
class Clock:
    """When a statement began and when it must be over."""

    seconds: float
    end: float = field(init=False)

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def check(self) -> None:
        """Raise where the deadline has passed, which a statement that was cut short need not say itself."""
        if self.left < 0:
            raise self.error()

    def error(self) -> DeadlineError:
        return DeadlineError(
            f"stopped after {self.seconds:g} s: the statement reads or computes too much; "
            "add a condition or a LIMIT, or raise the deadline"
        )


class GuardedConnection(ABC):
    """A connection that can only read, and stops a statement at its limits. Use it as a context manager.

    It belongs to the thread that opened it: open one in each thread. After an error it can be used again.
    """

    dialect: ClassVar[Dialect]
    role_hint: str | None = None
    """What this connection's user may do that only a restricted role can stop."""

    def __init__(self, limits: Limits, filter_text: bool) -> None:
        self.limits = limits
        self._filter_text = filter_text
        self._thread = threading.get_ident()
        self._open = True

    def placeholder(self, position: int) -> str:
        """How the literal at `position`, counted from 1, is written in a statement."""
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
        """Give the connection back; closing twice does nothing."""
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
        """Take rows, each with its size in bytes, until a limit is reached; one more than `max_rows` is asked for."""
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
