"""Simple world knowledge: different words of questions and databases for the same thing ("French" and "France").

In: `world.yaml`, which explains its own form. Out: `World`, to be looked up by phrase, by code or by stored text.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources

import yaml

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

    concepts: list[Concept]
    phrases: Mapping[str, list[Concept]]
    codes: Mapping[str, list[Concept]]
    topics: Mapping[str, set[Topic]]
    """Topics by the compact text of a form or code."""
    asked: Mapping[str, list[str]]
    """Lemmas of column names by the lemma that asks for such a column: `old` asks for `age`."""
    longest: int
    """The number of words of the longest form."""

    @property
    def yes(self) -> Concept:
        return next(concept for concept in self.concepts if concept.topic is Topic.TRUTH)


@lru_cache(maxsize=1)
def world() -> World:
    """Read the bundled knowledge, once."""
    text = resources.files("dtfixup.sql.language").joinpath("world.yaml").read_text(encoding="utf-8")
    rows = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # only texts: NO is Norway's code
    asked: dict[str, list[str]] = defaultdict(list)
    for column, asking in rows.pop("asked").items():
        for word in asking:
            asked[lemma(word)].append(lemma(column))
    concepts = [_concept(topic, name, **entry) for topic, entries in rows.items() for name, entry in entries.items()]
    phrases: dict[str, list[Concept]] = defaultdict(list)
    codes: dict[str, list[Concept]] = defaultdict(list)
    topics: dict[str, set[Topic]] = defaultdict(set)
    longest = 1
    for concept in concepts:
        for phrase in dict.fromkeys(name_lemmas(form) for form in concept.forms):
            phrases[" ".join(phrase)].append(concept)
            longest = max(longest, len(phrase))
        for code in filter(str.isupper, concept.codes):  # 1 and 0 are stored for yes and no; questions do not use them
            codes[code].append(concept)
        for form in concept.forms + concept.codes:
            topics[compact(form)].add(concept.topic)
    return World(concepts, dict(phrases), dict(codes), dict(topics), dict(asked), longest)


def _concept(topic: str, name: str, said: Sequence[str] = (), codes: Sequence[str] = ()) -> Concept:
    return Concept(Topic(topic), (name, *said), tuple(codes))


def mentions(words: Sequence[Word]) -> Iterator[tuple[int, int, list[Concept]]]:
    """The spans `start:end` that name concepts, with those; none inside a longer one.

    >>> from dtfixup.sql.language.words import split_words
    >>> [(start, end, concepts[0].name) for start, end, concepts in mentions(split_words("South Koreans in Texas"))]
    [(0, 2, 'South Korea'), (3, 4, 'Texas')]
    """
    knowledge = world()
    spans: list[tuple[int, int]] = []
    for start, end, run in runs(words, knowledge.longest):
        is_small_word = len(run) == 1 and is_stop_word(run[0])
        concepts = [] if is_small_word else knowledge.phrases.get(" ".join([word.lemma for word in run]), [])
        if len(run) == 1:
            concepts = concepts + knowledge.codes.get(run[0].text, [])
        if concepts and not any(first <= start and end <= last for first, last in spans):
            spans.append((start, end))
            yield start, end, concepts
