"""What is particular to MariaDB: options of a URL, and statements that the server does not stop itself."""

import pytest

from dtfixup.errors import DeadlineError, GuardError
from dtfixup.sql.execution.guarded import open_guarded
from dtfixup.sql.execution.mariadb import MariadbGuard


def test_an_unknown_option(mariadb_url: str) -> None:
    with pytest.raises(GuardError, match="unknown options local_infile; known are"):
        open_guarded(f"{mariadb_url}&local_infile=1")


def test_queries_in_parentheses_pass(mariadb_url: str) -> None:
    with open_guarded(mariadb_url) as guard:
        assert guard.run("(SELECT 1) UNION ALL (SELECT 2)").rows == [(1,), (2,)]


def test_text_may_hold_nul(mariadb_url: str) -> None:
    with open_guarded(mariadb_url) as guard:
        assert guard.run("SELECT ?", ["a\0b"]).rows == [("a\0b",)]


def test_a_statement_that_the_server_does_not_stop_is_killed(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MariadbGuard, "_settings", lambda *_, **__: [])
    with open_guarded(mariadb_url, deadline=1.0, filter_text=False) as guard:
        [(session,)] = guard.run("SELECT CONNECTION_ID()").rows
        with pytest.raises(DeadlineError):
            guard.run("SELECT SLEEP(60)")
        assert guard.run("SELECT 1 FROM information_schema.processlist WHERE id = ?", [session]).rows == []
