"""SQLite files that visitors upload.

In: a file that the page received, and its visitor. Out: an `Upload` under a random name in a private folder. A visitor
chooses no path: the file's own name is only a label. A file is removed when its visitor leaves, after an hour without
use, and with the server. Folders that a killed server left are removed by the next one.
"""

import fcntl
import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
import time
import unicodedata
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtfixup.errors import GuardError, SchemaError, UnknownDatabaseError, UploadError, WorkerStartError
from dtfixup.processes import Lost, run_supervised
from dtfixup.sql.ask.opened import MOST_COLUMNS, OpenedDatabase, Reading
from dtfixup.sql.database.content import ContentIndex, open_content
from dtfixup.sql.database.reflection import inspect_database
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.guarded import Limits, open_guarded
from dtfixup.sql.linking.inputs import describe_database
from dtfixup.web.settings import MEBIBYTE, ServerSettings
from dtfixup.web.store.catalogue import Entry

READ_SECONDS = 20.0
_PREFIX = "dtfixup-serve-"
_LOCK = "lock"
_LONGEST_LABEL = 60
_MAGIC = b"SQLite format 3\0"
_UNTAKEN_SECONDS = 300.0  # the page takes a file as soon as it has sent it


@dataclass(frozen=True)
class FileContent:
    """What a file holds."""

    schema: Schema
    left_out: tuple[str, ...]
    index: ContentIndex


class UploadedDatabase(OpenedDatabase):
    """A file of a visitor, read by a process of its own.

    A view can make SQLite count for ever within one step, so that process is ended at the deadline. What the file holds
    is kept in memory and not in the cache folder: it goes when its visitor goes.
    """

    def _read(self, stamp: tuple[Any, ...]) -> Reading:
        assert self.location.path is not None
        content = read_supervised(self.location.path)
        translator = Translator(content.schema, self.dialect, content=content.index, declared={})
        return Reading(describe_database(content.schema, content.index), translator, content.left_out, stamp)


def read_supervised(path: Path, seconds: float = READ_SECONDS) -> FileContent:
    """Schema and content of a SQLite file, or an error that says why it cannot be used."""
    try:
        [(_, outcome)] = run_supervised(_read_file, [path.absolute()], workers=1, deadline=seconds)
    except WorkerStartError as error:
        raise UploadError(f"the process that reads the file did not start: {error}") from None
    if isinstance(outcome, Lost):
        if outcome.is_late:
            raise UploadError(f"the file could not be read within {seconds:g} s: leave out views that compute much")
        raise UploadError(f"the file ended the process that read it ({outcome.reason}): it is damaged or made to harm")
    return outcome


def _read_file(path: Path) -> FileContent:
    with closing(sqlite3.connect(":memory:")) as connection:  # of the whole process
        connection.execute(f"PRAGMA hard_heap_limit={Limits.max_memory}")
    with open_guarded(path) as guarded:
        guarded.run("SELECT count(*) FROM sqlite_master")
    content = inspect_database(path)
    items = len(content.schema.columns) + len(content.schema.tables)
    if items > MOST_COLUMNS:
        raise SchemaError(f"the file has {items:,} columns and tables, and at most {MOST_COLUMNS:,} can be read")
    return FileContent(content.schema, content.left_out, open_content(content.schema, path, use_cache=False))


@dataclass
class Upload:
    """A stored file. Requests name it by the name of its entry, which only its visitor learns."""

    entry: Entry
    visitor: str
    folder: Path
    used: float = field(default_factory=time.monotonic)


