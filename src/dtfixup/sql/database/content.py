"""The values of a database's columns, looked up by the words of a question.

In: a schema and where its rows are. Out: `ContentIndex`. It is built once within `ContentLimits` and kept on disk under
a hash of the database file, so a changed database gets a new index; a damaged file is built again.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from time import time

from dtfixup.errors import DataError
from dtfixup.files import cache_folder, file_sha256, package_digest, write_atomically
from dtfixup.sql.database.location import DatabaseLike, Location
from dtfixup.sql.database.rows import ColumnValues, ContentLimits, read_values
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.language.dates import are_clocks, date_form
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import closest_word, compact, is_english, lemma
from dtfixup.sql.language.world import Topic, world


class Looks(StrEnum):
    """What the values of a column look like; the declared type may differ."""

    NOTHING = "nothing"
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Hit:
    """A stored value and the column that holds it."""

    column: int
    value: str


@dataclass(frozen=True, slots=True)
class ColumnContent:
    """A column's distinct values as text, and what they look like."""

    values: tuple[str, ...]
    is_whole: bool
    """False if a limit left some values out."""
    rows: int
    """Rows of its table that were looked at."""
    looks: Looks
    date_form: str | None
    """How the values write dates, as `render_date` takes it."""
    topics: frozenset[Topic]
    """What most of the values are about."""

    @property
    def distinct(self) -> int | None:
        """The number of distinct values; None for more than are held."""
        return len(self.values) if self.is_whole else None

    @property
    def is_listed(self) -> bool:
        """Whether all values are held and few enough to be compared one by one."""
        return self.is_whole and len(self.values) <= _SOME

    @property
    def is_choice(self) -> bool:
        """Whether the column classifies rows by a few repeated texts, or by yes and no."""
        if not self.is_whole or len(self.values) > _FEW or self.rows < _REPEATED * len(self.values):
            return False
        return self.looks is Looks.TEXT or Topic.TRUTH in self.topics


@dataclass(frozen=True)
class ContentIndex:
    """The content of one database; columns are indexed as in `Schema.columns`.

    A value's number counts the values over all columns; the look-ups hold lists of these numbers.
    """

    columns: tuple[ColumnContent, ...]
    _whole: dict[str, list[int]]
    _numbers: dict[str, list[int]]
    _containing: dict[str, list[int]]

    @cached_property
    def has_rows(self) -> bool:
        """Whether any column holds anything."""
        return any(column.values for column in self.columns)

    def whole(self, key: str) -> list[Hit]:
        """The values that are not numbers and whose compact text, or compact lemmas, are `key`."""
        return [self._hits[number] for number in self._whole.get(key, ())]

    def number(self, text: str) -> list[Hit]:
        """The values of number columns that are this plain number, or these figures with leading zeros."""
        return [self._hits[number] for number in self._numbers.get(text, ())]

    def containing(self, word: str) -> list[Hit]:
        """The values of several words that contain this lemma; none for a word in more than a few values."""
        holders = self._containing.get(word, ())
        return [self._hits[number] for number in holders] if len(holders) <= _RARE else []

    def respelled(self, word: str) -> str | None:
        """The stored word that a mistyped word stands for; None for a word that is stored or English as it is."""
        if word in self._whole or word in self._containing or not word.isalpha() or is_english(word):
            return None
        return self._closest_word(word)

    def similar(self, key: str) -> list[Hit]:
        """The values whose compact text differs from `key` by a typing mistake."""
        closest = self._closest_value(key)
        return self.whole(closest) if closest is not None else []

    def kin(self, words: Sequence[str], start: int) -> list[tuple[Hit, int]]:
        """Values of columns with few whose words are forms or abbreviations of the words from `start` on, to where.

        `engineering` has the kin `engineer`, `computer science` has `Comp. Sci.`.
        """
        return [
            (hit, start + len(parts))
            for parts, hit in self._choices.get(words[start][:3], ())
            if len(parts) <= len(words) - start
            if all(_is_kin(part, word) for part, word in zip(parts, words[start:], strict=False))
        ]

    @cached_property
    def _choices(self) -> dict[str, list[tuple[tuple[str, ...], Hit]]]:
        """Values of columns with few, by the first three letters; with their words, also those of camelCase."""
        choices: dict[str, list[tuple[tuple[str, ...], Hit]]] = {}
        for index, column in enumerate(self.columns):
            if column.looks is Looks.TEXT and column.is_listed:
                for value in column.values:
                    parts = tuple(part.lower() for part in _PART.findall(value))
                    if parts and len(parts[0]) >= 3:
                        choices.setdefault(parts[0][:3], []).append((parts, Hit(index, value)))
        return choices

    @cached_property
    def _hits(self) -> list[Hit]:
        return [Hit(index, value) for index, column in enumerate(self.columns) for value in column.values]

    @cached_property
    def _closest_word(self) -> Callable[[str], str | None]:
        words = sorted(filter(str.isalpha, self._whole.keys() | self._containing.keys()))
        return lru_cache(maxsize=4096)(lambda word: closest_word(word, words))

    @cached_property
    def _closest_value(self) -> Callable[[str], str | None]:
        keys = sorted(self._whole)
        return lru_cache(maxsize=4096)(lambda key: closest_word(key, keys))


