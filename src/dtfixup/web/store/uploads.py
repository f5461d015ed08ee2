"""Files that visitors bring along.

In: a file that the page received, and whose it is. Out: an `Upload` under a random name in a private folder. A visitor
chooses no path: of the name a file had only a label is kept. Files go when their visitor goes, when nobody has used
them for an hour, and with the server; folders that a killed server left are removed by the next one.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dtfixup.errors import GuardError, SchemaError, UnknownDatabaseError, UploadError
from dtfixup.web.settings import MEBIBYTE, ServerSettings
from dtfixup.web.store.supervised import UploadedDatabase

_PREFIX = "dtfixup-serve-"
_LOCK = "lock"
_LONGEST_LABEL = 60
_MAGIC = b"SQLite format 3\0"
_UNTAKEN_SECONDS = 300.0  # a page takes what it sent at once


@dataclass
class Upload:
    """A stored file; `name` is what requests call it, and nobody but its visitor is told."""

    name: str
    label: str
    visitor: str
    folder: Path
    database: UploadedDatabase
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
        """Have Gradio put uploads here, and tell nobody anything; it looks when it is imported, and later again."""
        os.environ["GRADIO_TEMP_DIR"] = str(self.incoming)
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

    def take(self, received: Path, file_name: str, visitor: str) -> Upload:
        """Move a received file into the store and read it, in place of the visitor's last one; whatever is wrong with
        it, nothing of it stays, and the last one does."""
        folder = self.folder / secrets.token_hex(16)
        try:
            source = self._checked(received)
            self._make_room(visitor)
            folder.mkdir(mode=0o700)
            target = folder / "database.sqlite"
            source.replace(target)
            database = UploadedDatabase(target)
            self._read(database, file_name)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._discard(received)
        upload = Upload(f"upload-{folder.name}", label_of(file_name), visitor, folder, database)
        self.forget(visitor)
        with self._lock:
            self._held[upload.name] = upload
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
        """Remove what nobody has used for long, also what was received and never taken."""
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
        """The files of one request, in folders of its own: Gradio's are the same for all who send the same content."""
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
                self._held.pop(upload.name, None)
            shutil.rmtree(upload.folder, ignore_errors=True)

    def received(self, named: str | Path) -> Path:
        """The file that a request names, where it is one that the page's upload route wrote: it may say anything."""
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
        """A visitor holds one file; where others hold all there may be, the one longest unused must go by itself."""
        self.purge()
        if len([upload for upload in self._all() if upload.visitor != visitor]) >= self._settings.uploads:
            raise UploadError("as many uploaded files are held as may be: try again later")

    @staticmethod
    def _read(database: UploadedDatabase, file_name: str) -> None:
        try:
            database.read()
        except (GuardError, SchemaError) as error:
            message = str(error).replace(str(database.location), label_of(file_name))
            raise UploadError(message) from None

    def _discard(self, received: Path) -> None:
        """Remove what was received, with the folder that the upload route made for it."""
        parent = received.parent.resolve()
        if parent != self.incoming.resolve() and parent.is_relative_to(self.incoming.resolve()):
            shutil.rmtree(parent, ignore_errors=True)


def label_of(file_name: str) -> str:
    r"""What a file is called on the page: no folder, nothing but what can be seen, not too long.

    >>> label_of("../../etc/pass\nwd"), label_of("C:\\data\\shop.db"), label_of("")
    ('passwd', 'shop.db', 'database')
    """
    last = file_name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(
        character for character in last if unicodedata.category(character)[0] not in "CZ" or character == " "
    )
    return seen.strip()[:_LONGEST_LABEL] or "database"


def remove_abandoned() -> None:
    """Remove the folders of servers that were killed: theirs are locked no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where its server lives
                shutil.rmtree(folder, ignore_errors=True)
