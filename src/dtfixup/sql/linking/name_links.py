"""Which runs of words in a question name tables and columns.

In: the words of a question and a schema. Out: `NameLink`s. The definitions are RAT-SQL's: a run of lemmas that is a
whole name matches it exactly, one that is part of a name matches it partially, and a stop word alone matches nothing.
One refinement: a whole name inside a longer whole name matches partially, so that the words `song name` mean the
column `song name` rather than the column `name`. Mistyped words are corrected, and a word such as `oldest` matches the
name of what it asks for (`world.yaml`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.language.words import STOP_WORDS, Word, closest_word, is_english, name_lemmas, runs
from dtfixup.sql.language.world import world


class Item(StrEnum):
    """The kind of schema item that a link points at."""

    TABLE = "table"
    COLUMN = "column"


class MatchKind(StrEnum):
    """How a run of words fits a name."""

    PARTIAL = "partial"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class NameLink:
    """The words `start:end` name a table or column; `index` is its index in the schema."""

    start: int
    end: int
    item: Item
    index: int
    kind: MatchKind


LONGEST_NAME = 6
"""The longest run of words that is compared with a name."""

_Items = list[tuple[Item, int]]


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Schema items by the lemmas of their whole names, by these without spaces, and by parts of the names."""

    whole: dict[str, _Items]
    joined: dict[str, _Items]
    parts: dict[str, _Items]
    lemmas: frozenset[str]
    """Every lemma of every name."""
    distinctive: frozenset[str]
    """The lemmas that at most two columns and no table have in their names."""


def link_names(words: Sequence[Word], schema: Schema) -> tuple[NameLink, ...]:
    """Every name in a question; if two runs link the same words to the same item, the longer one."""
    index = name_index(schema)
    spelling = {word.lemma: _respelled(word, index) for word in words}
    links: list[NameLink] = []
    linked: set[tuple[int, Item, int]] = set()  # word, item
    whole: list[tuple[int, int, Item]] = []

    def keep(start: int, end: int, items: _Items, kind: MatchKind) -> None:
        for item, number in items:
            cells = {(position, item, number) for position in range(start, end)}
            if not cells <= linked:
                linked.update(cells)
                links.append(NameLink(start, end, item, number, kind))

    for start, end, run in runs(words, LONGEST_NAME):  # the longest first
        key = " ".join([spelling[word.lemma] for word in run])
        exact = index.whole.get(key) or index.joined.get(key.replace(" ", ""), [])
        around = {item for first, last, item in whole if first <= start and end <= last}
        for item, number in exact:
            # A table inside a column's name keeps its match: the song of `song name`.
            is_inside = Item.TABLE in around if item is Item.TABLE else bool(around)
            keep(start, end, [(item, number)], MatchKind.PARTIAL if is_inside else MatchKind.EXACT)
        keep(start, end, index.parts.get(key, []), MatchKind.PARTIAL)
        whole += [(start, end, item) for item in {item for item, _ in exact}]
        if len(run) == 1:
            keep(start, end, _asked_for(run[0].lemma, index), MatchKind.PARTIAL)
    return tuple(sorted(links, key=lambda link: (link.start, link.end, link.item, link.index)))


def _asked_for(lemma: str, names: NameIndex) -> _Items:
    """The columns that a word of degree asks for: `oldest` asks for an age."""
    asked = world().asked.get(lemma, ())
    items = [item for name in asked for item in names.whole.get(name, []) + names.parts.get(name, [])]
    return [(item, index) for item, index in items if item is Item.COLUMN]


def _respelled(word: Word, names: NameIndex) -> str:
    """The word's lemma; for a mistyped word, the lemma of the schema that it stands for."""
    is_known = word.lemma in names.joined or word.lemma in names.lemmas
    if is_known or not word.text.isalpha() or is_english(word.text):
        return word.lemma
    return closest_word(word.lemma, sorted(names.lemmas)) or word.lemma


def name_index(schema: Schema) -> NameIndex:
    """The index of a schema's names, cached by the names: hashing them is much quicker than hashing the schema."""
    columns = tuple("" if column.type is ColumnType.STAR else column.natural for column in schema.columns)
    return _index_names(tuple(table.natural for table in schema.tables), columns)


@lru_cache(maxsize=512)
def _index_names(tables: tuple[str, ...], columns: tuple[str, ...]) -> NameIndex:
    whole: dict[str, _Items] = {}
    joined: dict[str, _Items] = {}
    parts: dict[str, _Items] = {}
    items = [(Item.TABLE, index, name_lemmas(name)) for index, name in enumerate(tables)]
    items += [(Item.COLUMN, index, name_lemmas(name)) for index, name in enumerate(columns)]
    for item, index, lemmas in items:
        if not lemmas:
            continue
        whole.setdefault(" ".join(lemmas), []).append((item, index))
        joined.setdefault("".join(lemmas), []).append((item, index))
        for part in _parts_of(lemmas):
            parts.setdefault(part, []).append((item, index))
    table_lemmas = frozenset(lemma for item, _, lemmas in items for lemma in lemmas if item is Item.TABLE)
    columns_with = Counter(lemma for item, _, lemmas in items for lemma in set(lemmas) if item is Item.COLUMN)
    distinctive = frozenset(lemma for lemma, count in columns_with.items() if count <= 2) - table_lemmas
    return NameIndex(whole, joined, parts, table_lemmas.union(columns_with), distinctive)


def _parts_of(lemmas: tuple[str, ...]) -> list[str]:
    """Every run of the lemmas that is shorter than the whole and holds more than stop words, once."""
    parts: dict[str, None] = {}
    for start in range(len(lemmas)):
        for end in range(start + 1, min(len(lemmas), start + LONGEST_NAME) + 1):
            part = lemmas[start:end]
            if part != lemmas and not STOP_WORDS.issuperset(part):
                parts[" ".join(part)] = None
    return list(parts)
