"""Simple world knowledge: different words of questions and databases for the same thing ("French" and "France").

In: `world.yaml`, which explains its own form. Out: `World`, to be looked up by phrase, by code or by stored text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from dtfixup.errors import DataError
from dtfixup.sql.language.words import Word, compact, is_stop_word, lemma, name_lemmas, runs


class Topic(StrEnum):
    """The class of a concept."""

    GENDER = "gender"
    TRUTH = "truth"
    CONTINENT = "continent"
    COUNTRY = "country"
    REGION = "region"
    CITY = "city"
    MONTH = "month"
    WEEKDAY = "weekday"


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing of the world; `forms` holds its name first, then other words for it."""

    topic: Topic
    forms: tuple[str, ...]
    codes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.forms[0]


@dataclass(frozen=True, slots=True)
class World:
    """All concepts, indexed by the lemmas of a phrase, by code as written and by compact stored text."""

    concepts: tuple[Concept, ...]
    phrases: Mapping[str, tuple[Concept, ...]]
    codes: Mapping[str, tuple[Concept, ...]]
    topics: Mapping[str, frozenset[Topic]]
    """Topics by the compact text of a form or code."""
    asked: Mapping[str, tuple[str, ...]]
    """Lemmas of column names by the lemma that asks for such a column: `old` asks for `age`."""
    longest: int
    """The number of words of the longest form."""

    @property
    def yes(self) -> Concept:
        return next(concept for concept in self.concepts if concept.topic is Topic.TRUTH)


@lru_cache(maxsize=1)
def world() -> World:
    """The bundled knowledge, read once."""
    text = resources.files("dtfixup.sql.language").joinpath("world.yaml").read_text(encoding="utf-8")
    return read_world(text)


def mentions(words: Sequence[Word]) -> Iterator[tuple[int, int, tuple[Concept, ...]]]:
    """The spans `start:end` that name concepts, with those; none inside a longer one.

    >>> from dtfixup.sql.language.words import split_words
    >>> [(start, end, concepts[0].name) for start, end, concepts in mentions(split_words("South Koreans in Texas"))]
    [(0, 2, 'South Korea'), (3, 4, 'Texas')]
    """
    knowledge = world()
    spans: list[tuple[int, int]] = []
    for start, end, run in runs(words, knowledge.longest):
        concepts = knowledge.phrases.get(" ".join([word.lemma for word in run]), ())
        if len(run) == 1:
            concepts = () if is_stop_word(run[0]) else concepts
            concepts += knowledge.codes.get(run[0].text, ())
        if concepts and not any(first <= start and end <= last for first, last in spans):
            spans.append((start, end))
            yield start, end, concepts


def read_world(text: str) -> World:
    """Read knowledge in the form of `world.yaml`."""
    try:
        rows = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise DataError(f"world knowledge is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(rows, Mapping):
        raise DataError(f"world knowledge: expected topics with their concepts, got {type(rows).__name__}")
    concepts = [
        _concept(topic, name, entry)
        for topic, entries in rows.items()
        if topic != "asked"
        for name, entry in _entries(topic, entries).items()
    ]
    asked: dict[str, list[str]] = {}
    for name, asking in _entries("asked", rows.get("asked", {})).items():
        if not isinstance(asking, list):
            raise DataError(f"world knowledge: asked: {name}: expected a list of words, got {asking!r}")
        for word in asking:
            asked.setdefault(lemma(str(word)), []).append(lemma(str(name)))
    phrases: dict[str, list[Concept]] = {}
    codes: dict[str, list[Concept]] = {}
    topics: dict[str, set[Topic]] = {}
    longest = 1
    for concept in concepts:
        for phrase in dict.fromkeys(name_lemmas(form) for form in concept.forms):
            phrases.setdefault(" ".join(phrase), []).append(concept)
            longest = max(longest, len(phrase))
        for code in filter(str.isupper, concept.codes):  # 1 and 0 are stored for yes and no; questions do not use them
            codes.setdefault(code, []).append(concept)
        for form in concept.forms + concept.codes:
            topics.setdefault(compact(form), set()).add(concept.topic)
    return World(
        tuple(concepts),
        {phrase: tuple(concepts_of) for phrase, concepts_of in phrases.items()},
        {code: tuple(concepts_of) for code, concepts_of in codes.items()},
        {form: frozenset(concepts_of) for form, concepts_of in topics.items()},
        {word: tuple(names) for word, names in asked.items()},
        longest,
    )


def _entries(topic: Any, entries: Any) -> Mapping[Any, Any]:
    if not isinstance(entries, Mapping):
        raise DataError(f"world knowledge: {topic}: expected names with other words for them, got {entries!r}")
    return entries


def _concept(topic: Any, name: Any, entry: Any) -> Concept:
    where = f"world knowledge: {topic}: {name}"
    if topic not in frozenset(Topic):
        raise DataError(f"{where}: unknown topic; known are {', '.join(Topic)}")
    if not isinstance(entry, Mapping) or not set(entry) <= {"said", "codes"}:
        raise DataError(f"{where}: expected {{said: [...], codes: [...]}}, got {entry!r}")
    others, codes = entry.get("said", []), entry.get("codes", [])
    for form in (name, *others, *codes):
        if not isinstance(form, str):  # YAML reads a bare NO as false
            raise DataError(f"{where}: expected text, got {form!r}; put it in quotes")
    return Concept(Topic(topic), (name, *others), tuple(codes))
