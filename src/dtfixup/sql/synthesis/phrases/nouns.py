"""Everyday nouns for tables and columns, in singular and plural, without the jargon of databases.

In: natural names of a schema. Out: `Noun`s, or None where a name is not everyday English.
"""

import re
from dataclasses import dataclass

from dtfixup.sql.language.words import is_english, lemma
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.templates.columns import inflect, is_plural, short_name, singular

_SMALL = frozenset(["of", "in", "for", "per", "to", "by", "on", "at", "from", "with", "and", "or"])
_ASKING = frozenset(
    ["how", "what", "when", "where", "who", "if", "is", "has", "all", "took", "left", "became", "since"]
)
_AFTER = frozenset(["made", "paid", "due", "outstanding", "payable", "left", "won", "spent", "active", "took"])
_MOST_WORDS = 4
_COUNTED = re.compile(
    r"(?:total )?(?:number|num|no) of (?:the )?(?P<of>.+)|(?P<count>.+) count|(?:number|num) (?P<bare>.+)"
)


@dataclass(frozen=True, slots=True)
class Noun:
    """A name in the singular and in the plural, and the lemma of its head."""

    one: str
    many: str
    head: str
    is_plural: bool = False
    """Whether even one has the plural: its sales."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The parts of a column's name: the noun, the unit, and what the column counts."""

    noun: Noun
    unit: str | None = None
    counted: str | None = None


def entity_noun(natural: str) -> Noun | None:
    """The noun for the rows of a table.

    >>> entity_noun("ref product categories").many, entity_noun("participates in"), entity_noun("staff").one
    ('product categories', None, 'staff member')
    """
    words = natural.lower().split()
    while len(words) > 1 and words[0] in lexicon().dropped_words:
        words = words[1:]
    while len(words) > 1 and words[-1] in lexicon().dropped_words:
        words = words[:-1]
    if not words or len(words) > 3 or not _SMALL.isdisjoint(words) or not all(map(_is_word, words)):
        return None
    last = lemma(words[-1])
    if (
        last in lexicon().not_entities
        or words[-1] in lexicon().not_entities
        or words[0].endswith(("tes", "ves", "ays", "akes"))
    ):
        return None
    if words[0] in ("has", "had", "have", "is") or words[-1].endswith("ing"):
        return None
    return noun_of(
        " ".join([*(word if word in lexicon().numbers else singular(word) for word in words[:-1]), words[-1]])
    )


def noun_of(name: str) -> Noun:
    """A name in singular and plural.

    >>> noun_of("date of birth").many, noun_of("faculty").one, noun_of("camera lens").many
    ('dates of birth', 'faculty member', 'camera lenses')
    """
    words = name.split()
    place = _head(words)
    head = words[place]
    forms = lexicon().numbers
    known = forms.get(head.lower()) or forms.get(lemma(head))
    if known:
        many, one = (" ".join([*words[:place], form, *words[place + 1 :]]) for form in known)
        return Noun(one, many, lemma(head) if " " in known[1] else lemma(known[1]))
    before, after = words[:place], words[place + 1 :]
    one, many = (
        _cased(" ".join([*before, inflect(head, is_plural=number), *after]), words) for number in (False, True)
    )
    return Noun(one, many, lemma(head))


def _head(words: list[str]) -> int:
    """The position of a name's head: before `of`, before a participle, or at the end."""
    place = next((place for place, word in enumerate(words) if place and word in _SMALL), len(words)) - 1
    while place > 0 and (words[place].endswith("ed") or words[place] in _AFTER):
        place -= 1
    return place


def _cased(name: str, words: list[str]) -> str:
    """A name with the capitals of its original words."""
    capitals = {word.lower(): word for word in words if not word.islower()}
    restored = []
    for word in name.split():
        stem = word.removesuffix("s")
        restored.append(capitals.get(word) or (f"{capitals[stem]}s" if stem in capitals else word))
    return " ".join(restored)