_LONGEST_PHRASE = 8  # words of a value whose lemmas are looked up as a whole
_DECLARED = {ColumnType.NUMBER: Looks.NUMBER, ColumnType.TIME: Looks.TIME, ColumnType.TEXT: Looks.TEXT}


def looks_of(column: int, schema: Schema, content: ContentIndex | None) -> Looks:
    """What a column holds, by its content or else by its declared type."""
    looks = Looks.NOTHING if content is None else content.columns[column].looks
    return _DECLARED.get(schema.columns[column].type, Looks.NOTHING) if looks is Looks.NOTHING else looks


_RARE = 24  # values that may share a word; a more common word tells none apart
_SOME = 60  # distinct values of a column that are compared one by one
_FEW = 10  # distinct values of a column that can be listed
_REPEATED = 1.5  # rows per distinct value where values come again
_MOST = 0.6  # share of a column's values that makes a topic
_NEARLY_ALL = 0.9  # share of a column's values that makes it one of numbers


def build_index(columns: Sequence[ColumnValues]) -> ContentIndex:
    """Index the values of every column."""
    described = tuple(map(_describe, columns))
    whole: dict[str, list[int]] = {}
    numbers: dict[str, list[int]] = {}
    containing: dict[str, list[int]] = {}
    held = [(column, value) for column in described for value in column.values]
    for number, (column, value) in enumerate(held):
        if column.looks is Looks.NUMBER:
            numbers.setdefault(plain_number(value) or value, []).append(number)
            continue
        key = compact(value)
        if not key:
            continue
        whole.setdefault(key, []).append(number)
        words = words_of(value)
        if len(words) <= _LONGEST_PHRASE and (lemmas := "".join(words)) != key:
            whole.setdefault(lemmas, []).append(number)
        if len(words) > 1 and column.looks is Looks.TEXT:
            for word in dict.fromkeys(words):
                holders = containing.setdefault(word, [])
                if len(holders) <= _RARE:  # one more than rare shows that it is not
                    holders.append(number)
    return ContentIndex(described, whole, numbers, containing)


def unknown_content(schema: Schema) -> ContentIndex:
    """The index of a database whose rows are not known."""
    return build_index([ColumnValues((), True, 0)] * len(schema.columns))


def words_of(value: str) -> tuple[str, ...]:
    """The lemmas of a stored value's words."""
    return tuple(map(lemma, _WORD.findall(value)))


_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")


def _is_kin(part: str, word: str) -> bool:
    """Whether a stored word and one of the question are forms of each other, or the stored one abbreviates it."""
    if part[:1] != word[:1]:
        return False
    if word.startswith(part) or (len(word) >= 4 and part.startswith(word)):
        return len(part) >= 3 or part == word
    if part[:6] == word[:6] and len(part) >= 6:
        return True
    letters = iter(word)
    return len(part) >= 4 and all(letter in letters for letter in part)


