"""The likeliest query that a database runs.

In: the queries of a beam, best first, and the database. Out: the first that runs without an error, or the first of all
where none does. Execution is read-only and has a deadline.
"""

from collections.abc import Sequence
from pathlib import Path

from dtfixup.errors import GuardError
from dtfixup.sql.execution.guarded import open_guarded


def first_that_runs(queries: Sequence[str], database: str | Path) -> str:
    """The first query that runs; the first of all where none does, and nothing where there is none."""
    with open_guarded(database) as connection:
        for query in queries:
            try:
                connection.run(query)
            except GuardError:
                continue
            return query
    return queries[0] if queries else ""
