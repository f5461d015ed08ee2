"""Numbers as people say them: bounds that are round, with thousands set off, in words, with a currency or a unit.

In: an attribute with its values. Out: a number and its text; the text is one that `quantities.numbers_in` reads.
"""

import random
from collections.abc import Sequence

from dtfixup.sql.synthesis.phrases.things import Attribute, Kind

_WORDS = (*("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),)


def figure(number: float) -> str:
    """A number as SQL writes it.

    >>> figure(3.0), figure(2.5)
    ('3', '2.5')
    """
    return str(int(number)) if number == int(number) else f"{number:.6f}".rstrip("0").rstrip(".")


def choose_bound(attribute: Attribute, chance: random.Random) -> str | None:
    """A number within the stored ones, rounded as people round."""
    numbers = attribute.numbers
    if len(set(numbers)) < 2:
        return None
    low, high = numbers[len(numbers) // 10], numbers[-1 - len(numbers) // 10]
    chosen = chance.choice([number for number in numbers if low <= number <= high] or numbers)
    size = abs(chosen)
    if attribute.kind is Kind.COUNTED or (high - low > 5 and size >= 10):
        chosen = float(round(chosen))
    if high - low > 20 and size >= 20 and chance.random() < 0.8:
        unit = 10 ** (len(str(int(size))) - chance.choice((1, 2)))
        rounded = float(round(chosen / unit) * unit)
        chosen = rounded if numbers[0] <= rounded <= numbers[-1] else chosen
    elif size < 10 and chosen != int(chosen):
        chosen = round(chosen, 1)
    return figure(chosen) if abs(chosen) < 1e12 and len(figure(chosen)) < 12 else None


def choose_bounds(attribute: Attribute, chance: random.Random) -> tuple[str, str] | None:
    """Two bounds, the lower first."""
    found = [choose_bound(attribute, chance) for _ in range(6)]
    bounds = sorted({float(bound) for bound in found if bound is not None})
    return (figure(bounds[0]), figure(bounds[-1])) if len(bounds) > 1 else None


def say_number(number: str, chance: random.Random) -> str:
    """A number in figures or in words."""
    return say_numbers([number], chance)[0]


def say_numbers(numbers: Sequence[str], chance: random.Random) -> list[str]:
    """Numbers that stand side by side, all written in one way."""
    are_whole = all(number.isdigit() for number in numbers)
    draw = chance.random()
    if are_whole and all(int(number) < len(_WORDS) for number in numbers):
        return [_WORDS[int(number)] for number in numbers] if draw < 0.4 else list(numbers)
    if are_whole and all(len(number) > 3 for number in numbers):
        if all(len(number) > 6 and number.endswith("00000") for number in numbers) and draw < 0.5:
            return [f"{figure(int(number) / 1e6)} million" for number in numbers]
        if all(len(number) < 7 and number.endswith("000") for number in numbers) and draw < 0.1:
            return [f"{int(number) // 1000}k" for number in numbers]
    return [f"{int(number):,}" for number in numbers] if are_whole and draw < 0.5 else list(numbers)


def count_word(number: int, chance: random.Random) -> str:
    """A small number, more often in words."""
    return _WORDS[number] if chance.random() < 0.6 else str(number)


def with_unit(text: str, attribute: Attribute, chance: random.Random) -> str:
    """A number with its currency or unit, where there is one and people would say it."""
    if attribute.unit is not None:
        return f"{text} {attribute.unit}" if chance.random() < 0.6 else text
    is_money = attribute.quantity is not None and attribute.quantity.is_money and "in" not in attribute.noun.one.split()
    draw = chance.random()
    if is_money and draw < 0.15 and text[0].isdigit() and "k" not in text and "million" not in text:
        return f"${text}"
    return f"{text} dollars" if is_money and draw < 0.25 else text


MARKS = ("", "", "", '"', "'")
"""Quotation marks around a value, none more often than any."""


def listed(texts: Sequence[str]) -> str:
    """Texts with commas and an `and`.

    >>> listed(["name", "age", "city"])
    'name, age and city'
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
