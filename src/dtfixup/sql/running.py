"""Run one query for a person: read-only, with a deadline that holds whatever the query says.

In: a database and a query. Out: `Rows`. SQLite looks at the clock between rows and not within one, so its queries run
in a process of their own, which is ended when it is late; servers end statements themselves.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from dtfixup.errors import DeadlineError, GuardError
from dtfixup.sql.engines import sqlite_path
from dtfixup.sql.execute import Limits, Rows, open_guarded
from dtfixup.sql.workers import Lost, run_supervised

GRACE_SECONDS = 1.0
"""How much longer than the deadline SQLite may take to stop by itself."""


@dataclass(frozen=True)
class _Task:
    path: Path
    sql: str
    limits: Limits


def run_query(database: str | Path, sql: str, *, deadline: float = 5.0, max_rows: int = 100) -> Rows:
    """The first rows of a query; every failure is a `GuardError`."""
    limits = Limits(deadline=deadline, max_rows=max_rows)
    path = sqlite_path(database)
    if path is None:
        with open_guarded(database, deadline=deadline, max_rows=max_rows) as connection:
            return connection.run(sql)
    task = _Task(path.absolute(), sql, limits)
    [(_, outcome)] = run_supervised(_run, [task], workers=1, deadline=deadline + GRACE_SECONDS)
    if isinstance(outcome, Lost):
        if "no answer" in outcome.reason:
            raise DeadlineError(f"stopped after {deadline:g} s: the query computes too much; ask for less")
        raise GuardError(f"the query ended its process ({outcome.reason}); ask for less")
    return outcome


def _run(task: _Task) -> Rows:
    with open_guarded(task.path, **asdict(task.limits)) as connection:
        return connection.run(task.sql)
