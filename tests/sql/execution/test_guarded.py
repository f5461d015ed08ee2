"""Guarded connections at work on real databases: rows, literals, names, limits and what they say when they fail."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from dtfixup.errors import ConfigError, GuardError
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.guarded import (
    DeadlineError,
    GuardedConnection,
    RefusedError,
    Rows,
    TooMuchDataError,
    Value,
    open_guarded,
)
from tests.sql.servers import Server, fresh_database

_SERVERS = ("postgresql", "mariadb")
_NAMES = ["order", "select", 'quo"ted', "back`tick", "it's", "--dash", "two words", "ünï cödé", "per%cent", "a;b", "?"]
_INVISIBLE = "".join(map(chr, [*range(0x21), *range(0x7F, 0xA1)]))
_quick = settings(max_examples=60, deadline=None)


def _quote(name: str, dialect: Dialect) -> str:
    mark = "`" if dialect is Dialect.MARIADB else '"'
    return mark + name.replace(mark, 2 * mark) + mark


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, pytest.FixtureRequest], str]]:
    """The URL of a database of a kind, filled when first asked for."""
    known: dict[str, str] = {}
    opened = []

    def url_of(kind: str, request: pytest.FixtureRequest) -> str:
        if kind not in known:
            if kind == "sqlite":
                known[kind] = f"sqlite:///{tmp_path_factory.mktemp('execute') / 'pets.db'}"
            else:
                fresh = fresh_database(request.getfixturevalue(f"{kind}_url"))
                known[kind] = fresh.__enter__()
                opened.append(fresh)
            _fill(known[kind])
        return known[kind]

    yield url_of
    for fresh in opened:
        fresh.__exit__(None, None, None)


def _fill(url: str) -> None:
    engine = create_engine(url)
    dialect = Dialect.MARIADB if engine.dialect.name == "mysql" else Dialect.SQLITE
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE pets (id INT PRIMARY KEY, name VARCHAR(40), weight FLOAT)")
        for row in ("1, 'Rex', 8.5", "2, 'Tom''s', NULL", "3, 'Ünal', 0.25"):
            connection.exec_driver_sql(f"INSERT INTO pets VALUES ({row})")
        for name in _NAMES:
            quoted = _quote(name, dialect).replace("%", "%%" if engine.dialect.name != "sqlite" else "%")
            connection.exec_driver_sql(f"CREATE TABLE {quoted} ({quoted} INT)")
            connection.exec_driver_sql(f"INSERT INTO {quoted} VALUES (7)")
    engine.dispose()


@pytest.fixture(scope="module", params=("sqlite", *_SERVERS))
def url(request: pytest.FixtureRequest, urls: Callable[[str, pytest.FixtureRequest], str]) -> str:
    return urls(request.param, request)


@pytest.fixture(scope="module")
def guard(url: str) -> Iterator[GuardedConnection]:
    with open_guarded(url, deadline=20) as connection:
        yield connection


def test_a_query_gives_columns_and_rows(guard: GuardedConnection) -> None:
    found = guard.run("SELECT id, name, weight AS kilos FROM pets WHERE name LIKE '%e%' OR id > 1 ORDER BY id;")
    assert found == Rows(("id", "name", "kilos"), [(1, "Rex", 8.5), (2, "Tom's", None), (3, "Ünal", 0.25)], False)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM pets GROUP BY name HAVING COUNT(*) > 0 ORDER BY MAX(id) DESC LIMIT 2",
        "SELECT name FROM pets WHERE id = 3 UNION ALL SELECT name FROM pets WHERE id = 2",
        "WITH late AS (SELECT * FROM pets WHERE id > 1) SELECT name FROM late ORDER BY id DESC -- as a list",
        "SELECT a.name, b.name FROM pets a JOIN pets b ON a.id = b.id WHERE a.id IN (SELECT id FROM pets) /* ; */",
        "SELECT CASE WHEN id = 1 THEN 'a; DROP TABLE pets' ELSE name END FROM pets",
    ],
)
def test_all_kinds_of_queries_pass(guard: GuardedConnection, query: str) -> None:
    assert 2 <= len(guard.run(query).rows) <= 3


def test_parameters_are_bound_in_order(guard: GuardedConnection) -> None:
    sql = f"SELECT id FROM pets WHERE name = {guard.placeholder(1)} OR id = {guard.placeholder(2)} ORDER BY id"
    assert guard.run(sql, ["Tom's", 3]).rows == [(2,), (3,)]
    assert guard.run(sql, ("x' OR '1' = '1", 1)).rows == [(1,)]
    with pytest.raises(GuardError):
        guard.run(sql, [1])


@pytest.mark.parametrize("name", _NAMES)
def test_tables_of_any_name_can_be_read(guard: GuardedConnection, name: str) -> None:
    quoted = _quote(name, guard.dialect)
    assert guard.run(f"SELECT {quoted} FROM {quoted}") == Rows((name,), [(7,)], False)
    assert guard.run(f"SELECT {quoted} FROM {quoted} WHERE {quoted} = {guard.placeholder(1)}", [7]).rows == [(7,)]


_text = st.text(st.characters(codec="utf-8"))
_marks = ["'", '"', "`", "\\", "--", "/*", "*/", ";", "%s", "%", "?", "$1", ":a", "@a", "\n", "😀", "select"]
_special = st.sampled_from(_marks)
_finite = st.floats(allow_nan=False, allow_infinity=False)
_hostile_text = st.lists(_text | _special, max_size=6).map("".join)


@_quick
@given(value=_hostile_text)
def test_text_survives_the_round_trip(guard: GuardedConnection, value: str) -> None:
    _round_trip(guard, value.replace("\0", "") if guard.dialect is Dialect.POSTGRESQL else value)


@_quick
@given(value=st.integers(-(2**63), 2**63 - 1) | _finite | st.binary() | st.none())
def test_other_literals_survive_the_round_trip(guard: GuardedConnection, value: Value) -> None:
    _round_trip(guard, value)


@pytest.mark.parametrize("value", ["x" * 1_000_000, "ü" * 500_000, "'" * 1_000_000, b"\0\xff" * 500_000], ids=len)
def test_a_megabyte_survives_the_round_trip(guard: GuardedConnection, value: Value) -> None:
    _round_trip(guard, value)


def _round_trip(guard: GuardedConnection, value: Value) -> None:
    [(found,)] = guard.run(f"SELECT {guard.placeholder(1)} AS found", [value]).rows
    assert type(found) is type(value)
    assert found == value


@_quick
@given(name=st.lists(_text | _special, min_size=1, max_size=4).map("".join))
def test_quoted_names_survive_the_round_trip(guard: GuardedConnection, name: str) -> None:
    name = name.replace("\0", "")
    if guard.dialect is Dialect.MARIADB:  # names without emoji, and nothing invisible at their ends
        name = "".join(letter for letter in name if letter <= "\uffff")[:60].strip(_INVISIBLE)
    if guard.dialect is Dialect.POSTGRESQL:  # which cuts names after 63 bytes
        name = name.encode()[:60].decode(errors="ignore")
    if guard.dialect is Dialect.SQLITE and name.lower() in ("true", "false"):  # which it renames in a subquery
        name = ""
    if name:
        quoted = _quote(name, guard.dialect)
        found = guard.run(f"SELECT inside.{quoted} FROM (SELECT 7 AS {quoted}) AS inside")
        assert found == Rows((name,), [(7,)], False)


def test_nul_in_a_statement(guard: GuardedConnection) -> None:
    with pytest.raises(RefusedError, match="NUL character"):
        guard.run("SELECT 'a\0b'")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([2**63], "parameter 1: 9223372036854775808 does not fit in 64 bits"),
        ([1, float("nan")], "parameter 2: nan is not a number that SQL can write"),
        (["a\ud800"], "parameter 1: half a surrogate pair at character 1"),
        ([object()], "parameter 1: a object cannot be bound"),
        ("ab", "parameters: expected a list or tuple of literals, got str"),
    ],
)
def test_parameters_that_cannot_be_bound(guard: GuardedConnection, parameters: list[Value], message: str) -> None:
    with pytest.raises(GuardError, match=message):
        guard.run(f"SELECT {guard.placeholder(1)}, {guard.placeholder(2)}", parameters)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("-- nothing", "says nothing"),
        ("SELECT 1; SELECT 2", "expected one statement, got 2"),
        ("UPDATE pets SET name = ''", "UPDATE is not a query"),
        ("SELECT '" + "x" * 100_001 + "'", "bind long literals"),
    ],
)
def test_what_is_not_one_query_is_refused_with_a_reason(guard: GuardedConnection, sql: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        guard.run(sql)


def test_the_rows_are_capped(url: str) -> None:
    with open_guarded(url, deadline=20, max_rows=2) as guard:
        assert guard.run("SELECT id FROM pets ORDER BY id") == Rows(("id",), [(1,), (2,)], truncated=True)
        assert guard.run("SELECT id FROM pets WHERE id < 3 ORDER BY id").truncated is False
        assert guard.run("SELECT id FROM pets WHERE id > 5") == Rows(("id",), [], truncated=False)
        large = "SELECT a.id FROM " + ", ".join(f"pets {letter}" for letter in "abcdefghijkl") + " LIMIT 500000"
        assert len(guard.run(large).rows) == 2, "without reading it all"
        assert guard.run("SELECT 1").rows == [(1,)]


def test_the_bytes_are_capped(url: str) -> None:
    with open_guarded(url, deadline=20, max_bytes=1000) as guard:
        sql = f"SELECT {guard.placeholder(1)} FROM pets"
        assert len(guard.run(sql, ["x" * 300]).rows) == 3
        with pytest.raises(TooMuchDataError, match="more than 1000 bytes after 3 rows; choose fewer columns"):
            guard.run(sql, ["x" * 400])
        assert len(guard.run(sql, ["x"]).rows) == 3


def test_the_deadline_says_how_long_and_what_to_do(url: str) -> None:
    with open_guarded(url, deadline=1.0) as guard:
        cross = ", ".join(f"pets {letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
        with pytest.raises(DeadlineError, match=r"stopped after 1 s: .* add a condition or a LIMIT"):
            guard.run(f"SELECT COUNT(*) FROM {cross}")
        assert guard.run("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    ("sql", "is_refused"),
    [("SELECT nowhere FROM pets", False), ("SELECT * FROM nowhere", False), ("SELEC nowhere", True)],
)
def test_a_connection_serves_again_after_errors(sql: str, is_refused: bool, guard: GuardedConnection) -> None:
    with pytest.raises(GuardError, match="nowhere" if not is_refused else None) as caught:
        guard.run(sql)
    assert isinstance(caught.value, RefusedError) == is_refused
    assert guard.run("SELECT COUNT(*) FROM pets").rows == [(3,)]


def test_a_connection_belongs_to_its_thread(guard: GuardedConnection) -> None:
    caught = []

    def work() -> None:
        try:
            guard.run("SELECT 1")
        except GuardError as error:
            caught.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught == ["a guarded connection belongs to the thread that opened it; open one in each thread"]


def test_a_closed_connection_says_so(url: str) -> None:
    guard = open_guarded(url)
    guard.close()
    guard.close()
    with pytest.raises(GuardError, match="closed; open another"):
        guard.run("SELECT 1")


@pytest.mark.parametrize(
    "limits", [{"deadline": 0}, {"deadline": float("inf")}, {"max_rows": 0}, {"max_bytes": 0}, {"max_memory": 0}]
)
def test_limits_that_cannot_work(tmp_path: Path, limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        open_guarded(tmp_path / "none.db", **limits)


def test_an_unknown_kind_of_database(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match="oracle"):
        open_guarded("oracle://scott@localhost/x")
    with pytest.raises(GuardError, match="does not exist"):
        open_guarded(tmp_path / "none.db")


@pytest.mark.parametrize("kind", _SERVERS)
def test_a_server_that_is_not_there(kind: str) -> None:
    with pytest.raises(GuardError, match="cannot be opened") as caught:
        open_guarded(f"{kind}://someone:secret@127.0.0.1:9/shop?connect_timeout=3")
    assert "secret" not in str(caught.value)


@pytest.fixture(params=_SERVERS)
def server_url(request: pytest.FixtureRequest) -> str:
    """Where an admin finds an empty database of one test."""
    url: str = request.getfixturevalue(f"fresh_{request.param}")
    return url


def test_an_admin_is_told_what_only_a_role_can_stop(server_url: str) -> None:
    with open_guarded(server_url) as guard:
        assert guard.role_hint is not None
        assert "SELECT" in guard.role_hint


def test_a_restricted_role_with_a_name_and_password_as_urls_write_them(server_url: str) -> None:
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    name = '"odd role"' if engine.name == "postgresql" else "'odd role'@localhost"
    create, drop, user = (
        ([f"CREATE ROLE {name} LOGIN"], f"DROP ROLE {name}", "SELECT current_user")
        if engine.name == "postgresql"
        else (
            [f"CREATE USER {name} IDENTIFIED BY 'p w@/%%+'", f"GRANT SELECT ON {engine.url.database}.* TO {name}"],
            f"DROP USER {name}",
            "SELECT user()",
        )
    )
    scheme, _, place = server_url.partition("//")
    with engine.connect() as connection:
        for statement in create:
            connection.exec_driver_sql(statement)
        try:
            url = f"{scheme}//odd%20role:p%20w%40%2F%25%2B@{place.partition('@')[2]}"
            with open_guarded(url, filter_text=False) as guard:
                assert str(guard.run(user).rows[0][0]).startswith("odd role")
                assert guard.role_hint is None
        finally:
            connection.exec_driver_sql(drop)
    engine.dispose()


def test_a_lock_of_another_session_is_waited_for_until_the_deadline(server_url: str) -> None:
    engine = create_engine(server_url)
    is_postgresql = engine.name == "postgresql"
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE pets (id INT)"))
    with open_guarded(server_url, deadline=1.0) as guard, engine.connect() as connection:
        connection.execute(text("LOCK TABLE pets" if is_postgresql else "LOCK TABLES pets WRITE"))
        with pytest.raises(DeadlineError, match="another session's lock" if is_postgresql else "after 1 s"):
            guard.run("SELECT * FROM pets")
        connection.invalidate()
    engine.dispose()


def test_nothing_is_held_after_a_statement(server_url: str) -> None:
    """The lock does not wait: it raises if anything is still held."""
    engine = create_engine(server_url)
    lock, read = (
        ("LOCK TABLE pets NOWAIT", "SELECT * FROM pets")
        if engine.name == "postgresql"
        else ("ALTER TABLE pets WAIT 0 ADD COLUMN age INT", "SELECT * FROM pets LOCK IN SHARE MODE")
    )
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE pets (id INT)"))
    with open_guarded(server_url, filter_text=False) as guard:
        guard.run(read)
        with engine.begin() as connection:
            connection.execute(text(lock))
    engine.dispose()


@pytest.mark.parametrize(
    ("kind", "session", "sleep"),
    [("postgresql", "pg_backend_pid()", "pg_sleep(60)"), ("mariadb", "CONNECTION_ID()", "SLEEP(60)")],
)
def test_the_server_keeps_the_deadline_itself(
    kind: str, session: str, sleep: str, request: pytest.FixtureRequest
) -> None:
    """Otherwise the client would have to hang up, and the statement would go on."""
    with open_guarded(request.getfixturevalue(f"{kind}_url"), deadline=1.0, filter_text=False) as guard:
        before = guard.run(f"SELECT {session}").rows
        with pytest.raises(DeadlineError):
            guard.run(f"SELECT {sleep}")
        assert guard.run(f"SELECT {session}").rows == before


def stop(pid: int) -> None:
    """Returns when all threads have stopped: one that had not noticed yet would answer."""
    os.kill(pid, signal.SIGSTOP)
    for task in Path(f"/proc/{pid}/task").iterdir():
        while (task / "stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)


@pytest.mark.parametrize("kind", _SERVERS)
def test_a_server_that_hangs_is_left(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(kind)
    with open_guarded(server.url, deadline=1.0) as guard:
        pid = server.pid
        if kind == "postgresql":
            [(pid,)] = guard.run("SELECT pg_backend_pid()").rows
        stop(pid)
        try:
            with pytest.raises(DeadlineError, match="after 1 s"):
                guard.run("SELECT 1")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert guard.run("SELECT 1").rows == [(1,)]
