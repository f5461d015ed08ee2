"""Words for attributes and numbers, as slots of the book's rules or as texts.

In: attributes and their stored values. Out: slots, round bounds, and number texts that `quantities.numbers_in` reads.
"""

import random
import re
from collections.abc import Sequence
from itertools import combinations

from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.nouns import Noun


def attribute_slots(attribute: Attribute, entity: Entity) -> dict[str, str]:
    """The name of an attribute, with its unit where another has the same name."""
    noun = attribute.noun
    same = [other for other in entity.attributes if other.noun.one == noun.one]
    tail = f" in {attribute.unit}" if len(same) > 1 and attribute.unit else ""
    one = noun.one + tail
    return {
        "attr": one,
        "attr_n": noun.many + tail,
        "an_attr": one if noun.is_plural else f"a {one}",
        **_agreement_slots(noun),
        "their": "their" if entity.is_person else "<their|its>",
        **({} if noun.is_plural else {"attr1": one}),
    }


def _agreement_slots(noun: Noun) -> dict[str, str]:
    """Verbs in the number of a noun."""
    if noun.is_plural:
        return {"is": "are", "exceeds": "exceed", "does": "do"}
    return {"is": "is", "exceeds": "exceeds", "does": "does"}


_LARGEST_RATIO = 20
"""The largest ratio of two counts that are compared; votes are not compared with seats."""
_ADJECTIVES = re.compile(r".+(?:ed|able|ible|ive|ful|less|time|male)")
_OPPOSITES = {"available": "unavailable", "active": "inactive", "registered": "unregistered", "full time": "part time"}


def flag_slots(attribute: Attribute) -> dict[str, str] | None:
    """Words for a yes: `active`, `on scholarship`, `where pets are allowed`; None where the name has no such form."""
    words = attribute.noun.one.split()
    if words[0] == "amount" and len(words) > 1:
        words = words[1:]
    name = " ".join(words)
    if words[0] in ("on", "in", "at"):
        return {"flag_post": name}
    if words[-1] == "allowed" and len(words) > 1:
        what = " ".join(words[:-1])
        return {"flag_clause": f"{what} are allowed", "flag_clause_off": f"{what} are not allowed"}
    if words[0].endswith("ed") and len(words) > 1:
        return {"flag_pred": f"<were|was> {name}", "flag_pred_off": f"<were|was> not {name}", "flag_post": name}
    if _ADJECTIVES.fullmatch(name) and len(words) < 3:
        opposite = {"flag_un": _OPPOSITES[name]} if name in _OPPOSITES else {}
        return {"flag_adj": name, **opposite}
    return None


def comparable_pairs(entity: Entity) -> list[tuple[Attribute, Attribute]]:
    """Pairs of columns that can be compared: amounts paid and due, start and end."""
    return [
        (one, other)
        for one, other in combinations(entity.attributes, 2)
        if one.kind is other.kind and _is_comparable(one, other)
    ]


def _is_comparable(one: Attribute, other: Attribute) -> bool:
    if one.noun.one == other.noun.one or not {"date", "year"}.isdisjoint((one.noun.one, other.noun.one)):
        return False
    if one.kind in (Kind.DATE, Kind.YEAR):
        if any(time.time_verb is not None and time.time_verb.passive == "born" for time in (one, other)):
            return False
        return one.content.date_form == other.content.date_form and (one.content.date_form or "YYYY").startswith("YYYY")
    if one.kind is Kind.COUNTED:
        large, small = sorted((max(count.numbers, default=0.0) for count in (one, other)), reverse=True)
        return 0 < large <= _LARGEST_RATIO * small
    if one.kind is Kind.NUMBER:
        are_money = all(number.quantity is not None and number.quantity.is_money for number in (one, other))
        units = {(number.unit, number.noun.one.partition(" in ")[2]) for number in (one, other)}
        return len(units) == 1 and not one.is_rank and (one.noun.head == other.noun.head or are_money)
    if one.kind is Kind.TEXT and one.noun.head != "name":
        return (
            len(one.noun.one.split()) > 1
            and one.noun.head == other.noun.head
            and bool(set(one.content.values) & set(other.content.values))
        )
    return False


