"""Which runs of words in a question express values of columns.

In: the words of a question, a schema, the name links and, if given, the content of the database. Out: `ValueLink`s:
stored values, the same thing in other words (`world.yaml`), mistyped values, parts of values, numbers and dates. The
strength of a link tells how far to trust it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dtfixup.sql.database.content import ContentIndex, Hit, Looks, looks_of, unknown_content, words_of
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.language.dates import dates_in, render_date
from dtfixup.sql.language.quantities import Number, numbers_in, plain_number
from dtfixup.sql.language.words import (
    STOP_WORDS,
    Word,
    begins_sentence,
    compact,
    is_stop_word,
    name_lemmas,
    quoted_spans,
    runs,
)
from dtfixup.sql.language.world import Concept, Topic, mentions, world
from dtfixup.sql.linking.name_links import Item, MatchKind, NameLink, name_index


class ValueMatch(StrEnum):
    """How a run of words matches a value of a column."""

    WHOLE = "whole"
    """A stored value, whatever its case, punctuation and inflection."""
    WORLD = "world"
    """The same meaning as a stored value."""
    SIMILAR = "similar"
    """A stored value, or a word of one, mistyped or in a related form."""
    PART = "part"
    """Part of a stored value."""
    NUMBER = "number"
    """A number; the column holds it or is named beside it."""
    TIME = "time"
    """A date or time in a column of dates or times."""


@dataclass(frozen=True, slots=True)
class ValueLink:
    """The words `start:end` express a value of a column; from strength `STRONG` to 1 the link is likely."""

    start: int
    end: int
    column: int
    value: str
    how: ValueMatch
    strength: float


# Strengths, set on Spider's training questions.
_VERBATIM = 1.0  # the letters of a stored value
_INFLECTED = 0.9  # the lemmas of a stored value
_SAME_MEANING = 0.8  # other words for a stored value
_CORRECTED = 0.7  # a mistyped value
_CORRECTED_PART = 0.6  # a mistyped word of a value
_CLEAR = 0.6  # a number or date whose column is beyond doubt
STRONG = 0.5  # from here on a link is likely
_WEAK = 0.4  # the words mean something else more likely
POSSIBLE = 0.3  # from here on a linked value is a literal candidate
_FAINT = 0.2  # kept for what a query may need nevertheless

LONGEST_VALUE = 8
"""The longest run of words that is compared with a stored value."""


def link_values(
    words: Sequence[Word], schema: Schema, content: ContentIndex | None, names: Sequence[NameLink]
) -> tuple[ValueLink, ...]:
    """Every value in a question; of two links from the same words to the same value, the stronger."""
    search = _Search(words, schema, content or unknown_content(schema), names)
    search.whole_values()
    search.world_values()
    search.named_truths()
    search.parts_of_values()
    search.quoted_parts()
    search.kin_of_values()
    search.numbers()
    search.dates()
    search.durations()
    links = _narrowed(search.links.values(), schema, names)
    return tuple(sorted(links, key=lambda link: (link.start, link.end, link.column, link.value)))


def _narrowed(links: Collection[ValueLink], schema: Schema, names: Sequence[NameLink]) -> Iterator[ValueLink]:
    """If the same words link to values of several columns, weaken the links to columns that are named less clearly.

    For a stored text it is enough that the column or its table is named at all.
    """
    weights: dict[tuple[Item, int], int] = {}
    for name in names:
        weight = 2 if name.kind is MatchKind.EXACT else 1
        weights[name.item, name.index] = max(weight, weights.get((name.item, name.index), 0))

    def weight_of(link: ValueLink) -> int:
        table = schema.columns[link.column].table
        weight = weights.get((Item.COLUMN, link.column), 0) + weights.get((Item.TABLE, table), 0)
        return weight if link.how in (ValueMatch.NUMBER, ValueMatch.TIME) else min(weight, 1)

    heaviest: dict[tuple[int, int], int] = {}
    for link in links:
        if link.strength >= STRONG:
            span = (link.start, link.end)
            heaviest[span] = max(heaviest.get(span, 0), weight_of(link))
    for link in links:
        is_less = link.strength >= STRONG and weight_of(link) < heaviest[link.start, link.end]
        yield replace(link, strength=_WEAK) if is_less else link


class _Search:
    """The search over one question; earlier links narrow down later searches."""

    def __init__(self, words: Sequence[Word], schema: Schema, content: ContentIndex, names: Sequence[NameLink]) -> None:
        self.words = words
        self.schema = schema
        self.content = content
        self.names = names
        self.name_index = name_index(schema)
        self.quoted = quoted_spans(words)
        self.exactly_named = {(link.start, link.end) for link in names if link.kind is MatchKind.EXACT}
        self.links: dict[tuple[int, int, int, str], ValueLink] = {}
        self.taken: list[tuple[int, int]] = []  # spans that are whole stored values

    def add(self, start: int, end: int, hits: Iterable[Hit], how: ValueMatch, strength: float) -> None:
        for hit in hits:
            key = (start, end, hit.column, hit.value)
            if key not in self.links or self.links[key].strength < strength:
                self.links[key] = ValueLink(start, end, hit.column, hit.value, how, strength)

    def is_quoted(self, start: int, end: int) -> bool:
        return any(first <= start and end <= last for first, last in self.quoted)

    def is_marked(self, start: int, end: int) -> bool:
        """Whether the words are in quotes, or capitalised inside a sentence."""
        is_capitalised = self.words[start].text[0].isupper() and not begins_sentence(self.words, start)
        return is_capitalised or self.is_quoted(start, end)

    def is_schema_word(self, word: Word) -> bool:
        return word.lemma in self.name_index.lemmas

    def is_inside(self, start: int, end: int) -> bool:
        """Whether the span is a proper part of one that is a whole stored value."""
        return any(first <= start and end <= last and end - start < last - first for first, last in self.taken)

    def whole_values(self) -> None:
        for start, end, run in runs(self.words, LONGEST_VALUE):
            hits = self.content.whole("".join([compact(word.text) for word in run]))
            strength = _VERBATIM
            if not hits:
                hits = self.content.whole("".join([compact(word.lemma) for word in run]))
                strength = _INFLECTED
            if not hits:
                continue
            if self.is_inside(start, end):
                strength = _WEAK
            if len(run) == 1:
                hits, strength = self.single_word(start, run[0], hits, strength)
            elif all(map(is_stop_word, run)):  # `The Who` and `no-show` are values, but `as an` is not Asan
                is_name = self.is_marked(start, end) or end - start > len(run)
                hits = [hit for hit in hits if is_name and len(words_of(hit.value)) == len(run)]
            if hits:
                self.add(start, end, hits, ValueMatch.WHOLE, strength)
                if strength >= STRONG:
                    self.taken.append((start, end))

    def single_word(self, start: int, word: Word, hits: list[Hit], strength: float) -> tuple[list[Hit], float]:
        """A stop word or a letter must be written as stored; a word that is also a name links weakly."""
        if is_stop_word(word) or len(word.text) == 1:
            is_code = not is_stop_word(word) or (word.text.isupper() and start > 0)
            is_meant = is_code or self.is_quoted(start, start + 1)
            return [hit for hit in hits if is_meant and hit.value.strip() == word.text], strength
        if not self.is_marked(start, start + 1) and self.is_schema_word(word):
            return hits, _WEAK
        return hits, strength

    def world_values(self) -> None:
        for start, end, concepts in mentions(self.words):
            hits = [hit for concept in concepts for hit in _stored_forms(concept, self.content)]
            if hits and not self.is_inside(start, end):
                is_linked = (start, end) in self.taken or (start, end) in self.exactly_named
                self.add(start, end, hits, ValueMatch.WORLD, _WEAK if is_linked else _SAME_MEANING)
                self.taken.append((start, end))

    def named_truths(self) -> None:
        """Link the name of a yes/no column to its yes: `official` means that `is official` holds "T"."""
        for link in self.names:
            if link.item is not Item.COLUMN or Topic.TRUTH not in self.content.columns[link.index].topics:
                continue
            lemmas = {word.lemma for word in self.words[link.start : link.end]} - STOP_WORDS
            if lemmas & self.name_index.distinctive:
                hits = [hit for hit in _stored_forms(world().yes, self.content) if hit.column == link.index]
                self.add(link.start, link.end, hits, ValueMatch.WORLD, STRONG)

    def parts_of_values(self) -> None:
        named = {position for link in self.names for position in range(link.start, link.end)}
        for position, word in enumerate(self.words):
            span = (position, position + 1)
            if word.is_mark or is_stop_word(word) or self.is_inside(*span):
                continue
            corrected = self.content.respelled(word.text.lower()) if position not in named else None
            if corrected is not None:
                self.add(*span, self.content.whole(corrected), ValueMatch.SIMILAR, _CORRECTED)
                self.add(*span, self.content.containing(corrected), ValueMatch.SIMILAR, _CORRECTED_PART)
            elif span not in self.taken:
                for hit in self.content.containing(word.lemma):
                    self.add_part(position, hit)

    def add_part(self, position: int, hit: Hit) -> None:
        """Link a word that is part of a value, with its neighbours that are in the same value."""
        value_words = frozenset(words_of(hit.value))
        start, end = position, position + 1
        while start > 0 and self.words[start - 1].lemma in value_words:
            start -= 1
        while end < len(self.words) and self.words[end].lemma in value_words:
            end += 1
        telling = [word for word in self.words[start:end] if not is_stop_word(word)]
        if self.is_quoted(start, end):
            strength = STRONG
        elif all(map(self.is_schema_word, telling)):
            strength = _FAINT
        elif self.is_marked(start, end) or len(telling) > 1:
            strength = STRONG
        else:
            strength = POSSIBLE if self.content.columns[hit.column].is_listed else _FAINT
        self.add(start, end, [hit], ValueMatch.PART, strength)

    def quoted_parts(self) -> None:
        """Link quoted words: a mistyped value, or part of the values of a column named beside them."""
        for start, end in self.quoted:
            if (start, end) in self.taken:
                continue
            key = "".join(compact(word.text) for word in self.words[start:end])
            self.add(start, end, self.content.similar(key), ValueMatch.SIMILAR, _CORRECTED)
            text = " ".join(word.text for word in self.words[start:end])
            for column in self.columns_beside(start, end, before=5):
                if any(text.lower() in value.lower() for value in self.content.columns[column].values):
                    self.add(start, end, [Hit(column, text)], ValueMatch.PART, STRONG)

    def kin_of_values(self) -> None:
        lowered = [word.text.lower() for word in self.words]
        for position, word in enumerate(self.words):
            if len(word.text) < 4 or is_stop_word(word):
                continue
            for hit, end in self.content.kin(lowered, position):
                if not any(first <= position and end <= last for first, last in self.taken):
                    self.add(position, end, [hit], ValueMatch.SIMILAR, POSSIBLE)

    def numbers(self) -> None:
        for number in self.plain_numbers():
            span = (number.start, number.end)
            beside = self.columns_beside(*span) | self.columns_of_years(number)
            hits = self.content.number(number.text)
            for hit in hits:
                name = beside.get(hit.column)
                is_clear = name is MatchKind.EXACT or (len(hits) == 1 and (name or len(hit.value) > 1))
                self.add(*span, [hit], ValueMatch.NUMBER, _CLEAR if is_clear else _FAINT)
            stored = {hit.column for hit in hits}
            for column, name in beside.items():
                looks = looks_of(column, self.schema, self.content)
                if name is MatchKind.EXACT and column not in stored and looks is Looks.NUMBER:
                    # A single digit counts things more often than it is compared with a column.
                    strength = _CLEAR if len(number.text) > 1 else _FAINT
                    self.add(*span, [Hit(column, number.text)], ValueMatch.NUMBER, strength)

    def plain_numbers(self) -> Iterator[Number]:
        """Numbers outside dates, and digits with leading zeros."""
        days = [(date.start, date.end) for date in dates_in(self.words) if date.day is not None]
        for number in numbers_in(self.words):
            if not any(first <= number.start < last for first, last in days):
                yield number
        for position, word in enumerate(self.words):
            if word.text.isdecimal() and plain_number(word.text) is None:
                yield Number(position, position + 1, word.text)

    def columns_of_years(self, number: Number) -> dict[int, MatchKind]:
        """A number that looks like a year counts as a name of every year column."""
        if not number.is_year:
            return {}
        columns = enumerate(self.schema.columns)
        return {index: MatchKind.EXACT for index, column in columns if "year" in name_lemmas(column.natural)}

    def columns_beside(self, start: int, end: int, before: int = 3) -> dict[int, MatchKind]:
        """The columns named up to `before` words before the span or two after it, with the kind of match."""
        beside: dict[int, MatchKind] = {}
        for link in self.names:
            is_beside = 0 <= start - link.end <= before or 0 <= link.start - end <= 2
            if link.item is Item.COLUMN and is_beside and beside.get(link.index) is not MatchKind.EXACT:
                beside[link.index] = link.kind
        return beside

    def dates(self) -> None:
        """Link each date to the columns of dates, written in their forms."""
        for date in dates_in(self.words):
            forms = self.date_forms()
            values = {column: render_date(date, form) for column, form in forms.items() if form is not None}
            self.add_times(date.start, date.end, values)

    def durations(self) -> None:
        """Link durations to clock times: `4 minutes` begins 4:15."""
        for number in numbers_in(self.words):
            if number.end < len(self.words) and self.words[number.end].lemma in ("minute", "hour"):
                text = f"{number.text}:"
                clocks = {
                    column: text
                    for column, form in self.date_forms().items()
                    if form is None and any(value.startswith(text) for value in self.content.columns[column].values)
                }
                self.add_times(number.start, number.end + 1, clocks)

    def date_forms(self) -> dict[int, str | None]:
        """The columns of dates and times with their date forms; None for times of day."""
        return {
            index: column.date_form if column.values else _USUAL_FORM
            for index, column in enumerate(self.content.columns)
            if looks_of(index, self.schema, self.content) is Looks.TIME
        }

    def add_times(self, start: int, end: int, values: Mapping[int, str | None]) -> None:
        beside = self.columns_beside(start, end)
        for column, value in values.items():
            if value:
                strength = _CLEAR if len(values) == 1 or column in beside else POSSIBLE
                self.add(start, end, [Hit(column, value)], ValueMatch.TIME, strength)


_USUAL_FORM = "YYYY-MM-DD"


def _stored_forms(concept: Concept, content: ContentIndex) -> list[Hit]:
    """The stored values that mean a concept; its codes count only in columns about its topic."""
    hits = [hit for form in concept.forms for hit in content.whole(compact(form))]
    for code in concept.codes:
        coded = content.whole(compact(code)) + content.number(code)
        hits += [hit for hit in coded if concept.topic in content.columns[hit.column].topics]
    return hits
