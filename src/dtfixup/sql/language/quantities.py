"""Numbers in a question, in figures or in words.

In: the words of a question. Out: `Number`s, each with its span of words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dtfixup.sql.language.words import Word


@dataclass(frozen=True, slots=True)
class Number:
    """The number that the words `start:end` express; `text` is a valid SQL number."""

    start: int
    end: int
    text: str
    is_ordinal: bool = False

    @property
    def is_year(self) -> bool:
        return _YEAR.fullmatch(self.text) is not None


def plain_number(text: str) -> str | None:
    """The shortest usual spelling of a number; None for anything else, leading zeros included.

    >>> plain_number("1,000.50"), plain_number("84.0"), plain_number("007"), plain_number("-3")
    ('1000.5', '84', None, '-3')
    """
    if not _NUMBER.fullmatch(text):
        return None
    figures = text.replace(",", "")
    if "." in figures:
        figures = figures.rstrip("0").rstrip(".")
    return "0" if figures == "-0" else figures


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?", re.ASCII)
_ORDINAL_FIGURES = re.compile(r"([1-9]\d*)(?:st|nd|rd|th)", re.ASCII | re.IGNORECASE)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d", re.ASCII)
_DECADE = re.compile(r"([12]\d{2}0)'?s", re.ASCII)
_FIGURES_WITH_UNIT = re.compile(r"([1-9]\d*)([a-z]{1,4})", re.ASCII | re.IGNORECASE)
_CARDINAL_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
"""
_ORDINAL_WORDS = """
    zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
_SMALL = {word: value for value, word in enumerate(_CARDINAL_WORDS.split())}
_ORDINALS = {word: value for value, word in enumerate(_ORDINAL_WORDS.split())}
_TENS = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_UNITS = {**_SMALL, **_TENS}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SUFFIXES = {"k": 1000, "m": 10**6, "bn": 10**9, "b": 10**9}
_TIMES = {
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "single": 1,
    "double": 2,
    "couple": 2,
    "pair": 2,
    "triple": 3,
    "half": 0.5,
}


def numbers_in(words: Sequence[Word]) -> tuple[Number, ...]:
    """Every number of a question from left to right, in its longest reading.

    >>> from dtfixup.sql.language.words import split_words
    >>> [number.text for number in numbers_in(split_words("two hundred and fifty, 1.5 million, the 3rd, twice, -4"))]
    ['250', '1500000', '3', '2', '-4']
    """
    numbers = []
    position = 0
    while position < len(words):
        number = _number_at(words, position)
        numbers += [number] if number else []
        position = number.end if number else position + 1
    return tuple(numbers)


def _number_at(words: Sequence[Word], start: int) -> Number | None:
    text = words[start].text.lower()
    if text == "-" and start + 1 < len(words):
        follows = start > 0 and words[start - 1].end == words[start].start
        number = plain_number(words[start + 1].text) if words[start].end == words[start + 1].start else None
        return Number(start, start + 2, f"-{number}") if number and number != "0" and not follows else None
    if plain_number(text) is not None or text in _UNITS or text in ("hundred", "thousand", "million", "dozen"):
        return _cardinal_at(words, start)
    if text in _ORDINALS:
        return Number(start, start + 1, str(_ORDINALS[text]), is_ordinal=True)
    if text in _TIMES:
        return Number(start, start + 1, str(_TIMES[text]))
    if match := _ORDINAL_FIGURES.fullmatch(text):
        return Number(start, start + 1, match[1], is_ordinal=True)
    if match := _DECADE.fullmatch(text):
        return Number(start, start + 1, match[1])
    if match := _FIGURES_WITH_UNIT.fullmatch(text):
        return Number(start, start + 1, str(int(match[1]) * _SUFFIXES.get(match[2], 1)))
    return None


def _cardinal_at(words: Sequence[Word], start: int) -> Number | None:
    """Read `2 million` and `one hundred and twenty-five`: figures or small numbers, summed between scale words."""
    figures = plain_number(words[start].text)
    if figures and (start + 1 == len(words) or words[start + 1].text.lower() not in _SCALES):
        return Number(start, start + 1, figures)
    total, group, end = Decimal(0), Decimal(0), start
    previous = None  # the last part read: "unit", "tens", "scale" or "figures"
    while end < len(words):
        text = words[end].text.lower()
        figures = plain_number(text)
        if figures is not None and previous is None:
            group, previous = Decimal(figures), "figures"
        elif text in _UNITS and (previous in (None, "scale") or (previous == "tens" and 0 < _UNITS[text] < 10)):
            group += _UNITS[text]
            previous = "tens" if _UNITS[text] >= 20 else "unit"
        elif text in _SCALES and previous != "scale" and (previous or text != "trillion"):
            group = (group or Decimal(1)) * _SCALES[text]
            if _SCALES[text] >= 1000:
                total, group = total + group, Decimal(0)
            previous = "scale"
        elif text in _SCALES and previous == "scale" and _SCALES[text] >= 1000 and group:
            total, group = total + group * _SCALES[text], Decimal(0)
        elif not _joins(words, end, previous):
            break
        end += 1
    number = plain_number(f"{total + group:f}")
    return Number(start, end, number) if number else None


def _joins(words: Sequence[Word], position: int, previous: str | None) -> bool:
    """Whether the word joins two parts of one number: the hyphen of twenty-five, the `and` of one hundred and five."""
    if position + 1 >= len(words):
        return False
    text, following = words[position].text.lower(), words[position + 1].text.lower()
    if text == "-":
        return previous == "tens" and 0 < _UNITS.get(following, 0) < 10
    return text == "and" and previous == "scale" and following in _UNITS