def pair_slots(one: Attribute, other: Attribute) -> dict[str, str]:
    """The names of two attributes."""
    return {
        "one": one.noun.one,
        "other": other.noun.one,
        "one_n": one.noun.many,
        "other_n": other.noun.many,
        **_agreement_slots(one.noun),
        **({"one_c": one.counted, "other_c": other.counted} if one.counted and other.counted else {}),
    }


_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def sql_number(number: float) -> str:
    """A number as SQL writes it.

    >>> sql_number(3.0), sql_number(2.5)
    ('3', '2.5')
    """
    return str(int(number)) if number == int(number) else f"{number:.6f}".rstrip("0").rstrip(".")


def choose_bound(attribute: Attribute, rng: random.Random) -> str | None:
    """A round number within the stored ones."""
    numbers = attribute.numbers
    if len(set(numbers)) < 2:
        return None
    low, high = numbers[len(numbers) // 10], numbers[-1 - len(numbers) // 10]
    chosen = rng.choice([number for number in numbers if low <= number <= high] or numbers)
    size = abs(chosen)
    if attribute.kind is Kind.COUNTED or (high - low > 5 and size >= 10):
        chosen = float(round(chosen))
    if high - low > 20 and size >= 20 and rng.random() < 0.8:
        unit = 10 ** (len(str(int(size))) - rng.choice((1, 2)))
        rounded = float(round(chosen / unit) * unit)
        chosen = rounded if numbers[0] <= rounded <= numbers[-1] else chosen
    elif size < 10 and chosen != int(chosen):
        chosen = round(chosen, 1)
    return sql_number(chosen) if abs(chosen) < 1e12 and len(sql_number(chosen)) < 12 else None


def choose_bounds(attribute: Attribute, rng: random.Random) -> tuple[str, str] | None:
    """Two bounds, the lower first."""
    drawn = [choose_bound(attribute, rng) for _ in range(6)]
    bounds = sorted({float(bound) for bound in drawn if bound is not None})
    return (sql_number(bounds[0]), sql_number(bounds[-1])) if len(bounds) > 1 else None


def number_text(number: str, rng: random.Random) -> str:
    """A number in figures or in words."""
    return number_texts([number], rng)[0]


def number_texts(numbers: Sequence[str], rng: random.Random) -> list[str]:
    """Numbers in one sentence, all in figures or all in words."""
    are_whole = all(number.isdigit() for number in numbers)
    draw = rng.random()
    if are_whole and all(int(number) < len(_NUMBER_WORDS) for number in numbers):
        return [_NUMBER_WORDS[int(number)] for number in numbers] if draw < 0.4 else list(numbers)
    if are_whole and all(len(number) > 3 for number in numbers):
        if all(len(number) > 6 and number.endswith("00000") for number in numbers) and draw < 0.5:
            return [f"{sql_number(int(number) / 1e6)} million" for number in numbers]
        if all(len(number) < 7 and number.endswith("000") for number in numbers) and draw < 0.1:
            return [f"{int(number) // 1000}k" for number in numbers]
    return [f"{int(number):,}" for number in numbers] if are_whole and draw < 0.5 else list(numbers)


def count_text(number: int, rng: random.Random) -> str:
    """A small number, more often in words."""
    return _NUMBER_WORDS[number] if rng.random() < 0.6 else str(number)


def with_unit(text: str, attribute: Attribute, rng: random.Random) -> str:
    """A number text, sometimes with its currency or unit."""
    if attribute.unit is not None:
        return f"{text} {attribute.unit}" if rng.random() < 0.6 else text
    is_money = attribute.quantity is not None and attribute.quantity.is_money and "in" not in attribute.noun.one.split()
    draw = rng.random()
    if is_money and draw < 0.15 and text[0].isdigit() and "k" not in text and "million" not in text:
        return f"${text}"
    return f"{text} dollars" if is_money and draw < 0.25 else text


QUOTE_MARKS = ("", "", "", '"', "'")
"""Quotation marks around a value; mostly none."""


def comma_list(texts: Sequence[str]) -> str:
    """Texts joined by commas and a last `and`.

    >>> comma_list(["name", "age", "city"])
    'name, age and city'
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
