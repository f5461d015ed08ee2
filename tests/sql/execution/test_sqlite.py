"""What is particular to SQLite: files beside the database, write-ahead logs, memory, odd content."""

import errno
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.errors import GuardError
from dtfixup.sql.execution.guarded import GuardedConnection, RefusedError, TooMuchDataError, open_guarded


def _make(path: Path, mode: str = "delete") -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE pets (name)")
        connection.execute("INSERT INTO pets VALUES ('Rex')")
    return path


def _names(guard: GuardedConnection) -> list[str]:
    return [name for (name,) in guard.run("SELECT name FROM pets").rows]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["a b.db", "100%25.db", "what?mode=rwc.db", "a#b&c.db", "ünï.db", "'quote\".db"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_of_any_name_is_read_and_nothing_appears_beside_it(tmp_path: Path, name: str, mode: str) -> None:
    path = _make(tmp_path / name, mode)
    before = _files(tmp_path)
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex"]
        assert _files(tmp_path) == before
    assert _files(tmp_path) == before


def test_a_link_is_followed_to_where_the_log_would_be(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(_make(folder / "pets.db", "wal"))
    with closing(sqlite3.connect(folder / "pets.db")) as writer:
        writer.execute("INSERT INTO pets VALUES ('Tom')")
        writer.commit()
        with open_guarded(link) as guard:
            assert _names(guard) == ["Rex", "Tom"]


def test_what_others_write_is_seen(tmp_path: Path) -> None:
    for mode in ("delete", "wal"):
        path = _make(tmp_path / f"{mode}.db", mode)
        with closing(sqlite3.connect(path)) as writer:
            writer.execute("SELECT * FROM pets").fetchall()  # from here on the log of a WAL database exists
            with open_guarded(path) as guard:
                assert _names(guard) == ["Rex"]
                writer.execute("INSERT INTO pets VALUES ('Tom')")
                writer.commit()
                files = set(_files(tmp_path))
                assert _names(guard) == ["Rex", "Tom"]
            assert set(_files(tmp_path)) == files


def test_a_quiet_database_that_changes_while_open_is_an_error(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db", "wal")
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex"]
        with closing(sqlite3.connect(path)) as writer:
            writer.execute("INSERT INTO pets VALUES ('Tom')")
            writer.commit()
        with pytest.raises(GuardError, match="changed by another program while open; open it again"):
            _names(guard)
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex", "Tom"]


def _killed(path: Path, script: str) -> None:
    """Run a writer that is killed in the middle of its work."""
    code = (
        f"import sqlite3, time\nc = sqlite3.connect({str(path)!r})\n{script}\nprint('up', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)


def test_the_log_of_a_writer_that_was_killed(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db", "wal")
    _killed(path, "c.execute(\"INSERT INTO pets VALUES ('Tom')\")\nc.commit()")
    before = _files(tmp_path)
    assert set(before) == {"pets.db", "pets.db-wal", "pets.db-shm"}
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex", "Tom"]
    assert _files(tmp_path) == before
    (tmp_path / "pets.db-shm").unlink()
    with pytest.raises(GuardError, match=r"pets\.db-wal holds changes that were never merged.*open pets\.db once"):
        open_guarded(path)
    assert set(_files(tmp_path)) == {"pets.db", "pets.db-wal"}


def test_an_index_of_a_log_that_is_gone(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db", "wal")
    (tmp_path / "pets.db-shm").write_bytes(bytes(32768))
    before = _files(tmp_path)
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex"]
    assert _files(tmp_path) == before


def test_a_change_that_was_never_finished(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db")
    _killed(
        path, "c.execute('PRAGMA cache_size = 1')\nc.executemany('INSERT INTO pets VALUES (?)', [('x' * 999,)] * 999)"
    )
    before = _files(tmp_path)
    with pytest.raises(GuardError, match="left half changed by a program that stopped"), open_guarded(path) as guard:
        _names(guard)
    assert _files(tmp_path) == before


def test_a_lock_is_waited_for_and_told(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db")
    with open_guarded(path, deadline=1.0) as guard, closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GuardError, match="locked by another program; try again"):
            _names(guard)
        writer.execute("ROLLBACK")
        assert _names(guard) == ["Rex"]


@pytest.mark.parametrize("content", [b"name,age\nRex,3\n", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pets.db"
    path.write_bytes(content)
    with pytest.raises(GuardError, match="is not a SQLite database"), open_guarded(path) as guard:
        _names(guard)


def test_a_folder_and_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match="is not a file"):
        open_guarded(tmp_path)
    (tmp_path / "empty.db").touch()
    with open_guarded(tmp_path / "empty.db") as guard, pytest.raises(GuardError, match="no such table: pets"):
        _names(guard)


def test_a_file_without_the_right_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _make(tmp_path / "pets.db")

    def refuse(*_: object, **__: object) -> None:  # as root the tests may read everything
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(GuardError, match="cannot be read: Permission denied"):
        open_guarded(path)


def test_text_may_hold_nul(tmp_path: Path) -> None:
    with open_guarded(_make(tmp_path / "pets.db")) as guard:
        assert guard.run("SELECT ?", ["a\0b"]).rows == [("a\0b",)]


def test_text_that_is_not_utf8_is_shown_with_marks(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO pets VALUES (CAST(X'41FF42' AS TEXT))")
    with open_guarded(path) as guard:
        assert _names(guard) == ["Rex", "A\ufffdB"]
        with pytest.raises(GuardError, match="text that is not UTF-8"):
            guard.run("SELECT trim(name, 'A') FROM pets")


def test_virtual_tables_can_be_read(tmp_path: Path) -> None:
    path = _make(tmp_path / "pets.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        for module in ("fts5", "fts4"):
            connection.execute(f"CREATE VIRTUAL TABLE {module}_notes USING {module} (body)")
            connection.execute(f"INSERT INTO {module}_notes VALUES ('a good dog'), ('a cat')")
    with open_guarded(path, filter_text=False) as guard:
        for module in ("fts5", "fts4"):
            query = f"SELECT body FROM {module}_notes WHERE {module}_notes MATCH ?"
            assert guard.run(query, ["dog"]).rows == [("a good dog",)]
        assert guard.run("SELECT value FROM json_each('[1, 2]')").rows == [(1,), (2,)]


def test_trim_is_sqlites_own_where_it_is_short(tmp_path: Path) -> None:
    cases = ["trim('xxRexyx', 'xy')", "ltrim('xxRex', 'x')", "rtrim(1.50, '5')", "trim(NULL, 'x')", "trim('a', '')"]
    cases += ["trim(X'6162', 'a')", "trim('Rex', NULL)", "typeof(trim(12, '1'))"]
    query = f"SELECT {', '.join(cases)}"
    with closing(sqlite3.connect(":memory:")) as plain, open_guarded(_make(tmp_path / "pets.db")) as guard:
        assert guard.run(query).rows == plain.execute(query).fetchall()
        with pytest.raises(RefusedError, match="trim takes at most 100 characters to remove"):
            guard.run("SELECT trim('Rex', ?)", ["x" * 101])


def test_the_refused_action_is_named(tmp_path: Path) -> None:
    with open_guarded(_make(tmp_path / "pets.db"), filter_text=False) as guard:
        for sql, name in [
            ("DELETE FROM pets", "DELETE pets"),
            ("PRAGMA user_version", "PRAGMA user_version"),
            (f"ATTACH '{tmp_path}/x' AS x", "ATTACH"),
            ("SELECT load_extension('x')", "FUNCTION load_extension"),
            ("CREATE TEMP TABLE t (a)", "INSERT sqlite_temp_master"),
        ]:
            with pytest.raises(RefusedError, match=f"refused: {name}"):
                guard.run(sql)


def test_a_value_has_a_limit_of_its_own(tmp_path: Path) -> None:
    with open_guarded(_make(tmp_path / "pets.db"), max_value=1000) as guard:
        assert guard.run("SELECT length(zeroblob(1000))").rows == [(1000,)]
        with pytest.raises(TooMuchDataError, match="longer than 1000 bytes"):
            guard.run("SELECT zeroblob(1001)")


def test_memory_is_bounded(tmp_path: Path) -> None:
    """In a process of its own, since the limit is the process's."""
    path = _make(tmp_path / "pets.db")
    script = (
        "import sys; from dtfixup.sql.execution.guarded import open_guarded, TooMuchDataError\n"
        "with open_guarded(sys.argv[1], deadline=60, max_memory=20_000_000) as guard:\n"
        "    try:\n"
        "        guard.run('WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r) SELECT n FROM r ORDER BY n')\n"
        "    except TooMuchDataError as error:\n"
        "        print(error, guard.run('SELECT name FROM pets').rows)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert "of max_memory; sort or join fewer rows [('Rex',)]" in done.stdout
