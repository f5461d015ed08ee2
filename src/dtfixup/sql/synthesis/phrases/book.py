"""The phrase book: a grammar of wordings, read from `book.txt`.

In: the text of the book. Out: a `Book`, which words a rule with given slots, and the framing of a whole question.
An alternative whose slots are not all given is never chosen, so what is known of a database selects among the wordings.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TypeAlias

from dtfixup.errors import ConfigError

Slots: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place to fill with a given text."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Texts to choose from at random."""

    branches: tuple["Text", ...]


Text: TypeAlias = tuple[str | Slot | Choice, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One wording of a rule; `kind` is its grammatical role, `weight` its relative frequency."""

    kind: str
    weight: int
    text: Text


@dataclass(frozen=True, slots=True)
class Phrase:
    """A wording with its slots filled; forms such as `<are|is>` stay open until the number is chosen."""

    kind: str
    text: str

    def many(self) -> str:
        return in_number(self.text, is_plural=True)

    def one(self) -> str:
        return in_number(self.text, is_plural=False)


class Book:
    """Rules by name, each with its alternatives."""

    def __init__(self, rules: Mapping[str, tuple[Alternative, ...]]) -> None:
        self.rules = rules

    def choose(self, rule: str, slots: Slots, rng: random.Random) -> Phrase | None:
        """A random wording of a rule by weight, or None where the slots fill no alternative."""
        alternatives = [alternative for alternative in self.rules[rule] if _can_fill(alternative.text, slots)]
        if not alternatives:
            return None
        alternative = rng.choices(alternatives, [alternative.weight for alternative in alternatives])[0]
        return Phrase(alternative.kind, tidy(_fill(alternative.text, slots, rng)))


@lru_cache(maxsize=1)
def book() -> Book:
    """The bundled book, read once."""
    return read_book(files("dtfixup.sql.synthesis.phrases").joinpath("book.txt").read_text(encoding="utf-8"))


_ALTERNATIVE = re.compile(r"([A-Za-z?!]+)(\d*)(?: (.*))?")


def read_book(text: str) -> Book:
    """Read rules in the format that `book.txt` explains.

    >>> tiny = read_book("[ask]\\n? how (many|few) {things} <are|is> there")
    >>> tiny.choose("ask", {"things": "cats"}, random.Random(1)).many()
    'how many cats are there'
    """
    rules: dict[str, list[Alternative]] = {}
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
            match = _ALTERNATIVE.fullmatch(line)
            if name is None or match is None:
                raise ConfigError(f"phrase book, line {number}: expected a kind and a text, got {line!r}")
            rules[name].append(Alternative(match[1], int(match[2] or 1), _parse(match[3] or "", number)))
    return Book({name: tuple(alternatives) for name, alternatives in rules.items()})


_TOKEN = re.compile(r"[()|]|\{\w+\}|<[^<>]*>|[^()|{}<>]+")


def _parse(text: str, line: int) -> Text:
    """Parse a text with its choices, which may be nested."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ConfigError(f"phrase book, line {line}: {text!r} has a brace or an angle too many")
    parsed, end = _parse_sequence(tokens, 0, line)
    if end != len(tokens):
        raise ConfigError(f"phrase book, line {line}: {text!r} has a parenthesis or a bar too many")
    return parsed


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


def _fill(text: Text, slots: Slots, rng: random.Random) -> str:
    return "".join(_fill_part(part, slots, rng) for part in text)


def _fill_part(part: str | Slot | Choice, slots: Slots, rng: random.Random) -> str:
    match part:
        case Slot(name):
            return slots[name]
        case Choice(branches):
            return _fill(rng.choice([branch for branch in branches if _can_fill(branch, slots)]), slots, rng)
        case _:
            return part


def slots_in(text: Text) -> Iterator[str]:
    """Yield the names of all slots in a text."""
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
    """A text with forms such as `<are|is>` in one number.

    >>> in_number("that <cost|costs> 3", is_plural=False)
    'that costs 3'
    """
    return _NUMBERED.sub(r"\1" if is_plural else r"\2", text)


def tidy(text: str) -> str:
    """A text with single spaces, none before punctuation, and `a` or `an` by the sound of the next word.

    >>> tidy("a  age of 3 ,  an unit")
    'an age of 3, a unit'
    """
    text = _BEFORE_MARK.sub(r"\1", _BLANKS.sub(" ", text)).strip()
    return _ARTICLE.sub(_article, text)


def _article(match: re.Match[str]) -> str:
    """`a` or `an`; single and capital letters are spelt out: an S, an MRI, a UFO."""
    word = match[2]
    if word in ("and", "or", "to", "is", "as"):  # the letter a, not an article
        return match.group()
    if len(word) == 1 or (word.isupper() and len(word) < 5):
        begins_vowel = word[0].upper() in _VOWEL_LETTERS
    else:
        begins_vowel = word[0].lower() in "aeiou" and not _SOUNDS_OTHERWISE.match(word)
        begins_vowel = begins_vowel or _SILENT_H.match(word) is not None
    return "an " if begins_vowel else "a "


_SMALL_TALK = 0.05
_LOWER_START = 0.15
_NO_MARK = 0.2
_WRAPPED = ("N", "n", "A", "a", "w")


def full_question(
    phrase: Phrase, book: Book, rng: random.Random, *, is_person: bool = False, is_number: bool = False
) -> str:
    """A whole question: polite or terse, with or without small talk, capitals and a closing mark.

    `is_person` tells whether it can ask `who`, `is_number` whether the answer is computed.
    """
    text, kind = phrase.many(), phrase.kind
    if kind in _WRAPPED:
        slots = {"it": text, "it_person" if is_person else "it_thing": text}
        slots |= {"it_number": text} if is_number else {}
        wrapped = book.choose(f"wrap {kind}", slots, rng)
        assert wrapped is not None
        text, kind = wrapped.many(), wrapped.kind
    talk = book.choose("small talk", {}, rng) if rng.random() < _SMALL_TALK else None
    if talk is not None:
        text = f"{talk.text}{rng.choice((': ', ', ', '. ', ' - '))}{text}"
        if ". " in text[: len(talk.text) + 2]:
            head, _, rest = text.partition(". ")
            text = f"{head}. {_capital(rest)}"
    if rng.random() >= _LOWER_START:
        text = _capital(text)
    if rng.random() >= _NO_MARK:
        text += "?" if kind == "?" else "." if rng.random() < 0.5 else ""
    return tidy(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
