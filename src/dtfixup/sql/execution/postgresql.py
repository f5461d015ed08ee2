"""PostgreSQL held to reading: a URL in, rows out, and nothing left behind that a rollback can undo.

Every statement is the query of a DECLARE CURSOR inside a READ ONLY transaction that is rolled back. The server's
own grammar allows only a query there, and the extended protocol only one.
"""

import os
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, cast

import psycopg
from psycopg import errors, sql

from dtfixup.errors import GuardError, RefusedError
from dtfixup.sql.database.connections import reason_of
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import Location
from dtfixup.sql.execution.guarded import Clock, GuardedConnection, Limits, Rows, Value

_CURSOR: Final = "dtfixup"
_SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "idle_in_transaction_session_timeout": "60s",
    "work_mem": "16MB",
    "jit": "off",  # compiling a query cannot be interrupted
}


class PostgresqlGuard(GuardedConnection):
    """A guarded connection to a PostgreSQL server."""

    dialect = Dialect.POSTGRESQL

    def __init__(self, location: Location, limits: Limits, filter_text: bool) -> None:
        super().__init__(limits, filter_text)
        self._location = location
        self._connection = self._connect()
        self.role_hint = self._find_powers()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        url, shown = self._location.url, self._location.shown
        assert url is not None
        named: dict[str, Any] = url.translate_connect_args(database="dbname", username="user")
        named |= {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
        try:
            connection = psycopg.connect(
                **{"connect_timeout": self.CONNECT_SECONDS, **named, "client_encoding": "utf8"},
                autocommit=True,
                prepare_threshold=None,
            )
        except (psycopg.Error, ValueError) as error:
            raise GuardError(f"{shown} cannot be opened: {reason_of(error, self._location)}") from None
        try:
            for name, value in _SETTINGS.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            (superuser,) = connection.execute("SELECT current_setting('is_superuser')").fetchone() or ("off",)
            if superuser == "on":  # others cannot set it; docs/explain/safety.md gives it to the role
                connection.execute("SET temp_file_limit = '1GB'")
        except psycopg.Error as error:
            connection.close()
            raise GuardError(f"{shown} cannot be made read-only: {_first_line(error)}") from None
        return connection

    def _find_powers(self) -> str | None:
        row = self._connection.execute(_POWERS).fetchone()
        if row is None:
            return None
        user, powers = row
        return (
            f"{user} is {powers}, and PostgreSQL's functions can reach its files and other sessions with that; "
            "connect as a role that may only SELECT (docs/explain/safety.md)"
        )

    def placeholder(self, position: int) -> str:
        return f"${position}"

    def _run(self, sql: str, parameters: tuple[Value, ...], clock: Clock) -> Rows:
        for position, value in enumerate(parameters, 1):
            if isinstance(value, str) and "\0" in value:
                raise GuardError(f"parameter {position}: PostgreSQL text cannot hold a NUL character")
        if self._connection.closed:
            self._connection = self._connect()
        try:
            with self._watched(clock):
                try:
                    return self._query(sql, parameters, clock)
                finally:
                    self._clean_up()
        except psycopg.Error as error:
            raise self._translate(error, clock) from None

    def _clean_up(self) -> None:
        """Leave nothing of a statement behind; closing the connection does that too."""
        try:
            # Advisory locks outlive a transaction.
            self._connection.execute("ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()")
        except psycopg.Error:
            self._connection.close()

    def _query(self, query: str, parameters: tuple[Value, ...], clock: Clock) -> Rows:
        connection = self._connection
        connection.execute("BEGIN TRANSACTION READ ONLY")
        self._set_time_left(clock)
        with psycopg.RawServerCursor(connection, _CURSOR, scrollable=False) as declared:
            declared.execute(query.encode(), parameters or None)
            columns = [column.name for column in declared.description or ()]
            # The timer of a command is set when it begins, so no function inside the query can move it.
            self._set_time_left(clock)
            with connection.cursor() as cursor:
                fetch = sql.SQL("FETCH FORWARD {} FROM {}").format(self.limits.max_rows + 1, sql.Identifier(_CURSOR))
                # One row at a time, so that a limit holds before the next one is read from the network; closed
                # at once, since an open stream keeps the connection to itself.
                with closing(cast("Generator[tuple[Any, ...], None, None]", cursor.stream(fetch))) as stream:
                    return self._collect(columns, ((row, _size_on_wire(cursor)) for row in stream), clock)

    def _set_time_left(self, clock: Clock) -> None:
        clock.check()
        left = max(1, int(clock.left * 1000))
        waiting = max(1, left * 9 // 10)  # the sooner one, so that the error names the lock
        self._connection.execute(f"SET LOCAL statement_timeout = {left}; SET LOCAL lock_timeout = {waiting}".encode())

    @contextmanager
    def _watched(self, clock: Clock) -> Iterator[None]:
        """Break the connection if the server misses the deadline because it, or the network, hangs."""
        duplicate = socket.socket(fileno=os.dup(self._connection.fileno()))

        def give_up() -> None:
            with suppress(OSError):
                duplicate.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, clock.left) + self.GRACE_SECONDS, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            duplicate.close()

    def _translate(self, error: psycopg.Error, clock: Clock) -> GuardError:
        text = _first_line(error)
        if isinstance(error, errors.QueryCanceled) or (self._connection.closed and clock.left < 0):
            return clock.error()
        if isinstance(error, errors.LockNotAvailable):
            return clock.lock_error()
        if error.sqlstate in _REFUSALS:
            return RefusedError(f"refused: {text}")
        if isinstance(error, errors.SyntaxError):
            return RefusedError(f"refused: not one query, or not SQL that PostgreSQL reads: {text}")
        return GuardError(f"PostgreSQL: {text}")

    def _close(self) -> None:
        self._connection.close()


def _size_on_wire(cursor: psycopg.Cursor[tuple[Any, ...]]) -> int:
    """The bytes of the one row just received."""
    result = cursor.pgresult
    return sum(len(result.get_value(0, column) or b"") for column in range(result.nfields)) if result else 0


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().split("\n")[0]


# In order: read-only transaction; change of it; no right; not allowed in a cursor; a connection of dblink.
_REFUSALS: Final = frozenset({"25006", "25001", "42501", "0A000", "2F003"})
_POWERS: Final = """
SELECT current_user, string_agg(power, ', ')
FROM (
  SELECT 'a superuser' FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper
  UNION ALL
  SELECT 'a member of ' || rolname FROM pg_catalog.pg_roles
  WHERE rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend')
    AND pg_catalog.pg_has_role(oid, 'USAGE')
    AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
) AS powers (power)
HAVING count(*) > 0
"""
