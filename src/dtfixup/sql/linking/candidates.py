"""Literal candidates: the texts, numbers and dates that a query for a question may compare columns with.

In: a question with its links. Out: `Candidate`s, the most useful first. The grammar builds LIKE patterns around
candidates, so `%Hey%` needs the candidate `Hey`. Where a stored value and the question differ in spelling, both are
candidates.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dtfixup.sql.database.content import ContentIndex, unknown_content, words_of
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.language.dates import MONTHS, Date, dates_in, render_date
from dtfixup.sql.language.quantities import numbers_in, plain_number
from dtfixup.sql.language.words import Word, begins_sentence, is_english, is_stop_word, quoted_spans
from dtfixup.sql.language.world import mentions
from dtfixup.sql.linking.links import Item, Links, MatchKind, ValueLink, ValueMatch
from dtfixup.sql.linking.name_links import name_index
from dtfixup.sql.linking.value_links import POSSIBLE, STRONG


class Source(StrEnum):
    """Where a candidate comes from, in order of use."""

    QUOTED = "quoted"
    STORED = "stored"
    """A stored value in the question."""
    NUMBER = "number"
    DATE = "date"
    WORLD = "world"
    """Other words for what the question names."""
    CONSTANT = "constant"
    """A number that queries need and questions leave out."""
    CAPITALISED = "capitalised"
    FRAGMENT = "fragment"
    """The core of a LIKE pattern, such as the letter after `the letter`; a word that is not English."""
    SIMILAR = "similar"
    """A stored value of which the question has a part, a related form or a typing mistake."""
    CHOICE = "choice"
    """A value of a named column that has few values."""
    WORD = "word"
    """A word that names nothing, if there are no rows to search."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A literal; if known, `column` is the likeliest to hold it and the words `start:end` express it."""

    text: str
    kind: ValueKind
    column: int | None
    start: int | None
    end: int | None
    source: Source


def candidates(
    words: Sequence[Word], question: str, schema: Schema, content: ContentIndex | None, links: Links
) -> tuple[Candidate, ...]:
    """At most 64 candidates, the most useful first. A text occurs once, with the first column found for it."""
    by_text: dict[str, Candidate] = {}
    for candidate in _Search(words, question, schema, content or unknown_content(schema), links).all():
        earlier = by_text.get(candidate.text)
        if earlier is None:
            by_text[candidate.text] = candidate
        elif earlier.column is None and candidate.column is not None:
            by_text[candidate.text] = replace(earlier, column=candidate.column)
    return tuple(by_text.values())[:_MOST_CANDIDATES]


def covers(candidate: Candidate, literal: str) -> bool:
    """Whether the candidate is the whole literal: numbers by value, texts by every letter and its case.

    The spelling of a number does not matter: `5` covers the text `5` and the number 5.0.
    """
    if candidate.text == literal:
        return True
    number = plain_number(literal)
    return number is not None and number == plain_number(candidate.text)


_MOST_CANDIDATES = 64
_MOST_PARTS = 12  # values of which the question has a part
_LONGEST_PART = 4  # words of a part of a longer name
# Phrases before a small number whose query may hold a neighbouring one: "more than 2" is also written >= 3, and
# "at most 2" < 3: the number + 1; "less than 3" is also <= 2, and "at least 3" > 2: the number - 1.
_MAY_ADD_ONE = frozenset(["more than", "greater than", "at most"])
_MAY_SUBTRACT_ONE = frozenset(["less than", "fewer than", "at least"])
_SMALL_WORDS = "of the a an and to in on for as de - , ' 's & ."
_INSIDE_NAMES = frozenset(_SMALL_WORDS.split())
_LETTER_WORDS = "letter character char substring string word phrase prefix suffix contain include start begin end"
_BEFORE_LETTERS = frozenset(_LETTER_WORDS.split())
_BEFORE_NAMES = frozenset(["named", "called", "titled", "name", "title", "code", "text", "like"])
_SKIPPED = frozenset(["with", "the", "by", "as", "of", "is", "from", "in"])