def _describe(column: ColumnValues) -> ColumnContent:
    values = column.values
    form = date_form(values)
    if not values:
        looks = Looks.NOTHING
    elif form is not None or are_clocks(values):
        looks = Looks.TIME
    elif sum(_FIGURES.fullmatch(value) is not None for value in values) >= _NEARLY_ALL * len(values):
        looks = Looks.NUMBER
    else:
        looks = Looks.TEXT
    return ColumnContent(values, column.is_whole, column.rows, looks, form, _topics_of(values))


_FIGURES = re.compile(r"[-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?", re.ASCII)


def _topics_of(values: Sequence[str]) -> frozenset[Topic]:
    if len(values) == 1 and len(values[0]) < 3:  # one code alone may mean anything
        return frozenset()
    topics = world().topics
    counts = Counter(topic for value in values for topic in topics.get(compact(value), ()))
    return frozenset(topic for topic, count in counts.items() if count >= _MOST * len(values))


def open_content(
    schema: Schema, database: DatabaseLike, limits: ContentLimits | None = None, use_cache: bool = True
) -> ContentIndex:
    """Return the index of a database's content, for a SQLite file from the cache if it is there.

    A database on a server cannot be hashed without reading it: every call builds its index anew, so keep it.
    """
    location, limits = Location.of(database), limits or ContentLimits()
    if location.path is None or location.copy is not None or not use_cache:
        return build_index(read_values(schema, location, limits))
    cached = cache_folder() / "content" / f"{_key(schema, location.path, limits)}.json"
    index = _load(cached)
    if index is None:
        index = build_index(read_values(schema, location, limits))
        _save(index, cached)
    return index


_LARGEST_HASHED = 1 << 30
_MOST_FILES = 500
_ABANDONED = 3600.0  # seconds after which a temporary file is no longer being written


def _key(schema: Schema, path: Path, limits: ContentLimits) -> str:
    """What the index depends on: stored bytes, names, limits, and the knowledge and code that made it."""
    code = [metadata.version("simplemma"), package_digest("dtfixup.sql.language", "dtfixup.sql.database")]
    names = [(schema.tables[column.table].name, column.name) for column in schema.columns]
    digest = hashlib.sha256(json.dumps([code, asdict(limits), names]).encode())
    for file in (path, path.with_name(path.name + "-wal")):
        if not file.is_file():
            continue
        state = file.stat()
        if state.st_size <= _LARGEST_HASHED:
            digest.update(file_sha256(file).encode())
        else:  # hashing would take longer than building: use the time of the last change
            digest.update(f"{file.absolute()} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()


def _save(index: ContentIndex, path: Path) -> None:
    columns = [
        [column.values, column.is_whole, column.rows, column.looks, column.date_form, sorted(column.topics)]
        for column in index.columns
    ]
    text = json.dumps([columns, index._whole, index._numbers, index._containing], separators=(",", ":"))
    text = f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}"
    try:
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        for old in _oldest_first(path.parent)[:-_MOST_FILES]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"{path.parent} cannot hold cached files: {error.strerror}; set DTFIXUP_CACHE to a folder that can"
        ) from None


def _oldest_first(folder: Path) -> list[Path]:
    """The cached files by their last use, without those that other processes write, rename or remove meanwhile."""
    used: list[tuple[float, Path]] = []
    for file in folder.glob("*.json"):
        with suppress(FileNotFoundError):
            last_use = file.stat().st_mtime
            if not file.name.startswith(".") or last_use < time() - _ABANDONED:
                used.append((last_use, file))
    return [file for _, file in sorted(used)]


def _load(path: Path) -> ContentIndex | None:
    """An index from disk; None where there is none or its checksum does not fit."""
    try:
        checksum, _, text = path.read_text(encoding="utf-8").partition("\n")
        os.utime(path)  # what is in use is not the oldest; touch() would put an empty file where it was just removed
    except (OSError, UnicodeDecodeError):
        return None
    if hashlib.sha256(text.encode()).hexdigest() != checksum:
        return None
    columns, whole, numbers, containing = json.loads(text)
    return ContentIndex(
        tuple(
            ColumnContent(tuple(values), is_whole, rows, Looks(looks), form, frozenset(map(Topic, topics)))
            for values, is_whole, rows, looks, form, topics in columns
        ),
        whole,
        numbers,
        containing,
    )
