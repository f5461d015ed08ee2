"""Files of visitors: what is taken, what is refused, and that nothing of them stays."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfixup.errors import UnknownDatabaseError, UploadError
from dtfixup.files import cache_folder
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.web.settings import MEBIBYTE, ServerSettings
from dtfixup.web.store import uploads
from dtfixup.web.store.uploads import UploadStore, read_supervised, remove_abandoned
from tests.web.shops import SCRIPT, make_shop

ENDLESS = (
    "CREATE VIEW v AS WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c WHERE n < 0;"
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UploadStore]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened = UploadStore(ServerSettings(upload_mib=200_000 / MEBIBYTE, uploads=2, upload_idle=60.0))
    yield opened
    opened.close()
    assert not opened.folder.exists()


def received(store: UploadStore, name: str = "pets.db", script: str = SCRIPT) -> Path:
    """A file as the page's upload route leaves it: in a folder of its own."""
    folder = store.incoming / os.urandom(8).hex()
    folder.mkdir()
    return make_shop(folder / name, script)


def files_of(store: UploadStore) -> list[Path]:
    return [path for path in store.folder.rglob("*") if path.is_file() and path.name != "lock"]


def test_a_database_is_taken_under_another_name(store: UploadStore) -> None:
    source = received(store, "my pets.db")
    upload = store.take(source, source.name, "visitor")
    assert upload.entry.label == "my pets.db"
    assert "pets" not in str(upload.entry.database.location)
    assert [table.name for table in upload.entry.database.read().schema.tables] == ["owners", "pets"]
    assert not source.exists()
    assert store.folder.stat().st_mode & 0o077 == 0


def test_what_is_read_is_what_any_database_gives_and_is_not_cached(
    store: UploadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path / "cache"))
    script = SCRIPT.replace("'Rex'", "'Quxwarble'")
    plain = OpenedDatabase(make_shop(tmp_path / "database.sqlite", script)).read()
    upload = store.take(source := received(store, script=script), source.name, "visitor")
    assert upload.entry.database.read().schema == plain.schema
    assert upload.entry.database.read().inputs.content.columns == plain.inputs.content.columns
    other = SCRIPT.replace("'Rex'", "'Zibblefrost'")
    store.take(source := received(store, script=other), source.name, "visitor")
    cached = [file.read_text() for file in (cache_folder() / "content").glob("*.json")]
    assert any("Quxwarble" in text for text in cached)  # of the plain one
    assert not any("Zibblefrost" in text for text in cached)


def test_only_the_visitor_finds_it(store: UploadStore) -> None:
    upload = store.take(source := received(store), source.name, "visitor")
    assert store.find(upload.entry.name, "visitor") is upload
    with pytest.raises(UnknownDatabaseError):
        store.find(upload.entry.name, "somebody else")


def test_it_goes_with_the_visitor(store: UploadStore) -> None:
    upload = store.take(source := received(store), source.name, "visitor")
    other = store.take(source := received(store), source.name, "other")
    store.forget("visitor")
    assert not upload.folder.exists()
    assert other.folder.exists()
    with pytest.raises(UnknownDatabaseError):
        store.find(upload.entry.name, "visitor")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin as one"),
        (b"PK\x03\x04 a spreadsheet", "does not begin as one"),
        (b"SQLite format 3\0" + b"\xff" * 4000, "not a database|damaged|malformed"),
        (b"SQLite format 3\0" + b"\0" * 300_000, "0.3 MiB"),
    ],
)
def test_other_files_are_refused_and_removed(store: UploadStore, content: bytes, reason: str) -> None:
    source = received(store)
    source.write_bytes(content)
    with pytest.raises(UploadError, match=reason) as caught:
        store.take(source, "pets.db", "visitor")
    assert str(store.folder) not in str(caught.value)
    assert files_of(store) == []


def test_a_damaged_database_is_refused(store: UploadStore) -> None:
    source = received(store)
    content = bytearray(source.read_bytes())
    content[100:2000] = os.urandom(1900)
    source.write_bytes(content)
    with pytest.raises(UploadError):
        store.take(source, "pets.db", "visitor")
    assert files_of(store) == []


def test_an_empty_database_is_refused(store: UploadStore) -> None:
    source = received(store, script="CREATE TABLE t (a); DROP TABLE t;")
    with pytest.raises(UploadError, match=r"pets\.db has no tables"):
        store.take(source, "pets.db", "visitor")


def test_no_request_chooses_a_path(store: UploadStore, tmp_path: Path) -> None:
    outside = make_shop(tmp_path / "private.db")
    link = store.incoming / "link"
    link.mkdir()
    (link / "pets.db").symlink_to(outside)
    for path in (outside, link / "pets.db", store.incoming / ".." / ".." / "private.db", store.incoming):
        with pytest.raises(UploadError, match="names no file that was uploaded"):
            store.take(path, "pets.db", "visitor")
    assert outside.exists()
    assert files_of(store) == []


def test_a_view_without_end_is_stopped(tmp_path: Path) -> None:
    path = make_shop(tmp_path / "endless.db", SCRIPT + ENDLESS)
    with pytest.raises(UploadError, match="could not be read within 2 s"):
        read_supervised(path, 2.0)


def test_a_file_that_ends_its_reader_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_read_file", _die)
    with pytest.raises(UploadError, match="ended the process that read it"):
        read_supervised(make_shop(tmp_path / "pets.db"), 20.0)


def _die(_: Path) -> None:
    os._exit(9)


def test_a_visitor_holds_one_file_and_all_hold_so_many(store: UploadStore) -> None:
    first = store.take(source := received(store), source.name, "a")
    second = store.take(source := received(store), source.name, "a")
    assert not first.folder.exists()
    store.take(source := received(store), source.name, "b")
    with pytest.raises(UploadError, match="try again later"):
        store.take(source := received(store), source.name, "c")
    assert second.folder.exists()


def test_what_nobody_uses_goes(store: UploadStore) -> None:
    upload = store.take(source := received(store), source.name, "visitor")
    never_taken = received(store)
    store.purge()
    assert upload.folder.exists()
    assert never_taken.exists()
    upload.used -= 61
    broken_off = store.incoming / "tmp1"
    broken_off.write_bytes(b"half")
    for path in (never_taken.parent, broken_off):
        os.utime(path, (0, 0))
    store.purge()
    assert not upload.folder.exists()
    assert not never_taken.exists()
    assert not broken_off.exists()


def test_what_was_received_takes_up_room(store: UploadStore) -> None:
    assert store.has_room()
    folder = store.incoming / "x"
    folder.mkdir()
    (folder / "a").write_bytes(b"\0" * 400_000)
    assert not store.has_room()


def test_the_folder_of_a_killed_server_is_removed(store: UploadStore, tmp_path: Path) -> None:
    dead, other = tmp_path / "dtfixup-serve-dead", tmp_path / "dtfixup-serve-of-something-else"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "database.sqlite").touch()
    other.mkdir()  # without a lock it is not ours
    remove_abandoned()
    assert not dead.exists()
    assert other.exists()
    assert store.folder.exists()
    with (store.folder / "lock").open("r+") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