class _Search:
    """The search over one question, source by source."""

    def __init__(
        self, words: Sequence[Word], question: str, schema: Schema, content: ContentIndex, links: Links
    ) -> None:
        self.words = words
        self.question = question
        self.schema = schema
        self.content = content
        self.links = links
        self.named = {position for link in links.names for position in range(link.start, link.end)}
        self.dates_in_question = dates_in(words)
        self.dated = {position for date in self.dates_in_question for position in range(date.start, date.end)}
        whole = [link for link in links.values if link.how is ValueMatch.WHOLE and link.strength >= STRONG]
        self.stored_at = {position for link in whole for position in range(link.start, link.end)}

    def all(self) -> Iterator[Candidate]:
        yield from self.quoted()
        yield from self.linked(ValueMatch.WHOLE, Source.STORED)
        yield from self.numbers()
        for text in ("1", "0"):
            yield Candidate(text, ValueKind.NUMBER, None, None, None, Source.CONSTANT)
        yield from self.dates()
        yield from self.linked(ValueMatch.WORLD, Source.WORLD)
        yield from self.capitalised()
        yield from self.fragments()
        yield from self.linked(ValueMatch.SIMILAR, Source.SIMILAR)
        yield from self.parts()
        yield from self.neighbours()
        yield from self.choices()
        if not self.content.has_rows:
            yield from self.world_forms()
            yield from self.unlinked_words()

    def from_words(self, start: int, end: int, source: Source, text: str | None = None) -> Candidate:
        """The candidate of the words `start:end`, as written or as `text`."""
        text = self.question[self.words[start].start : self.words[end - 1].end] if text is None else text
        return Candidate(plain_number(text) or text, _kind_of(text), None, start, end, source)

    def stored(self, link: ValueLink, source: Source) -> Iterator[Candidate]:
        """A stored value, also without the blanks around it."""
        kind = ValueKind.TIME if link.how is ValueMatch.TIME else _kind_of(link.value)
        for text in (plain_number(link.value) or link.value, link.value.strip()):
            if text:
                yield Candidate(text, kind, link.column, link.start, link.end, source)

    def possible(self, how: ValueMatch) -> list[ValueLink]:
        links = [link for link in self.links.values if link.how is how and link.strength >= POSSIBLE]
        return sorted(links, key=lambda link: -link.strength)

    def linked(self, how: ValueMatch, source: Source) -> Iterator[Candidate]:
        for link in self.possible(how):
            yield from self.stored(link, source)

    def parts(self) -> Iterator[Candidate]:
        """Values of which the question has a part, those with the fewest missing words first."""
        lemmas = {word.lemma for word in self.words}

        def missing_share(link: ValueLink) -> float:
            value_words = words_of(link.value)
            return sum(word not in lemmas for word in value_words) / max(1, len(value_words))

        links = sorted(self.possible(ValueMatch.PART), key=lambda link: (-link.strength, missing_share(link)))
        for link in links[:_MOST_PARTS]:
            yield from self.stored(link, Source.SIMILAR)
            word = self.words[link.start]
            if link.end == link.start + 1 and word.text.islower():  # `all chains` may be all that contain `chain`
                yield self.from_words(link.start, link.end, Source.FRAGMENT, word.lemma)

    def quoted(self) -> Iterator[Candidate]:
        for start, end in quoted_spans(self.words):
            yield self.from_words(start, end, Source.QUOTED)
            if end - start > 1 and self.words[end - 1].is_mark:  # "Hey," is a comma after a word in quotes
                yield self.from_words(start, end - 1, Source.QUOTED)

    def numbers(self) -> Iterator[Candidate]:
        for link in self.links.values:
            if link.how is ValueMatch.NUMBER and link.strength >= STRONG:
                yield from self.stored(link, Source.NUMBER)
        for number in numbers_in(self.words):
            if number.start not in self.dated or len(number.text) == 4:  # of a date, only the year
                yield self.from_words(number.start, number.end, Source.NUMBER, number.text)
        for position, word in enumerate(self.words):
            if word.text[0].isdigit() and plain_number(word.text) is None and position not in self.dated:  # 007, 12:30
                yield self.from_words(position, position + 1, Source.NUMBER)
            elif word.text == "+" and self.is_capitalised(position + 1):  # +31, as telephone numbers begin
                yield self.from_words(position, position + 2, Source.NUMBER)

    def neighbours(self) -> Iterator[Candidate]:
        """A small number with a comparison also gives its neighbour: `at least 3` is `> 2`."""
        for number in numbers_in(self.words):
            before = " ".join(word.text.lower() for word in self.words[max(0, number.start - 2) : number.start])
            after = " ".join(word.text.lower() for word in self.words[number.end : number.end + 2])
            if number.text.isdecimal() and len(number.text) < 3:
                if before in _MAY_ADD_ONE or after == "or less":
                    yield self.from_words(number.start, number.end, Source.CONSTANT, str(int(number.text) + 1))
                if before in _MAY_SUBTRACT_ONE or after == "or more":
                    yield self.from_words(number.start, number.end, Source.CONSTANT, str(int(number.text) - 1))

    def dates(self) -> Iterator[Candidate]:
        """Dates in the forms of the columns, in the usual form and as written; a month alone also by its short name."""
        yield from self.linked(ValueMatch.TIME, Source.DATE)
        for date in self.dates_in_question:
            usual = MONTHS[date.month - 1][:3] if date.day is None else render_date(date, "YYYY-MM-DD")
            for text in (usual, self.from_words(date.start, date.end, Source.DATE).text):
                if text:
                    yield Candidate(text, ValueKind.TIME, None, date.start, date.end, Source.DATE)
        yield from self.ends_of_years()

    def ends_of_years(self) -> Iterator[Candidate]:
        """First and last days of years, if a column of dates or its table is named: `before 2010` is < 2010-01-01."""
        years = [number for number in numbers_in(self.words) if number.is_year and number.start not in self.dated]
        named = {(link.item, link.index) for link in self.links.names}
        for column, content in enumerate(self.content.columns):
            is_named = (Item.COLUMN, column) in named or (Item.TABLE, self.schema.columns[column].table) in named
            if content.date_form is None or not is_named:
                continue
            for number, (month, day) in itertools.product(years, ((1, 1), (12, 31))):
                date = Date(number.start, number.end, int(number.text), month, day)
                if text := render_date(date, content.date_form):
                    yield Candidate(text, ValueKind.TIME, column, number.start, number.end, Source.DATE)

    def capitalised(self) -> Iterator[Candidate]:
        """Whole names; if no such value is stored, also their parts, such as first and last names."""
        for start, end in self.capitalised_spans():
            yield self.from_words(start, end, Source.CAPITALISED)
            if self.stored_at.issuperset(range(start, end)):
                continue
            for length in range(min(end - start - 1, _LONGEST_PART), 0, -1):
                for first in range(start, end - length + 1):
                    if self.is_capitalised(first) and self.is_capitalised(first + length - 1):
                        yield self.from_words(first, first + length, Source.CAPITALISED)

    def capitalised_spans(self) -> Iterator[tuple[int, int]]:
        """Runs of capitalised words and digits, with up to two small words or marks between: `Balls to the Wall`."""
        position = 0
        while position < len(self.words):
            end = position + 1
            if not self.begins_name(position):
                position = end
                continue
            ahead = end
            while ahead < len(self.words) and ahead - end < 3:
                if self.is_capitalised(ahead):
                    end = ahead + 1
                elif self.words[ahead].text.lower() not in _INSIDE_NAMES:
                    break
                ahead += 1
            if end - position > 1 or position not in self.named:
                yield position, end
            position = end

    def begins_name(self, position: int) -> bool:
        word = self.words[position]
        if not word.text[0].isupper() or position in self.dated:
            return False
        if not begins_sentence(self.words, position):
            return True
        is_plain = position in self.named or is_stop_word(word)
        return not is_plain and (self.is_capitalised(position + 1) or not is_english(word.text))

    def is_capitalised(self, position: int) -> bool:
        return position < len(self.words) and (
            self.words[position].text[0].isupper() or self.words[position].text[0].isdigit()
        )

    def fragments(self) -> Iterator[Candidate]:
        """The word after `the letter`, `contains` or `named`, and words that are neither English nor a name."""
        for position, word in enumerate(self.words):
            if word.lemma == "null":
                yield self.from_words(position, position + 1, Source.FRAGMENT, "null")
            if word.text.isalpha() and position not in self.named and not is_english(word.text):
                yield self.from_words(position, position + 1, Source.FRAGMENT)
            introduces_letters = word.lemma in _BEFORE_LETTERS
            if introduces_letters or word.text.lower() in _BEFORE_NAMES:
                yield from self.fragment_after(position, introduces_letters)

    def fragment_after(self, position: int, introduces_letters: bool) -> Iterator[Candidate]:
        position += 1
        while position < len(self.words) and self.words[position].text.lower() in _SKIPPED:
            position += 1
        if position == len(self.words) or self.words[position].is_mark:
            return
        word = self.words[position]
        if len(word.text) == 1:
            for text in (word.text, word.text.swapcase()):  # inside a name or at its beginning
                yield self.from_words(position, position + 1, Source.FRAGMENT, text)
            return
        is_name = position not in self.named and not is_stop_word(word)
        if word.lemma not in _BEFORE_LETTERS if introduces_letters else is_name:
            yield self.from_words(position, position + 1, Source.FRAGMENT)

    def choices(self) -> Iterator[Candidate]:
        """All values of named columns that have few, first those of columns named exactly or by distinctive words."""
        distinctive = name_index(self.schema).distinctive
        ranks: dict[int, int] = {}
        for link in self.links.names:
            if link.item is Item.COLUMN and self.content.columns[link.index].is_choice:
                is_distinctive = any(word.lemma in distinctive for word in self.words[link.start : link.end])
                rank = 0 if link.kind is MatchKind.EXACT else 1 if is_distinctive else 2
                ranks[link.index] = min(rank, ranks.get(link.index, rank))
        for column in sorted(ranks, key=lambda column: (ranks[column], column)):
            for value in self.content.columns[column].values:
                yield Candidate(value, _kind_of(value), column, None, None, Source.CHOICE)

    def world_forms(self) -> Iterator[Candidate]:
        """Names and codes of concepts in the question, since no stored value tells which one is used."""
        for start, end, concepts in mentions(self.words):
            for concept in concepts:
                for form in (concept.name, *concept.codes):
                    yield self.from_words(start, end, Source.WORLD, form)

    def unlinked_words(self) -> Iterator[Candidate]:
        """Every word that names nothing, as written and with a capital."""
        for position, word in enumerate(self.words):
            if position in self.named or word.is_mark or is_stop_word(word) or word.text[0].isdigit():
                continue
            yield self.from_words(position, position + 1, Source.WORD)
            yield self.from_words(position, position + 1, Source.WORD, word.text.capitalize())
            if self.begins_name(position):  # MPEG audio file
                for end in range(position + 2, min(position + 4, len(self.words) + 1)):
                    if self.words[end - 1].is_mark or is_stop_word(self.words[end - 1]):
                        break
                    yield self.from_words(position, end, Source.WORD)


def _kind_of(text: str) -> ValueKind:
    return ValueKind.NUMBER if plain_number(text) is not None else ValueKind.TEXT
