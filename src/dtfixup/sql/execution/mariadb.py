"""MariaDB and MySQL held to reading: a URL in, rows out, and nothing left behind.

A READ ONLY transaction stops writes, but CALL and compound statements can end it from inside, and SET, FLUSH, LOCK
and SELECT ... INTO OUTFILE ignore it. So the server is first asked to prepare `EXISTS (<statement>)`, where its own
grammar allows only a query without INTO, and then the statement itself.
"""

import math
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final, cast

import pymysql
from pymysql.cursors import SSCursor

from dtfixup.errors import GuardError, RefusedError, TooMuchDataError
from dtfixup.sql.database.connections import reason_of
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.location import Location
from dtfixup.sql.execution.guarded import Clock, GuardedConnection, Limits, Rows, Value, size_of

_OPTIONS: Final = frozenset({"unix_socket", "ssl_ca", "ssl_cert", "ssl_key"})


class MariadbGuard(GuardedConnection):
    """A guarded connection to a MariaDB or MySQL server."""

    dialect = Dialect.MARIADB

    def __init__(self, location: Location, limits: Limits, filter_text: bool) -> None:
        super().__init__(limits, filter_text)
        self._location = location
        self._connection = self._connect()
        self.role_hint = self._find_powers()

    def _connect(self) -> "pymysql.Connection[SSCursor]":
        url, shown = self._location.url, self._location.shown
        assert url is not None
        unknown = sorted(set(url.query) - _OPTIONS - {"charset", "connect_timeout"})
        if unknown:
            raise GuardError(f"{shown}: unknown options {', '.join(unknown)}; known are {', '.join(sorted(_OPTIONS))}")
        options: Mapping[str, Any] = {name: url.query[name] for name in _OPTIONS & set(url.query)}
        try:
            connection = pymysql.connect(
                host=url.host or "localhost",
                port=url.port or 3306,
                user=url.username,
                password=url.password or "",
                database=url.database,
                charset="utf8mb4",
                local_infile=False,
                autocommit=True,
                cursorclass=SSCursor,
                connect_timeout=int(str(url.query.get("connect_timeout", self.CONNECT_SECONDS))),
                read_timeout=self.limits.deadline + self.GRACE_SECONDS,
                write_timeout=self.limits.deadline + self.GRACE_SECONDS,
                **options,
            )
        except (pymysql.Error, OSError, ValueError) as error:
            raise GuardError(f"{shown} cannot be opened: {reason_of(error, self._location)}") from None
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                [(version,)] = cursor.fetchall()
            for setting in self._settings(is_mariadb="MariaDB" in version):
                _command(connection, f"SET SESSION {setting}")
        except pymysql.Error as error:
            connection.close()
            raise GuardError(f"{shown} cannot be made read-only: {_text(error)}") from None
        return connection

    def _settings(self, is_mariadb: bool) -> list[str]:
        seconds = math.ceil(self.limits.deadline)
        mariadb = f"max_statement_time = {self.limits.deadline:f}"
        mysql = f"max_execution_time = {math.ceil(self.limits.deadline * 1000)}"
        waits = [f"lock_wait_timeout = {seconds}", f"innodb_lock_wait_timeout = {seconds}"]
        return ["TRANSACTION READ ONLY", *waits, mariadb if is_mariadb else mysql]

    def _find_powers(self) -> str | None:
        with self._connection.cursor() as cursor:
            cursor.execute(_POWERS)
            powers = ", ".join(sorted(name for (name,) in cursor.fetchall()))
        if not powers:
            return None
        return (
            f"this user has {powers} on every database, and can reach the server's files or its password hashes with "
            "that; connect as a user that may only SELECT from one (docs/explain/safety.md)"
        )

    def _run(self, sql: str, parameters: tuple[Value, ...], clock: Clock) -> Rows:
        if not self._connection.open:
            self._connection = self._connect()
        session: int = cast(Any, self._connection).thread_id()
        try:
            try:
                return self._query(sql, parameters, clock)
            finally:
                self._clean_up()
        except pymysql.Error as error:
            if error.args[0] == _LOST:
                self._end(session)
            raise _translate(error, clock) from None

    def _query(self, sql: str, parameters: tuple[Value, ...], clock: Clock) -> Rows:
        connection = self._connection
        names = [f"@dtfixup_{position}" for position in range(1, len(parameters) + 1)]
        query = sql.rstrip().removesuffix(";")
        texts = {"@dtfixup_check": f"SELECT 1 FROM DUAL WHERE EXISTS (\n{query}\n)", "@dtfixup_query": query}
        values = dict(zip(names, parameters, strict=True)) | texts
        _command(connection, "SET " + ", ".join(f"{name} = {_literal(value)}" for name, value in values.items()))
        _command(connection, "START TRANSACTION READ ONLY")
        _command(connection, "PREPARE dtfixup FROM @dtfixup_check")
        _command(connection, "PREPARE dtfixup FROM @dtfixup_query")
        using = f" USING {', '.join(names)}" if names else ""
        cursor = connection.cursor()
        try:
            cursor.execute(f"EXECUTE dtfixup{using}")
            rows = ((row, size_of(row)) for row in iter(cursor.fetchone, None))
            return self._collect((column[0] for column in cursor.description or ()), rows, clock)
        finally:
            self._leave(cursor)

    def _leave(self, cursor: SSCursor) -> None:
        """End a result. The protocol cannot stop one that is half read, so the connection is closed for that."""
        result = cast(Any, cursor)._result
        if result is not None and result.unbuffered_active:
            result.unbuffered_active = False
            if self._connection.open:
                self._connection.close()
        cursor.close()

    def _clean_up(self) -> None:
        """Leave nothing of a statement behind; closing the connection does that too."""
        if not self._connection.open:
            return
        try:
            _command(self._connection, "ROLLBACK")
            _command(self._connection, "DO RELEASE_ALL_LOCKS()")
        except pymysql.Error:
            self._close()

    def _end(self, session: int) -> None:
        """End a session that did not answer, over another connection; a server that hangs cannot be asked."""
        with suppress(GuardError, pymysql.Error), closing(self._connect()) as other:
            _command(other, f"KILL {session}")

    def _close(self) -> None:
        if self._connection.open:
            self._connection.close()


