"""The same questions to the same data in SQLite, PostgreSQL and MariaDB: what the shipped model answers gives the same
rows.

A query that shows what its groups do not settle gives any of their rows (docs/reference/dialects.md): a model that
writes one here fails, as it should, since a user gets different rows.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.guarded import Rows, open_guarded
from tests.sql.sample_servers import same_rows, samples_on

EVERY = 8
"""Of each database's 40 questions every eighth, in each from another on: easy ones come first in all of them."""


@dataclass(frozen=True)
class Reply:
    """What a user gets; no query and no rows where nothing in the question links to the schema."""

    database: str
    question: str
    sql: str | None
    rows: Rows | None


def ask_all(shipped: TextToSql, sample: Dataset, databases: dict[str, OpenedDatabase]) -> list[Reply]:
    """Ask, and run each answer through the guard, which raises for one that does not run."""
    examples = [*sample.split("train"), *sample.split("dev")]
    replies = []
    with ExitStack() as stack:
        for first, (name, database) in enumerate(databases.items()):
            connection = stack.enter_context(open_guarded(database.location))
            for question in [example.question for example in examples if example.database == name][first::EVERY]:
                sql = shipped.ask(question, database).sql
                replies.append(Reply(name, question, sql, None if sql is None else connection.run(sql)))
    return replies


@pytest.fixture(scope="module")
def by_sqlite(shipped: TextToSql, sample: Dataset) -> list[Reply]:
    files = {name: OpenedDatabase(sample.database_file(name)) for name in sorted(sample.schemas)}
    return ask_all(shipped, sample, files)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def databases(sample: Dataset, request: pytest.FixtureRequest) -> Iterator[dict[str, OpenedDatabase]]:
    with samples_on(request.getfixturevalue(f"{request.param}_url"), sample) as opened:
        yield opened


def test_questions_are_many_and_most_have_rows(by_sqlite: list[Reply]) -> None:
    assert len({reply.question for reply in by_sqlite}) == 30
    assert len({reply.database for reply in by_sqlite}) == 6
    assert sum(reply.rows is not None and bool(reply.rows.rows) for reply in by_sqlite) >= 15


def test_thirty_questions_give_the_same_rows(
    by_sqlite: list[Reply], shipped: TextToSql, sample: Dataset, databases: dict[str, OpenedDatabase]
) -> None:
    by_server = ask_all(shipped, sample, databases)
    assert [reply.question for reply in by_server] == [reply.question for reply in by_sqlite]
    pairs = zip(by_sqlite, by_server, strict=True)
    different = [f"{own.question}\n{own.sql}\n{other.sql}" for own, other in pairs if not is_same(own, other)]
    assert not different, "\n\n".join(different)
    quote = "`" if next(iter(databases.values())).dialect is Dialect.MARIADB else '"'
    assert all(quote in reply.sql for reply in by_server if reply.sql is not None)


def is_same(own: Reply, other: Reply) -> bool:
    if own.sql is None or own.rows is None or other.rows is None:
        return own.sql is other.sql
    return same_rows(own.sql, own.rows, other.rows)
