"""Which words of a question name tables and columns, and which express values of columns.

In: the words of a question, a schema and, if given, the content of its database. Out: `Links`, also as the matrix
that the model takes. `linking/view.py` renders them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtfixup.sql.database.content import ContentIndex
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.language.words import Word
from dtfixup.sql.linking.name_links import Item, MatchKind, NameLink, link_names
from dtfixup.sql.linking.relations import Codes, Match
from dtfixup.sql.linking.value_links import STRONG, ValueLink, ValueMatch, link_values

__all__ = ["Item", "Links", "Match", "MatchKind", "NameLink", "ValueLink", "ValueMatch", "link"]


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one question, from left to right."""

    names: tuple[NameLink, ...]
    values: tuple[ValueLink, ...]

    def codes(self, n_words: int, schema: Schema) -> Codes:
        """[words, columns + tables]: `Match` codes, with strong values only; a table's `*` is matched as its table."""
        columns = len(schema.columns)
        codes = np.zeros((n_words, columns + len(schema.tables)), np.uint8)
        for value in self.values:
            if value.strength >= STRONG:
                codes[value.start : value.end, value.column] = Match.VALUE
        for name in self.names:
            cells = codes[name.start : name.end, name.index + (0 if name.item is Item.COLUMN else columns)]
            if name.kind is MatchKind.EXACT:
                cells[:] = Match.EXACT
            else:
                np.maximum(cells, np.uint8(Match.PARTIAL), out=cells)
        codes[:, list(schema.stars)] = codes[:, columns:]
        return codes


def link(words: Sequence[Word], schema: Schema, content: ContentIndex | None) -> Links:
    """Link a question to a schema and, if given, to the content of its database."""
    names = link_names(words, schema)
    return Links(names, link_values(words, schema, content, names))