def _command(connection: "pymysql.Connection[SSCursor]", sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _translate(error: pymysql.Error, clock: Clock) -> GuardError:
    code, text = error.args[0] if error.args else None, _text(error)
    if code in _TIMEOUTS or (code == _LOST and clock.left < 0):
        return clock.error()
    if code == _LOCK_WAIT:
        return clock.lock_error()
    if code == _SYNTAX:
        return RefusedError(f"refused: not one query, or not SQL that MariaDB reads: {text}")
    if code in _REFUSALS:
        return RefusedError(f"refused: {text}")
    if code in _TOO_MUCH:
        return TooMuchDataError(f"stopped: {text}")
    return GuardError(f"MariaDB: {text}")


def _text(error: Exception) -> str:
    return str(error.args[1] if len(error.args) > 1 else error)


def _literal(value: Value) -> str:
    """The literal as SQL; text and bytes as hexadecimal, to which no quoting rule of the server applies."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"CONVERT(X'{value.encode().hex()}' USING utf8mb4)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text else f"{text}e0"  # without an exponent it would be an exact decimal
    return str(int(value))


_SYNTAX: Final = 1064
_LOST: Final = 2013
_LOCK_WAIT: Final = 1205
_TIMEOUTS: Final = frozenset({1317, 1969, 3024})
# In order: read-only transaction; no right to the database, the server, files, the table, the column, the routine.
_REFUSALS: Final = frozenset({1792, 1044, 1227, 1045, 1142, 1143, 1370})
_TOO_MUCH: Final = frozenset({1153})
_POWERS: Final = """
SELECT privilege_type FROM information_schema.user_privileges
WHERE privilege_type IN ('SELECT', 'FILE', 'SUPER')
  AND grantee = CONCAT_WS(
    '@', QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))
  )
"""
