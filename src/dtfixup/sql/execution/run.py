"""Run one query for a person: read-only, with a deadline that holds whatever the query says.

In: a database and a query. Out: `Rows`. SQLite looks at the clock between rows and not within one, so its queries run
in a process of their own, which is ended when it is late; servers end statements themselves.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from dtfixup.errors import DeadlineError, GuardError, SchemaError, WorkerStartError
from dtfixup.sql.database.connections import sqlite_path
from dtfixup.sql.execution.guarded import Limits, Rows, open_guarded
from dtfixup.sql.execution.workers import Lost, run_supervised

GRACE_SECONDS = 1.0
"""How much longer than the deadline SQLite may take to stop by itself."""


@dataclass(frozen=True)
class _Task:
    path: Path
    sql: str
    limits: Limits


def run_query(database: str | Path, sql: str, *, deadline: float = 5.0, max_rows: int = 100) -> Rows:
    """The first rows of a query; every failure is a `GuardError`.

    A script calls it below `if __name__ == "__main__":`, as everything that starts processes.
    """
    limits = Limits(deadline=deadline, max_rows=max_rows)
    try:
        path = sqlite_path(database)
    except SchemaError as error:
        raise GuardError(str(error)) from None
    if path is None:
        with open_guarded(database, deadline=deadline, max_rows=max_rows) as connection:
            return connection.run(sql)
    task = _Task(path.absolute(), sql, limits)
    try:
        [(_, outcome)] = run_supervised(_run, [task], workers=1, deadline=deadline + GRACE_SECONDS)
    except WorkerStartError:
        raise GuardError(
            "the process that runs the query did not start; in a script of your own, call run_query below "
            '`if __name__ == "__main__":`, because a new process reads the script again'
        ) from None
    if isinstance(outcome, Lost):
        if "no answer" in outcome.reason:
            raise DeadlineError(f"stopped after {deadline:g} s: the query computes too much; ask for less")
        raise GuardError(f"the query ended its process ({outcome.reason}); ask for less")
    return outcome


def _run(task: _Task) -> Rows:
    with open_guarded(task.path, **asdict(task.limits)) as connection:
        return connection.run(task.sql)
