"""Which words of a question name tables and columns, and which express values of columns.

In: the words of a question, a schema and, if given, the content of its database. Out: `Links`, also as the matrices
that the model takes. `linking/view.py` renders them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtfixup.sql.database.content import ContentIndex
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.language.words import Word
from dtfixup.sql.linking.name_links import Item, MatchKind, NameLink, link_names
from dtfixup.sql.linking.relations import Match
from dtfixup.sql.linking.value_links import STRONG, ValueLink, ValueMatch, link_values

__all__ = [
    "Item",
    "Links",
    "Match",
    "MatchKind",
    "NameLink",
    "ValueLink",
    "ValueMatch",
    "link",
]


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one question, from left to right."""

    names: tuple[NameLink, ...]
    values: tuple[ValueLink, ...]

    def matrix(self, n_words: int, schema: Schema) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """`Match` codes of words × columns and of words × tables, with strong values only; a table's `*` has none."""
        columns = np.zeros((n_words, len(schema.columns)), dtype=np.uint8)
        tables = np.zeros((n_words, len(schema.tables)), dtype=np.uint8)
        for link in self.values:
            if link.strength >= STRONG:
                columns[link.start : link.end, link.column] = Match.VALUE
        for name in self.names:
            cells = (columns if name.item is Item.COLUMN else tables)[name.start : name.end, name.index]
            if name.kind is MatchKind.EXACT:
                cells[:] = Match.EXACT
            else:
                np.maximum(cells, np.uint8(Match.PARTIAL), out=cells)
        return columns, tables


def link(words: Sequence[Word], schema: Schema, content: ContentIndex | None) -> Links:
    """Link a question to a schema and, if given, to the content of its database."""
    names = link_names(words, schema)
    return Links(names, link_values(words, schema, content, names))
