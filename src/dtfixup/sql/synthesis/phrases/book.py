"""The phrase book: ways of saying things, read from `book.txt`.

In: the text of the book. Out: `Book`, which says a rule with what fills its slots. A way of saying it whose slots are
not given is not taken, so that a rule holds all ways and what is known of a database chooses among them.
"""

import random
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TypeAlias

from dtfixup.errors import ConfigError

Slots: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place that is filled when the phrase is said."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Texts of which any will do."""

    branches: tuple["Text", ...]


Text: TypeAlias = tuple[str | Slot | Choice, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of saying a rule; `kind` tells where it fits, `weight` how often it is taken."""

    kind: str
    weight: int
    text: Text


@dataclass(frozen=True, slots=True)
class Said:
    """A phrase with its slots filled; `<are|is>` is still open until its number is known."""

    kind: str
    text: str

    def many(self) -> str:
        return in_number(self.text, is_plural=True)

    def one(self) -> str:
        return in_number(self.text, is_plural=False)


class Book:
    """Rules by name, each a list of ways."""

    def __init__(self, rules: Mapping[str, tuple[Way, ...]]) -> None:
        self.rules = rules

    def say(self, rule: str, slots: Slots, chance: random.Random, kinds: Collection[str] | None = None) -> Said | None:
        """A way of saying a rule, by weight, of those that the slots fill and whose kind is wanted; None for none."""
        ways = [way for way in self.rules[rule] if (kinds is None or way.kind in kinds) and _can_fill(way.text, slots)]
        if not ways:
            return None
        way = chance.choices(ways, [way.weight for way in ways])[0]
        return Said(way.kind, tidy(_fill(way.text, slots, chance)))

    def count(self, rule: str) -> int:
        """How many texts a rule has, slots left as they are."""
        return sum(_count(way.text) for way in self.rules[rule])


@lru_cache(maxsize=1)
def book() -> Book:
    """The bundled book, read once."""
    return read_book(files("dtfixup.sql.synthesis.phrases").joinpath("book.txt").read_text(encoding="utf-8"))


_WAY = re.compile(r"([A-Za-z?!]+)(\d*)(?: (.*))?")


def read_book(text: str) -> Book:
    """Read rules in the form that `book.txt` explains.

    >>> tiny = read_book("[ask]\\n? how (many|few) {things} <are|is> there")
    >>> tiny.say("ask", {"things": "cats"}, random.Random(1)).many()
    'how many cats are there'
    """
    rules: dict[str, list[Way]] = {}
    name = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            name = line.strip("[] ")
            if name in rules:
                raise ConfigError(f"phrase book, line {number}: rule {name!r} is there twice")
            rules[name] = []
        else:
            match = _WAY.fullmatch(line)
            if name is None or match is None:
                raise ConfigError(f"phrase book, line {number}: expected a kind and a text, got {line!r}")
            rules[name].append(Way(match[1], int(match[2] or 1), _parse(match[3] or "", number)))
    return Book({name: tuple(ways) for name, ways in rules.items()})


_TOKEN = re.compile(r"[()|]|\{\w+\}|<[^<>]*>|[^()|{}<>]+")


def _parse(text: str, line: int) -> Text:
    """A text with its choices, which may be nested."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ConfigError(f"phrase book, line {line}: {text!r} has a brace or an angle too many")
    found, end = _parse_sequence(tokens, 0, line)
    if end != len(tokens):
        raise ConfigError(f"phrase book, line {line}: {text!r} has a parenthesis or a bar too many")
    return found


def _parse_sequence(tokens: list[str], position: int, line: int) -> tuple[Text, int]:
    parts: list[str | Slot | Choice] = []
    while position < len(tokens) and tokens[position] not in ")|":
        token = tokens[position]
        position += 1
        if token.startswith("{"):
            parts.append(Slot(token[1:-1]))
        elif token == "(":
            branches: list[Text] = []
            while True:
                branch, position = _parse_sequence(tokens, position, line)
                branches.append(branch)
                if position == len(tokens):
                    raise ConfigError(f"phrase book, line {line}: a parenthesis is not closed")
                position += 1
                if tokens[position - 1] == ")":
                    break
            parts.append(Choice(tuple(branches)))
        else:
            parts.append(token)
    return tuple(parts), position


def _can_fill(text: Text, slots: Slots) -> bool:
    return all(
        part.name in slots
        if isinstance(part, Slot)
        else isinstance(part, str) or any(_can_fill(branch, slots) for branch in part.branches)
        for part in text
    )


def _fill(text: Text, slots: Slots, chance: random.Random) -> str:
    return "".join(_fill_part(part, slots, chance) for part in text)


def _fill_part(part: str | Slot | Choice, slots: Slots, chance: random.Random) -> str:
    match part:
        case Slot(name):
            return slots[name]
        case Choice(branches):
            return _fill(chance.choice([branch for branch in branches if _can_fill(branch, slots)]), slots, chance)
        case _:
            return part


def _count(text: Text) -> int:
    total = 1
    for part in text:
        if isinstance(part, Choice):
            total *= sum(map(_count, part.branches))
    return total


def slots_in(text: Text) -> Iterator[str]:
    """The names of all slots of a text."""
    for part in text:
        if isinstance(part, Slot):
            yield part.name
        elif isinstance(part, Choice):
            for branch in part.branches:
                yield from slots_in(branch)


_NUMBERED = re.compile(r"<([^<>|]*)\|([^<>|]*)>")
_BLANKS = re.compile(r"\s+")
_BEFORE_MARK = re.compile(r"\s+([,?:.])")
_ARTICLE = re.compile(r"\ban? (?=([\"'\u201c]?)([\w-]+))")
_SOUNDS_OTHERWISE = re.compile(r"(?:uni|use|usa|eu|one|once|ufo|uk|u\.|ura)", re.IGNORECASE)
_SILENT_H = re.compile(r"(?:hour|honou?r|heir|honest)", re.IGNORECASE)
_VOWEL_LETTERS = "AEFHILMNORSX"


def in_number(text: str, *, is_plural: bool) -> str:
    """A text whose `<are|is>` are settled.

    >>> in_number("that <cost|costs> 3", is_plural=False)
    'that costs 3'
    """
    return _NUMBERED.sub(r"\1" if is_plural else r"\2", text)


def tidy(text: str) -> str:
    """Single blanks, none before a mark, and `a` or `an` as the next word sounds.

    >>> tidy("a  age of 3 ,  an unit")
    'an age of 3, a unit'
    """
    text = _BEFORE_MARK.sub(r"\1", _BLANKS.sub(" ", text)).strip()
    return _ARTICLE.sub(_article, text)


def _article(match: re.Match[str]) -> str:
    """`a` or `an`; letters that stand alone or in capitals are spelt out: an S, an MRI, a UFO."""
    word = match[2]
    if word in ("and", "or", "to", "is", "as"):  # the letter a, and not an article
        return match.group()
    if len(word) == 1 or (word.isupper() and len(word) < 5):
        begins_vowel = word[0].upper() in _VOWEL_LETTERS
    else:
        begins_vowel = word[0].lower() in "aeiou" and not _SOUNDS_OTHERWISE.match(word)
        begins_vowel = begins_vowel or _SILENT_H.match(word) is not None
    return "an " if begins_vowel else "a "