class UploadStore:
    """The files of all visitors, in a folder that only this user can read."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock_file = (self.folder / _LOCK).open("w")
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        self.incoming = self.folder / "incoming"
        """Where the page's own upload route puts what it receives."""
        self.incoming.mkdir(mode=0o700)
        self._held: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def configure_gradio(self) -> None:
        """Have Gradio store uploads here and send no analytics; it reads these settings at import and later."""
        os.environ["GRADIO_TEMP_DIR"] = str(self.incoming)
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

    def take(self, received: Path, file_name: str, visitor: str) -> Upload:
        """Move a received file into the store, in place of the visitor's last one, and read it.

        If that fails, nothing of the file stays, and the last one does.
        """
        folder = self.folder / secrets.token_hex(16)
        try:
            source = self._checked(received)
            self._make_room(visitor)
            folder.mkdir(mode=0o700)
            target = folder / "database.sqlite"
            source.replace(target)
            database = UploadedDatabase(target)
            _read_or_refuse(database, label_of(file_name))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._discard(received)
        entry = Entry(f"upload-{folder.name}", label_of(file_name), database)
        self.forget(visitor)
        with self._lock:
            upload = self._held[entry.name] = Upload(entry, visitor, folder)
        return upload

    def find(self, name: str, visitor: str) -> Upload:
        """A visitor's own file."""
        with self._lock:
            upload = self._held.get(name)
            if upload is None or upload.visitor != visitor:
                raise UnknownDatabaseError("this upload is no longer here: upload the file again")
            upload.used = time.monotonic()
            return upload

    def forget(self, visitor: str) -> None:
        """Remove all files of a visitor."""
        self._remove([upload for upload in self._all() if upload.visitor == visitor])

    def purge(self) -> None:
        """Remove files without use for long, and received ones that were never taken."""
        limit = self._settings.upload_idle
        self._remove([upload for upload in self._all() if time.monotonic() - upload.used > limit])
        for path in self.incoming.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > min(limit, _UNTAKEN_SECONDS):
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    else:  # what a request left that ended in the middle
                        path.unlink()

    def set_apart(self, received: Sequence[Path]) -> list[Path]:
        """Move the files of one request to folders of its own: Gradio shares folders between equal files."""
        own = {file.parent: self.incoming / secrets.token_hex(16) for file in received}
        for shared, folder in own.items():
            shared.rename(folder)
        return [own[file.parent] / file.name for file in received]

    def has_room(self) -> bool:
        """Whether one more file may be received."""
        most = self._settings.uploads * self._settings.upload_bytes
        held = 0
        for path in self.incoming.rglob("*"):
            with suppress(FileNotFoundError):
                held += path.stat().st_size if path.is_file() else 0
        return held < most

    def close(self) -> None:
        """Remove everything."""
        self._remove(self._all())
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock_file.close()

    def _all(self) -> list[Upload]:
        with self._lock:
            return list(self._held.values())

    def _remove(self, uploads: list[Upload]) -> None:
        for upload in uploads:
            with self._lock:
                self._held.pop(upload.entry.name, None)
            shutil.rmtree(upload.folder, ignore_errors=True)

    def received(self, named: str | Path) -> Path:
        """The file that a request names; refused unless the page's upload route wrote it."""
        path = Path(named).resolve()
        if not path.is_relative_to(self.incoming.resolve()) or not path.is_file():
            raise UploadError("the request names no file that was uploaded")
        return path

    def _checked(self, named: Path) -> Path:
        path = self.received(named)
        size, most = path.stat().st_size, self._settings.upload_bytes
        if size > most:
            raise UploadError(f"the file has {size / MEBIBYTE:.1f} MiB, and at most {most / MEBIBYTE:g} are taken")
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise UploadError("the file is not a SQLite database: it does not begin as one")
        return path

    def _make_room(self, visitor: str) -> None:
        """Refuse the file if other visitors hold as many as may be; this visitor's last one is replaced."""
        self.purge()
        if len([upload for upload in self._all() if upload.visitor != visitor]) >= self._settings.uploads:
            raise UploadError("the server holds as many uploaded files as it may: try again later")

    def _discard(self, received: Path) -> None:
        """Remove what was received, with the folder that the upload route made for it."""
        parent = received.parent.resolve()
        if parent != self.incoming.resolve() and parent.is_relative_to(self.incoming.resolve()):
            shutil.rmtree(parent, ignore_errors=True)


def _read_or_refuse(database: UploadedDatabase, label: str) -> None:
    try:
        database.read()
    except (GuardError, SchemaError) as error:
        raise UploadError(str(error).replace(str(database.location), label)) from None


def label_of(file_name: str) -> str:
    r"""A file's label on the page: its name without folders and invisible characters, not too long.

    >>> label_of("../../etc/pass\nwd"), label_of("C:\\data\\shop.db"), label_of("")
    ('passwd', 'shop.db', 'database')
    """
    last = file_name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(
        character for character in last if unicodedata.category(character)[0] not in "CZ" or character == " "
    )
    return seen.strip()[:_LONGEST_LABEL] or "database"


def remove_abandoned() -> None:
    """Remove the folders of killed servers: these are no longer locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where its server lives
                shutil.rmtree(folder, ignore_errors=True)
