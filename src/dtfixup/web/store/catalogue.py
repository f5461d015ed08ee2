"""The databases that every visitor can choose.

In: files and URLs, a YAML file of named connections, the bundled samples. Out: `Catalogue`, which finds databases by
name; no request names a path or a URL. The file's form:

    databases:
      shop: postgresql://reader:${SHOP_PASSWORD}@localhost/shop   # an environment variable, inserted unencoded
      pets:
        url: pets.sqlite           # or a file, relative to this one
        names: pets-names.yaml     # natural names of tables and columns
        namespace: public          # a PostgreSQL schema, or another database of a MySQL server
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import yaml

from dtfixup.errors import ConfigError, DtFixupError, UnknownDatabaseError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.location import Location
from dtfixup.sql.database.names import read_names
from dtfixup.sql.database.sample import is_sample, sample_folder
from dtfixup.web.store.starters import STARTERS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEYS = ("url", "names", "namespace")


@dataclass(frozen=True)
class Entry:
    """A database by its name."""

    name: str
    label: str
    database: OpenedDatabase
    examples: tuple[str, ...] = ()
    """Questions to begin with."""
    is_sample: bool = False

    @property
    def dialect(self) -> str:
        """The dialect's name in lower case."""
        return self.database.dialect.name.lower()

    @property
    def masks(self) -> dict[str, str]:
        """Paths and URLs that messages must not show, with the label to show instead."""
        path = self.database.location.path
        if path is None:
            return {self.database.shown: self.label}
        return {str(form): self.label for form in (path, path.absolute(), path.resolve())}


@dataclass(frozen=True)
class Catalogue:
    """Databases in the order they are offered."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    def find(self, name: str) -> Entry:
        """The database of that name, or an error that lists those there are."""
        entry = self.entries.get(name)
        if entry is None:
            known = ", ".join(self.entries)
            raise UnknownDatabaseError(f"there is no database {name[:60]!r}; there are {known}")
        return entry


def open_catalogue(
    databases: Sequence[str | Path] = (), file: Path | None = None, *, samples: bool = True
) -> Catalogue:
    """The given databases, the named connections of a file, and the bundled databases, in this order.

    Args:
        databases: SQLite files, URLs, or `sample:NAME`; a file is named after its stem, a URL after its database.
        file: YAML file of named connections.
        samples: whether to add all bundled databases.
    """
    entries: dict[str, Entry] = {}
    for database in databases:
        entry = _entry_of(database, entries)
        entries[entry.name] = entry
    for entry in [] if file is None else _read(file):
        if entry.name in entries:
            raise ConfigError(f"{file}: {entry.name}: another database has this name already")
        entries[entry.name] = entry
    for entry in _samples() if samples else ():
        entries.setdefault(entry.name, entry)
    if not entries:
        raise ConfigError("no database to ask: name a SQLite file or a URL, or keep the samples")
    return Catalogue(entries)


def _entry_of(database: str | Path, taken: Mapping[str, Entry]) -> Entry:
    """The entry of a database given by its location."""
    text = str(database)
    if is_sample(text):
        location = Location.of(text)  # an error where there is none
        return next(entry for entry in _samples() if entry.database.location == location)
    label = unquote(urlsplit(text).path) if "://" in text else text
    label = Path(label).stem or "database"
    name = base = re.sub(r"[^A-Za-z0-9_.-]+", "-", label).lstrip("_.-")[:50] or "database"
    count = 1
    while name in taken:
        count += 1
        name = f"{base}-{count}"
    return Entry(name, label if count == 1 else f"{label} ({count})", OpenedDatabase(database))


def _samples() -> list[Entry]:
    folder = sample_folder()
    return [
        Entry(
            name=file.stem,
            label=file.stem.replace("_", " "),
            database=OpenedDatabase(file),
            examples=STARTERS.get(file.stem, ()),
            is_sample=True,
        )
        for file in sorted((folder / "database").glob("*/*.sqlite"))
    ]


def _read(file: Path) -> list[Entry]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    listed = content.get("databases") if isinstance(content, Mapping) else None
    if not isinstance(listed, Mapping) or not listed:
        raise ConfigError(f"{file}: expected the key databases, with lines of the form `name: url`")
    if unknown := [key for key in content if key != "databases"]:
        raise ConfigError(f"{file}: unknown key {unknown[0]!r}; the only key is databases")
    return [_entry(str(name), described, file) for name, described in listed.items()]


def _entry(name: str, described: Any, file: Path) -> Entry:
    where = f"{file}: {name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: expected a name of letters, digits, dots, hyphens and underscores, at most 60")
    fields = {"url": described} if isinstance(described, str) else described
    if not isinstance(fields, Mapping) or not isinstance(fields.get("url"), str):
        raise ConfigError(f"{where}: expected a URL or a SQLite file, or the key url")
    for key, value in fields.items():
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}; expected {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {key}: expected text, got {value!r}")
    names, url = fields.get("names"), _fill_in(fields["url"], where)
    try:
        database = OpenedDatabase(
            url if "://" in url else file.parent / url,
            names=None if names is None else read_names(file.parent / names),
            namespace=fields.get("namespace"),
        )
    except DtFixupError as error:
        raise ConfigError(f"{where}: {error}") from None
    return Entry(name, name, database)


def _fill_in(url: str, where: str) -> str:
    """The URL with environment variables inserted, percent-encoded in user and password."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(f"{where}: the environment variable {match[1]} is not set")
        is_user_part = "://" in url[: match.start()] and "@" in url[match.end() :]
        return quote(os.environ[match[1]], safe="") if is_user_part else os.environ[match[1]]

    return _VARIABLE.sub(value, url)
