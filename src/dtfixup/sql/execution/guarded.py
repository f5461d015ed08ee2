"""Read-only execution: a database and a query in, its rows out, and nothing changed.

`open_guarded` holds SQLite, PostgreSQL and MariaDB to reading by the connection itself, whatever the statement
says, with a deadline and caps on rows and bytes; docs/explain/safety.md says what only a restricted role can stop.
"""

from dtfixup.errors import DeadlineError, GuardError, RefusedError, SchemaError, TooMuchDataError
from dtfixup.sql.database.location import DatabaseLike, Dialect, Location
from dtfixup.sql.execution.guard import GuardedConnection, Limits, Rows, Value
from dtfixup.sql.execution.sqlite import SqliteGuard
from dtfixup.sql.execution.text_filter import check_statement

__all__ = [
    "DeadlineError",
    "GuardedConnection",
    "Limits",
    "RefusedError",
    "Rows",
    "TooMuchDataError",
    "Value",
    "check_statement",
    "open_guarded",
]


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

    The limits are explained at `Limits`. `filter_text` adds `check_statement` in front of the connection.

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
    if location.path is not None:
        return SqliteGuard(location.path, limits, filter_text)
    # Each driver is imported for its own databases only.
    if location.dialect is Dialect.POSTGRESQL:
        from dtfixup.sql.execution.postgresql import PostgresqlGuard

        return PostgresqlGuard(location, limits, filter_text)
    from dtfixup.sql.execution.mariadb import MariadbGuard

    return MariadbGuard(location, limits, filter_text)
