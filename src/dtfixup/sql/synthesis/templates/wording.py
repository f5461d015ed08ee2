"""The words of a question on its way to a template: which are slots, and which are replaced.

In: a question, and from `maker.py` the things that its words name. Out: pieces of text and slots. The words that stay
fit questions over any database.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dtfixup.sql.language.quantities import numbers_in, plain_number
from dtfixup.sql.language.words import Word, compact, split_words
from dtfixup.sql.synthesis.templates.columns import is_plural
from dtfixup.sql.synthesis.templates.template import SlotKind, TemplateSlot

Span: TypeAlias = tuple[int, int]
"""The first word, and the one after the last."""

_ARTICLES = frozenset(["the", "all", "each", "every", "those", "these", "any", "a", "an", "different", "distinct"])

_WORDS_OF_QUESTIONS = """
    a above across all along alphabetic alphabetical alphabetically also among an and another any are as ascending
    associated at average be been before below between biggest both but by can common compute containing contain
    contained contains corresponding count decreasing descending did different display distinct do does each either end
    ends ending equal every exactly except exceed exceeds excluding exist exists few fewer fewest find following for
    frequent from get give given greater greatest had has have having higher highest how id in include
    includes including increasing is it its just larger largest least less letter lexicographic list listed lower lowest
    many max maximal maximum me mean min minimal minimum more most much n't neither never no none nor not number numbers
    occur occurs of on one ones only or order ordered ordering over overall per please possible prefix provide
    ranked report result results return returned show shown smaller smallest so some sort sorted start starting starts
    string substring such sum tell than that the their them then there these they this those times to together top
    total under unique up was we well were what when whether which whose with without
    word would you after earlier earliest later latest recent recently begin begins beginning same other
    appear appears else belong belongs related who according sorting orders information shared where select
    involved assigned recorded record kind kinds correspond appeared available ever
"""
PLAIN_WORDS = frozenset(_WORDS_OF_QUESTIONS.split())
"""Words of questions over any database; other words beside the slots belong to the source's database."""
UNITS = frozenset("$%€£#@")
_WORDS_OF_PATTERNS = "start starts starting begin begins beginning end ends ending prefix letter word"
PATTERN_WORDS = frozenset(_WORDS_OF_PATTERNS.split())
PREPOSITIONS = frozenset(["in", "from", "at", "on", "for", "by", "of", "with"])
WHO = "who"
KINDS_OF_ANSWERS = frozenset([WHO, "when", "where"])
PERSONAL = frozenset([WHO, "live", "living", "reside", "born"])
"""Lemmas of words that are used of people alone."""
NAMING = frozenset([WHO, "full"])
"""Lemmas of words that ask for names without that word."""
CALLS = frozenset(["named", "called", "titled"])
_WORDS_OF_DEGREES = """
    biggest largest smallest larger smaller greatest highest lowest higher lower latest earliest earlier later recent
    recently
"""
DEGREES = frozenset(_WORDS_OF_DEGREES.split())
"""Plain words that can imply a column by themselves: the highest mountain."""
NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class UnusableError(Exception):
    """The reason why a question gives no template."""


