"""Run one query for a person: read-only, with a deadline that holds whatever the query does.

In: a database and a query. Out: `Rows`. SQLite checks the clock between rows and not within one, so its queries run in
a process that is killed when it is late; servers end statements themselves.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from dtfixup.errors import DeadlineError, GuardError, SchemaError, WorkerStartError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.execution.guarded import Limits, Rows, open_guarded

_GRACE_SECONDS = 1.0
"""How much longer than the deadline SQLite may take to stop by itself."""


def run_query(database: DatabaseLike, sql: str, *, deadline: float = 5.0, max_rows: int = 100) -> Rows:
    """Return the first rows of a query; every failure is a `GuardError`.

    `database` is what `open_database` takes or returns. Like everything that starts processes, a script calls this
    below `if __name__ == "__main__":`.
    """
    try:
        location = Location.of(database)
    except SchemaError as error:
        raise GuardError(str(error)) from None
    run = partial(_run, location, Limits(deadline=deadline, max_rows=max_rows))
    if location.path is None:
        return run(sql)
    try:
        [(_, outcome)] = run_supervised(run, [sql], workers=1, deadline=deadline + _GRACE_SECONDS)
    except WorkerStartError as error:
        raise GuardError(f"the query did not run: {error}") from None
    if isinstance(outcome, Lost):
        if outcome.is_late:
            raise DeadlineError(f"stopped after {deadline:g} s: the query computes too much; ask for less")
        raise GuardError(f"the query ended its process ({outcome.reason}); ask for less")
    return outcome


def _run(location: Location, limits: Limits, sql: str) -> Rows:
    with open_guarded(location, **asdict(limits)) as connection:
        return connection.run(sql)


def first_that_runs(queries: Sequence[str], database: DatabaseLike) -> str:
    """Return the first query that runs without an error, else the first of all, or "" if there are no queries."""
    with open_guarded(database) as connection:
        for query in queries:
            try:
                connection.run(query)
            except GuardError:
                continue
            return query
    return queries[0] if queries else ""
