"""The dataset that comes with the package, so that first steps, tests and CI need no download.

In: the text files in `sample_data`: questions, schemas and one SQL script per database. Out: a folder in Spider's
layout for `open_dataset`, in the cache under the hash of all its bytes. A new version of the data, or a SQLite that
lays out its pages differently, gets a folder of its own, so no process sees its files change.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import cache_folder, write_atomically

_PREFIX = "sample:"


def sample_folder() -> Path:
    """Return the folder of the bundled dataset; files that are missing or were changed are written again."""
    content = _content()
    folder = cache_folder() / "sample" / _digest(content)
    try:
        for name, data in content.items():
            _restore(folder / name, data)
    except OSError as error:
        raise DataError(
            f"the sample dataset cannot be written to {folder}: {error.strerror}; "
            "set DTFIXUP_CACHE to a folder where you may write"
        ) from error
    return folder


def is_sample(database: str) -> bool:
    """Whether a text names a bundled database, as `sample:NAME`."""
    return database.startswith(_PREFIX)


def sample_file(database: str) -> Path:
    """The file of the bundled database `sample:NAME`.

    >>> sample_file("sample:river_ferry").name
    'river_ferry.sqlite'
    """
    name = database.removeprefix(_PREFIX)
    files = {file.stem: file for file in sorted((sample_folder() / "database").glob("*/*.sqlite"))}
    if name not in files:
        known = ", ".join(_PREFIX + stem for stem in files)
        raise ConfigError(f"there is no bundled database {name!r}; there are {known}")
    return files[name]


@cache
def _content() -> Mapping[str, bytes]:
    """Every file of the folder by its path, in Spider's layout."""
    content = {}
    folder = resources.files("dtfixup.sql.database") / "sample_data"
    for source in sorted(folder.iterdir(), key=lambda source: source.name):
        text = source.read_text(encoding="utf-8")
        name, _, kind = source.name.rpartition(".")
        if kind == "sql":
            content[f"database/{name}/{name}.sqlite"] = _build(text)
        elif kind == "json":
            content[source.name] = text.encode()
    return content


def _build(script: str) -> bytes:
    """The bytes of the database that a script makes, in memory: a file on disk records the version of SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"PRAGMA page_size = 4096; BEGIN; {script} COMMIT;")
        return connection.serialize()


def _digest(content: Mapping[str, bytes]) -> str:
    parts = (f"{name} {len(data)}\n".encode() + data for name, data in content.items())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _restore(path: Path, data: bytes) -> None:
    """Write `data` to `path` unless it is there. Processes that do so at once write the same bytes."""
    if not _holds(path, data):
        try:
            write_atomically(path, lambda temporary: temporary.write_bytes(data))
        except PermissionError:  # Windows does not replace a file that a faster process is reading
            if not _holds(path, data):
                raise


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data