class Wording:
    """The words of a question, and what is known of them so far."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = split_words(question)
        self.lemmas = [word.lemma for word in self.words]
        self.taken: dict[int, Span] = {}  # word -> the span that it belongs to
        self.slots: dict[Span, TemplateSlot] = {}
        self.inserted: dict[int, TemplateSlot] = {}  # word -> the slot inserted before it
        self.reworded: dict[int, tuple[int, str]] = {}  # word -> the end of a phrase and the words that replace it
        self.turned: dict[int, Span] = {}  # first word of a value -> the table after it, which is to come first

    def take(self, span: Span, slot: TemplateSlot) -> None:
        if any(position in self.taken for position in range(*span)):
            raise UnusableError("two things named by the same words")
        self.taken.update(dict.fromkeys(range(*span), span))
        self.slots[span] = slot

    def spans_of(self, lemmas: tuple[str, ...]) -> list[Span]:
        """Where free words are a name; `named` and `aging` have the lemmas of names but mean something else."""
        spans = []
        for start in range(len(self.words) - len(lemmas) + 1 if lemmas else 0):
            span = (start, start + len(lemmas))
            if tuple(self.lemmas[start : span[1]]) == lemmas and self.taken.keys().isdisjoint(range(*span)):
                last = self.words[span[1] - 1].text.lower()
                if last == lemmas[-1] or is_plural(last):
                    spans.append(span)
        return spans

    def skip_marks_before(self, position: int) -> int:
        """Go back over punctuation right before a word."""
        while position > 0 and self.words[position - 1].is_mark:
            position -= 1
        return position

    def skip_articles(self, position: int) -> int:
        """Go on over `the`, `all` and the like."""
        while position < len(self.words) and self.lemmas[position] in _ARTICLES:
            position += 1
        return position

    def reword(self, position: int) -> bool:
        """Replace a verb between two tables by a general one: `courses taught by teachers`, `who own dogs`."""
        if not 0 < position < len(self.words) - 1 or position - 1 in self.inserted:
            return False
        text, before, after = (self.words[place].text.lower() for place in (position, position - 1, position + 1))
        is_after_table = position - 1 in self.taken and self.slots[self.taken[position - 1]].kind is SlotKind.TABLE
        if not text.isalpha() or (position + 1 in self.taken) == (after in PREPOSITIONS):
            return False
        span = self.taken.get(self.skip_articles(position + (2 if after in PREPOSITIONS else 1)))
        if span is None or self.slots[span].kind is not SlotKind.TABLE:
            return False
        if after in PREPOSITIONS:
            leads = {"who": "are ", "that": "are ", "which": "are ", "have": "been ", "has": "been "}
            if not text.endswith(("ed", "en", "ght", "wn")) or not (
                is_after_table or before in leads or self.lemmas[position - 1] == "be"
            ):
                return False
            self.reworded[position] = (position + 2, f"{leads.get(before, '')}related to")
        elif before in ("who", "that", "not", "n't"):
            self.reworded[position] = (position + 1, "has" if text.endswith("s") else "have")
        return position in self.reworded

    def all_slots(self) -> Iterator[TemplateSlot]:
        return itertools.chain(self.slots.values(), self.inserted.values())

    def pieces(self) -> tuple[str | TemplateSlot, ...]:
        """The question with its slots, and the text between them as it was written."""
        pieces: list[str | TemplateSlot] = []
        text, end = "", 0
        position = 0
        while position < len(self.words):
            word, span = self.words[position], self.taken.get(position)
            text += self.question[end : word.start]
            if span is not None and position in self.turned:
                table = self.turned[position]
                pieces += [text, self.slots[table], " ", self.inserted[position], " ", self.slots[span]]
                text, position = "", table[1]
            else:
                if position in self.inserted:
                    pieces += [text, self.inserted[position]]
                    text = " "
                if position in self.reworded:
                    position, verb = self.reworded[position]
                    text += verb
                elif span is None:
                    text += "that" if word.text == WHO else word.text  # `who` asks for people only
                    position += 1
                else:
                    pieces += [text, self.slots[span]]
                    text, position = "", span[1]
            end = self.words[position - 1].end
        return (*pieces, text + self.question[end:])


_LONGEST_VALUE = 9  # words


def value_spans(literal: str, words: Sequence[Word]) -> list[tuple[int, int]]:
    """Where a question has a value: a number in one word, or a text without regard to case and punctuation."""
    plain = plain_number(literal)
    if plain is not None:
        return [
            (number.start, number.end)
            for number in numbers_in(words)
            if number.text == plain and not number.is_ordinal and number.end - number.start == 1
        ]
    key = compact(literal)
    spans = []
    for start in range(len(words)):
        text = ""
        for end in range(start + 1, min(start + _LONGEST_VALUE, len(words)) + 1):
            text += compact(words[end - 1].text)
            if key and text == key and not words[start].is_mark and not words[end - 1].is_mark:
                spans.append((start, end))
    return spans