def attribute_noun(natural: str, table: str, *, holds_words: bool = False) -> Measured | None:
    """The noun for a column, without the words of its table's name; `code` is dropped where the values are words.

    >>> attribute_noun("num of employees", "market").counted, attribute_noun("length feet", "bridge").unit
    ('employees', 'feet')
    >>> attribute_noun("customer email address", "customers").noun.many
    'email addresses'
    >>> attribute_noun("date claim made", "claims").noun.one
    'date made'
    >>> [attribute_noun("city code", "student", holds_words=words).noun.one for words in (True, False)]
    ['city', 'city code']
    """
    name = (short_name(natural, table) or natural).lower().strip()
    counted = _counted(name)
    if counted:
        return Measured(Noun(f"number of {counted}", f"numbers of {counted}", "number"), counted=counted)
    words = _in_order(name.split(), table)
    if len(words) > 1 and words[-1] == "code" and holds_words:
        words = words[:-1]
    words, unit = _without_unit(words)
    words = [part for word in words for part in lexicon().abbreviations.get(word, word).split()]
    if not words or len(words) > _MOST_WORDS or words[-1] in _SMALL or words[0] in _SMALL:
        return None
    if not all(word in _SMALL or _is_word(word) for word in words):
        return None
    if (
        not {"became", "or"}.isdisjoint(words)
        or words[0] in _ASKING
        or (words[-1].endswith("ing") and words[-1] not in lexicon().nouns_in_ing)
    ):
        return None
    if words[-1].endswith("ed") and words[0] in ("first", "last", "most", "least"):
        return None
    if (len(words) == 1 and words[0].endswith("ed")) or not lexicon().scales.keys().isdisjoint(words[:-1]):
        return None
    noun = noun_of(" ".join(words))
    many = is_plural(words[_head(words)]) and words[_head(words)] not in lexicon().numbers
    return Measured(Noun(" ".join(words) if many else noun.one, noun.many, noun.head, many), unit)


def _in_order(words: list[str], table: str) -> list[str]:
    """The words of a name in everyday order: `start date` for `date contract start`, `state` for `state province`."""
    if len(words) > 1 and lexicon().places.issuperset(words):
        return [words[-1] if words[0] == "zip" else words[0]]
    if len(words) > 2 and words[0] == "date" and words[1] not in _SMALL:
        own = {lemma(word) for word in table.lower().split()}
        words = ["date", *(word for word in words[1:] if lemma(word) not in own)]
        if words[-1] in ("start", "end"):
            words = [*words[1:], "date"]
    if (
        len(words) == 2
        and words[0] in ("amount", "date", "year")
        and words[1] in ("payment", "rental", "order", "join")
    ):
        words = words[::-1]
    return words


def _counted(name: str) -> str | None:
    """What a column counts, in the plural, if its name says so."""
    match = _COUNTED.fullmatch(name)
    if match is None:
        return None
    what = match["of"] or match["count"] or match["bare"]
    what = " ".join(lexicon().abbreviations.get(word, word) for word in what.split())
    parts = what.split()
    if not all(word in _SMALL or _is_word(word) for word in parts) or parts[0] in _SMALL or parts[-1].endswith("ed"):
        return None
    return noun_of(what).many


def _without_unit(words: list[str]) -> tuple[list[str], str | None]:
    """The words of a name without its unit, and the unit as people write it."""
    known = lexicon()
    for length in (2, 1):
        tail = words[-length:]
        if len(words) <= length or (length == 2 and tail[0] != "in"):
            continue
        if length == 2 and tail[-1] == "percent":
            return words[:-length], "percent"
        if tail[-1] in known.scales:
            return [*words[:-length], *known.scales[tail[-1]].split()], None
        if tail[-1] in known.units:
            return words[:-length], known.units[tail[-1]]
    return words, None


def _is_word(word: str) -> bool:
    """Whether a word of a name is everyday English or an abbreviation in capitals."""
    if word in lexicon().not_words:
        return False
    return word.isupper() or word in ("ID", "IDs") or (word.isalpha() and len(word) > 2 and is_english(word))
