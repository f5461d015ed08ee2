"""Hostile statements against real databases, with text filtering switched off: the connection alone has to hold."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from dtfixup.errors import GuardError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.guarded import (
    DeadlineError,
    GuardedConnection,
    RefusedError,
    TooMuchDataError,
    check_statement,
    open_guarded,
)
from tests.sql.hostile.corpus import Fate, Hostile, read_corpus
from tests.sql.hostile.stages import PETS, MariadbStage, PostgresqlStage, SqliteStage
from tests.sql.servers import Server, fresh_database

_SQLITE, _POSTGRESQL, _MARIADB = read_corpus("sqlite"), read_corpus("postgresql"), read_corpus("mariadb")
# Seconds. A busy machine takes long over the shortest statement: what has to meet the deadline has little time, and
# all else has enough. The slack is far less than any of the endless statements would take.
_DEADLINE, _PATIENCE, _SLACK = 0.5, 10.0, 15.0
_EXPECTED: dict[Fate, tuple[type[GuardError], ...]] = {
    Fate.REFUSED: (RefusedError,),
    Fate.DEADLINE: (DeadlineError,),
    Fate.SIZE: (TooMuchDataError,),
    Fate.LIMIT: (DeadlineError, TooMuchDataError),
    Fate.ERROR: (GuardError,),
}


def _each(corpus: list[Hostile]) -> Any:
    return pytest.mark.parametrize("hostile", [pytest.param(hostile, id=hostile.title) for hostile in corpus])


@dataclass(frozen=True)
class _Guards:
    """Two connections to one database, for statements that meet the deadline and for all others."""

    quick: GuardedConnection
    patient: GuardedConnection

    def against(self, fate: Fate) -> GuardedConnection:
        return self.quick if fate in (Fate.DEADLINE, Fate.LIMIT) else self.patient


@contextmanager
def _open(url: str) -> Iterator[_Guards]:
    opened = partial(open_guarded, url, max_rows=50, max_bytes=4_000_000, filter_text=False)
    with opened(deadline=_DEADLINE) as quick, opened(deadline=_PATIENCE) as patient:
        yield _Guards(quick, patient)


def _attack(guards: _Guards, sql: str, fate: Fate) -> list[tuple[Any, ...]]:
    """Run a statement, check its fate, and see that the connection still serves and still guards."""
    guard = guards.against(fate)
    rows: list[tuple[Any, ...]] = []
    begin = time.monotonic()
    if fate in _EXPECTED:
        with pytest.raises(GuardError) as caught:
            guard.run(sql)
        assert isinstance(caught.value, _EXPECTED[fate]), caught.value
    elif fate is Fate.UNDONE:
        with suppress(GuardError):
            guard.run(sql)
    else:
        rows = guard.run(sql).rows
    assert time.monotonic() - begin < _SLACK
    assert guard.run("SELECT count(*) FROM pets").rows == [(len(PETS),)]
    with pytest.raises(RefusedError):
        guard.run("DELETE FROM pets")
    return rows


@pytest.mark.parametrize("corpus", [_SQLITE, _POSTGRESQL, _MARIADB], ids=["sqlite", "postgresql", "mariadb"])
def test_the_corpora_are_large_and_repeat_nothing(corpus: list[Hostile]) -> None:
    assert len(corpus) >= 60
    assert len({hostile.text for hostile in corpus}) == len({hostile.title for hostile in corpus}) == len(corpus)


@pytest.fixture(scope="module")
def sqlite_stage(tmp_path_factory: pytest.TempPathFactory) -> SqliteStage:
    return SqliteStage(tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="module")
def sqlite_guards(sqlite_stage: SqliteStage) -> Iterator[_Guards]:
    with _open(sqlite_stage.url) as guards:
        yield guards


@_each(_SQLITE)
def test_sqlite_holds(hostile: Hostile, sqlite_stage: SqliteStage, sqlite_guards: _Guards) -> None:
    _attack(sqlite_guards, hostile.sql(sqlite_stage.folder), hostile.fate)
    assert sqlite_stage.state() == sqlite_stage.untouched


@pytest.fixture(scope="module")
def postgresql_stage(postgresql: Server) -> Iterator[PostgresqlStage]:
    with fresh_database(postgresql.url) as url, closing(PostgresqlStage(url, postgresql.folder)) as stage:
        yield stage


@pytest.fixture(scope="module")
def mariadb_stage(mariadb: Server) -> Iterator[MariadbStage]:
    with fresh_database(mariadb.url) as url, closing(MariadbStage(url, mariadb.folder)) as stage:
        yield stage


@pytest.fixture(scope="module")
def postgresql_guards(postgresql_stage: PostgresqlStage) -> Iterator[dict[str, _Guards]]:
    with _open(postgresql_stage.url) as admin, _open(postgresql_stage.reader_url) as reader:
        yield {"admin": admin, "reader": reader}


@pytest.fixture(scope="module")
def mariadb_guards(mariadb_stage: MariadbStage) -> Iterator[dict[str, _Guards]]:
    with _open(mariadb_stage.url) as admin, _open(mariadb_stage.reader_url) as reader:
        yield {"admin": admin, "reader": reader}


def _attack_server(
    stage: PostgresqlStage | MariadbStage, guards: dict[str, _Guards], user: str, hostile: Hostile
) -> None:
    sql = hostile.sql(stage.folder)
    if user == "admin" and hostile.fate.needs_role:
        try:
            guards["admin"].patient.run(sql)  # the marking is exact: nothing but a role stops it
        finally:
            stage.mend()
    elif hostile.fate is Fate.ROLE:
        _attack(guards["reader"], sql, Fate.REFUSED)
    elif hostile.fate is Fate.ROLE_NULL:
        assert _attack(guards["reader"], sql, hostile.fate) == [(None,)]
    else:
        _attack(guards[user], sql, hostile.fate)
    assert stage.state() == stage.untouched


@pytest.mark.parametrize("user", ["admin", "reader"])
@_each(_POSTGRESQL)
def test_postgresql_holds(
    hostile: Hostile, user: str, postgresql_stage: PostgresqlStage, postgresql_guards: dict[str, _Guards]
) -> None:
    _attack_server(postgresql_stage, postgresql_guards, user, hostile)


@pytest.mark.parametrize("user", ["admin", "reader"])
@_each(_MARIADB)
def test_mariadb_holds(
    hostile: Hostile, user: str, mariadb_stage: MariadbStage, mariadb_guards: dict[str, _Guards]
) -> None:
    _attack_server(mariadb_stage, mariadb_guards, user, hostile)


def _imaginary(corpus: list[Hostile], folder: Path, prove: Callable[[str], None]) -> dict[str, str]:
    """The statements that would do nothing without a guard either, by their error."""
    found = {}
    for hostile in corpus:
        if hostile.proven and hostile.fate in (Fate.REFUSED, Fate.UNDONE):
            try:
                prove(hostile.sql(folder))
            except (sqlite3.Error, psycopg.Error, pymysql.Error) as error:
                found[hostile.title] = str(error)
    return found


def test_without_the_guard_sqlite_obeys(sqlite_stage: SqliteStage, tmp_path: Path) -> None:
    numbers = count()
    prove = lambda sql: sqlite_stage.prove(sql, tmp_path / str(next(numbers)))  # noqa: E731
    assert _imaginary(_SQLITE, sqlite_stage.folder, prove) == {}


def test_without_the_guard_postgresql_obeys(postgresql_stage: PostgresqlStage) -> None:
    assert _imaginary(_POSTGRESQL, postgresql_stage.folder, postgresql_stage.prove) == {}


def test_without_the_guard_mariadb_obeys(mariadb_stage: MariadbStage) -> None:
    assert _imaginary(_MARIADB, mariadb_stage.folder, mariadb_stage.prove) == {}


@pytest.mark.parametrize(
    ("corpus", "dialect"),
    [(_SQLITE, Dialect.SQLITE), (_POSTGRESQL, Dialect.POSTGRESQL), (_MARIADB, Dialect.MARIADB)],
)
def test_the_text_filter_is_a_second_layer(corpus: list[Hostile], dialect: Dialect) -> None:
    """It refuses by itself what the connection refuses, and functions that only a role could stop."""
    passed = []
    for hostile in corpus:
        if hostile.fate in (Fate.REFUSED, Fate.ROLE, Fate.ROLE_NULL):
            try:
                check_statement(hostile.sql(Path("folder")), dialect)
            except RefusedError:
                continue
            passed.append(hostile.title)
    assert passed == _PASSING_TEXT[dialect]


# Reading what the role was not given looks like any reading, and a function of a user can be anything.
_PASSING_TEXT = {
    Dialect.SQLITE: [
        "pragma as a table",
        "the bytes of the database's pages",
        "trim, whose time is both lengths multiplied",
        "json_patch, whose time is both lengths multiplied",
    ],
    Dialect.POSTGRESQL: [
        "function that writes",
        "function that writes, in a condition",
        "read hashes of passwords",
        "read a table that was not granted to the role",
    ],
    Dialect.MARIADB: [
        "function that writes",
        "function that writes, in a condition",
        "read hashes of passwords",
        "read a table that was not granted to the user",
        "read another database",
    ],
}


@pytest.mark.parametrize(("kind", "corpus"), [("PostgreSQL", _POSTGRESQL), ("MariaDB", _MARIADB)])
def test_the_guide_lists_what_only_a_role_can_stop(kind: str, corpus: list[Hostile]) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "explain" / "safety.md").read_text(encoding="utf-8")
    table = guide.split(f"| {kind}, as a")[1].split("```")[0]
    listed = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert listed == [hostile.title for hostile in corpus if hostile.fate.needs_role]
