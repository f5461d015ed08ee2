"""The prepared dataset: everything a training run reads, in one memory-mapped file of arrays and a JSON index.

`preparation/prepare.py` writes it, `batches.py` reads it; reading needs no SQL parser, so a bare GPU box can do it.
`arrays.safetensors` holds flat arrays; where rows differ in length, `x.start` says where each row of `x` begins.
`tables.json` holds the schemas, `index.json` the rest.

Databases (D): `columns.start`, `column.table`, `column.kind`; items are a database's columns, then its tables:
`items.start`, `item_tokens.start`, `item_token.id`, `item_token.word`; `relations.start`, `relation`.
Examples (N): `example.database`, `example.source` (the database whose question a made-up example was made from; its own
for all others); words and their subwords: `example.words`, `tokens.start`, `token.id`, `token.word`; links
[words, items]: `links.start`, `link`; the derivation: `steps.start`, `step.choice`, `step.index` (rule, column or
candidate; -1 where no candidate is the gold literal), `step.state`, `step.parent`, `step.child`, `step.field`;
candidates: `values.start`, `value.kind`, `value.column` (-1: none), `value.source`, `value.first`, `value.last` (words;
-1: none), `value_tokens.start`, `value_token.id`; texts as UTF-8: `questions.start`, `question`, `queries.start`,
`query`, `value_texts.start`, `value_text`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_atomically, write_json
from dtfixup.sql.database.schema import Schema, read_tables_json, write_tables_json
from dtfixup.weights.arrays import Array, map_arrays, write_arrays

ARRAYS = "arrays.safetensors"
INDEX = "index.json"
TABLES = "tables.json"
FORMAT = 3
SYNTHETIC = "synthetic"
"""The split of made-up examples."""


@dataclass(frozen=True)
class SpecialIds:
    """Ids of an encoder's special tokens."""

    cls: int
    sep: int
    pad: int


@dataclass(frozen=True)
class ExampleArrays:
    """Databases and examples as flat arrays for an encoder: a dataset, or one question."""

    arrays: Mapping[str, Array]
    special: SpecialIds

    def row(self, name: str, start: str, row: int) -> Array:
        """Row `row` of a flat array whose rows begin at `start`."""
        first, last = self.arrays[f"{start}.start"][row : row + 2]
        return self.arrays[name][first:last]

    def text(self, name: str, start: str, row: int) -> str:
        """Row `row` of a flat array of texts."""
        return bytes(self.row(name, start, row)).decode("utf-8")


@dataclass(frozen=True)
class Prepared(ExampleArrays):
    """A prepared dataset in a folder; its arrays are mapped into memory, not read."""

    folder: Path
    index: Mapping[str, Any]
    schemas: Sequence[Schema]
    """In the order of `databases`."""

    def split(self, name: str) -> range:
        """The examples of a split."""
        splits = self.index["splits"]
        if name not in splits:
            raise DataError(f"{self.folder} has no split {name!r}; it has {', '.join(splits)}")
        first, last = splits[name]
        return range(first, last)

    @property
    def databases(self) -> list[str]:
        return list(self.index["databases"])

    def schema_of(self, example: int) -> Schema:
        """The schema that an example asks about."""
        return self.schemas[int(self.arrays["example.database"][example])]


def open_prepared(folder: str | Path) -> Prepared:
    """Open what `dtfixup sql prepare` wrote."""
    folder = Path(folder)
    if not (folder / INDEX).is_file():
        raise DataError(
            f"{folder} has no prepared dataset: make one with dtfixup sql prepare --data DIR --out {folder}"
        )
    index = read_json(folder / INDEX)
    if index.get("format") != FORMAT:
        raise DataError(f"{folder} has format {index.get('format')}, but this version reads {FORMAT}: prepare it again")
    special = SpecialIds(*(index["encoder"][name] for name in ("cls", "sep", "pad")))
    schemas = read_tables_json(folder / TABLES)
    return Prepared(
        map_arrays(folder / ARRAYS), special, folder, index, [schemas[database] for database in index["databases"]]
    )


def write_prepared(
    folder: Path, arrays: Mapping[str, Array], index: Mapping[str, Any], schemas: Sequence[Schema]
) -> None:
    """Write the arrays and schemas, then the index that makes them valid."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)  # so that an index never describes other arrays
    write_atomically(folder / ARRAYS, lambda path: write_arrays(path, arrays))
    write_tables_json(schemas, folder / TABLES)
    write_json(folder / INDEX, {"format": FORMAT, **index})


def starts(lengths: Array | list[int]) -> Array:
    """The starts of rows of these lengths, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(lengths, np.int64))])


def pack_texts(texts: list[str]) -> tuple[Array, Array]:
    """Texts as UTF-8 bytes, and their starts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), starts([len(text) for text in encoded])
