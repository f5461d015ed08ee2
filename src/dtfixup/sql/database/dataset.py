"""Question/SQL pairs in the layout of the official Spider download.

In: a folder with `tables.json`, one JSON file per split and `database/<db_id>/<db_id>.sqlite`. Out: `Dataset`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import read_json
from dtfixup.sql.database.schema import Schema, read_tables_json

_SPLITS = {"train": ("train_spider.json", "train.json"), "train_others": ("train_others.json",), "dev": ("dev.json",)}


@dataclass(frozen=True, slots=True)
class Example:
    """One question over one database, with its gold query."""

    database: str
    question: str
    query: str


@dataclass(frozen=True)
class Dataset:
    """A folder in Spider's layout."""

    folder: Path
    schemas: Mapping[str, Schema]

    def split(self, name: str) -> list[Example]:
        """Read the examples of `train`, `train_others`, `dev`, or of any `<name>.json` in the folder."""
        names = _SPLITS.get(name, (f"{name}.json",))
        if not _is_plain(name):
            raise DataError(f"{name!r} is not the name of a split: a split is a file in {self.folder}, without folders")
        for file in names:
            if (self.folder / file).is_file():
                return read_examples(self.folder / file, self.schemas)
        raise DataError(f"{self.folder} has no split {name!r}: looked for {' and '.join(names)}")

    def database_file(self, database: str) -> Path:
        """Return the SQLite file of a database."""
        if not _is_plain(database):
            raise DataError(f"database {database!r} is not a plain name, and it would become part of a path")
        path = self.folder / "database" / database / f"{database}.sqlite"
        if not path.is_file():
            raise DataError(f"{path} does not exist; the Spider download has a database folder beside tables.json")
        return path


def open_dataset(folder: str | Path) -> Dataset:
    """Open a folder in Spider's layout."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one with tables.json, such as the Spider download")
    return Dataset(folder, read_tables_json(folder / "tables.json"))


def split_names(text: str) -> list[str]:
    """Return the splits that a text names, separated by commas.

    >>> split_names("train, dev")
    ['train', 'dev']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("splits names no split; expected for example train,dev")
    return names


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and not any(mark in name for mark in "/\\\0")


def read_examples(path: str | Path, schemas: Mapping[str, Schema]) -> list[Example]:
    """Read one split; a malformed entry gives the file, its index and the key."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of examples, got {type(rows).__name__}")
    examples = []
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"{path}: example {index}: expected an object, got {type(row).__name__}")
        for key in ("db_id", "question", "query"):
            if key not in row:
                raise DataError(f"{path}: example {index}: key {key!r} is missing")
            if not isinstance(row[key], str) or not row[key].strip():
                raise DataError(f"{path}: example {index}: key {key!r}: expected text, got {row[key]!r}")
        if row["db_id"] not in schemas:
            raise DataError(f"{path}: example {index}: key 'db_id': {row['db_id']!r} is not in tables.json")
        examples.append(Example(row["db_id"], row["question"], row["query"]))
    return examples
