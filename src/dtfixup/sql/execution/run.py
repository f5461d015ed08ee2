"""Run one query for a person: read-only, with a deadline that holds whatever the query does.

In: a database and a query. Out: `Rows`. SQLite looks at the clock between rows and not within one, so its queries run
in a process of their own, which is ended when it is late; servers end statements themselves.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dtfixup.errors import DeadlineError, GuardError, SchemaError, WorkerStartError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.execution.guarded import Limits, Rows, open_guarded

GRACE_SECONDS = 1.0
"""How much longer than the deadline SQLite may take to stop by itself."""


@dataclass(frozen=True)
class _Task:
    location: Location
    sql: str
    limits: Limits


def run_query(database: DatabaseLike, sql: str, *, deadline: float = 5.0, max_rows: int = 100) -> Rows:
    """The first rows of a query; every failure is a `GuardError`.

    `database` is what `open_database` takes or returned. A script calls this below `if __name__ == "__main__":`, as
    everything that starts processes.
    """
    try:
        location = Location.of(database)
    except SchemaError as error:
        raise GuardError(str(error)) from None
    task = _Task(location, sql, Limits(deadline=deadline, max_rows=max_rows))
    if location.path is None:
        return _run(task)
    try:
        [(_, outcome)] = run_supervised(_run, [task], workers=1, deadline=deadline + GRACE_SECONDS)
    except WorkerStartError as error:
        raise GuardError(f"the query did not run: {error}") from None
    if isinstance(outcome, Lost):
        if outcome.is_late:
            raise DeadlineError(f"stopped after {deadline:g} s: the query computes too much; ask for less")
        raise GuardError(f"the query ended its process ({outcome.reason}); ask for less")
    return outcome


def _run(task: _Task) -> Rows:
    with open_guarded(task.location, **asdict(task.limits)) as connection:
        return connection.run(task.sql)


def first_that_runs(queries: Sequence[str], database: DatabaseLike) -> str:
    """The first query that runs without an error; the first of all where none does, and "" where there is none."""
    with open_guarded(database) as connection:
        for query in queries:
            try:
                connection.run(query)
            except GuardError:
                continue
            return query
    return queries[0] if queries else ""
