"""The servers that other tests use: they go away whatever happens, and their absence is never overlooked in CI."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.sql import servers
from tests.sql.conftest import started
from tests.sql.servers import Server, mariadb_server, postgresql_server


@pytest.mark.parametrize("start", [postgresql_server, mariadb_server])
def test_a_server_is_stopped_and_removed_after_a_failure(
    start: Callable[[], AbstractContextManager[Server]], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("postgresql_url" if start is postgresql_server else "mariadb_url")  # skips where absent
    seen: list[Server] = []

    def fail() -> None:
        with start() as server:
            os.kill(server.pid, 0)
            seen.append(server)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not seen[0].folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0].pid, 0)


@pytest.mark.parametrize(("ci", "outcome"), [("false", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_server_skips_and_in_ci_fails(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(servers.shutil, "which", lambda *_, **__: None)
    with pytest.raises(outcome, match="initdb is not installed; apt-get install postgresql mariadb-server"):
        next(started(postgresql_server()))
