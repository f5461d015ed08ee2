"""Queries run for a person: read-only, and stopped in time whatever they say."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.errors import DeadlineError, GuardError, RefusedError
from dtfixup.sql.execution.run import run_query


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    path = tmp_path / "pets.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE pets (name TEXT, age INTEGER); INSERT INTO pets VALUES ('Rex', 3)")
    return path


def test_rows_come_back(pets: Path) -> None:
    assert run_query(f"sqlite:///{pets}", "SELECT name, age FROM pets").rows == [("Rex", 3)]


def test_errors_of_the_guard_come_back(pets: Path) -> None:
    with pytest.raises(RefusedError, match="DELETE is not a query"):
        run_query(pets, "DELETE FROM pets")
    pets.unlink()
    with pytest.raises(GuardError, match="does not exist"):
        run_query(pets, "SELECT name FROM pets")


def test_a_url_that_cannot_be_used_is_the_guards_error_too() -> None:
    with pytest.raises(GuardError, match="SQLite database in memory is empty"):
        run_query("sqlite://", "SELECT 1")


def test_a_script_without_a_main_guard_is_told(pets: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from dtfixup.errors import GuardError\n"
        "from dtfixup.sql.execution.run import run_query\n"
        "try:\n"
        f"    run_query({str(pets)!r}, 'SELECT name FROM pets')\n"
        "except GuardError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'start the work below `if __name__ == "__main__":`' in done.stdout


def test_one_long_call_is_stopped(pets: Path) -> None:
    """SQLite looks at the clock between steps, and this is one step of several seconds: the process is ended."""
    with pytest.raises(DeadlineError, match=r"stopped after 0\.2 s: the query computes too much"):
        run_query(pets, "SELECT instr(hex(zeroblob(590000)), hex(zeroblob(290000)) || '1') FROM pets", deadline=0.2)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_is_asked_directly(kind: str, request: pytest.FixtureRequest) -> None:
    found = run_query(request.getfixturevalue(f"{kind}_url"), "SELECT 1 UNION SELECT 2", max_rows=1)
    assert (len(found.rows), found.truncated) == (1, True)
