"""Restrictions by time: before a year, since a day, in a month; what was built, opened or held then.

In: an attribute that holds years or dates. Out: the rule of the book to say it with, what fills its slots, and the
condition. Dates are written as their column writes them; those that do not begin with the year are compared by equality
alone, since texts are ordered by their first letters.
"""

import random
import re
from collections.abc import Mapping

from dtfixup.sql.language.dates import MONTHS
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.queries import quoted_text
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

_SORTED_FORMS = ("YYYY-MM-DD", "YYYY/MM/DD", "YYYY.MM.DD")
_STORED = re.compile(r"(\d{4})\D(\d{2})\D(\d{2})(.*)")
_ENDS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

Found = tuple[str, dict[str, str], str]
"""A rule, its slots, and a condition with `{}` for the column."""


def restrict_time(attribute: Attribute, thing: Thing, slots: Mapping[str, str], chance: random.Random) -> Found | None:
    """A restriction by a year, a month or a day."""
    filled = dict(slots) | happening_slots(attribute, thing, chance)
    if attribute.noun.one in ("year", "season") or attribute.noun.one.split()[-1] not in ("date", "year", "birth"):
        filled.pop("an_attr")
    if attribute.kind is Kind.YEAR:
        return _by_year(attribute, filled, chance)
    form = attribute.held.date_form or ""
    if form in _SORTED_FORMS:
        return _by_date(attribute, filled, chance)
    return _by_written_date(attribute, form, filled, chance)


def happening_slots(attribute: Attribute, thing: Thing, chance: random.Random) -> dict[str, str]:
    """What a time says of the thing: it was built, it opened, it was held."""
    slots: dict[str, str] = {}
    if attribute.happening is not None:
        happening = attribute.happening
        if happening.passive is not None:
            slots["built"] = happening.passive
        if happening.active is not None:
            slots["opened"] = happening.active
        if happening.passive == "born" and not thing.is_person:
            slots.pop("built")
    elif attribute.noun.one in ("date", "year", "season"):
        if thing.noun.head in lexicon().held:
            slots["taking_place"] = chance.choice(("held", "taking place", "that took place", ""))
        elif attribute.noun.one == "date":
            slots["dated"] = chance.choice(("dated", ""))
            slots["bare_date"] = ""
        else:
            slots["of_year"] = "from"
    return slots


def _by_year(attribute: Attribute, slots: dict[str, str], chance: random.Random) -> Found | None:
    years = sorted({int(float(value)) for value in attribute.held.values})
    if len(years) < 2:
        return None
    year = chance.choice(years)
    slots["t"] = str(year)
    if chance.random() < 0.15:
        other = chance.choice(years)
        low, high = sorted((year, other))
        slots |= {"t": str(low), "s": str(high)}
        return ("between times", slots, f"{{}} BETWEEN {low} AND {high}") if low < high else None
    rule, operator = chance.choice(
        (("before", "<"), ("after", ">"), ("since", ">="), ("until", "<="), ("in year", "="), ("in year", "="))
    )
    return rule, slots, f"{{}} {operator} {year}"


def _by_date(attribute: Attribute, slots: dict[str, str], chance: random.Random) -> Found | None:
    found = [match for value in attribute.held.values if (match := _STORED.fullmatch(value)) and match[1] != "0000"]
    if not found:
        return None
    match = chance.choice(found)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    mark = match.group()[4]
    has_clock = bool(match[4])
    draw = chance.random()
    if draw < 0.4:
        return _by_year_of_date(year, mark, slots, chance)
    if draw < 0.55:
        slots["t"] = f"{MONTHS[month - 1]} {year}"
        return "in", slots, f"{{}} LIKE '{year:04}{mark}{month:02}%'"
    written = f"{year:04}{mark}{month:02}{mark}{day:02}"
    slots["t"] = say_day(year, month, day, chance)
    if draw < 0.65:
        condition = f"{{}} LIKE '{written}%'" if has_clock else f"{{}} = '{written}'"
        return "on", slots, condition
    if draw < 0.75:
        other = chance.choice(found)
        low, high = sorted((match.group()[:10], other.group()[:10]))
        if low == high:
            return None
        slots |= {"t": _say_written(low, chance), "s": _say_written(high, chance)}
        return "between times", slots, f"{{}} BETWEEN '{low}' AND '{high}'"
    slots["t_on"] = f"{slots['t']} {chance.choice(('on', 'onwards'))}"
    rule, operator = chance.choice((("before", "<"), ("after", ">"), ("since day", ">="), ("until day", "<=")))
    return rule, slots, f"{{}} {operator} '{written}'"


def _by_year_of_date(year: int, mark: str, slots: dict[str, str], chance: random.Random) -> Found:
    slots["t"] = str(year)
    first, last = f"{year:04}{mark}01{mark}01", f"{year:04}{mark}12{mark}31"
    return chance.choice(
        (
            ("in", slots, f"{{}} LIKE '{year:04}%'"),
            ("in", slots, f"{{}} LIKE '{year:04}%'"),
            ("before", slots, f"{{}} < '{first}'"),
            ("after", slots, f"{{}} > '{last}'"),
            ("since", slots, f"{{}} >= '{first}'"),
            ("until", slots, f"{{}} <= '{last}'"),
        )
    )


def _by_written_date(attribute: Attribute, form: str, slots: dict[str, str], chance: random.Random) -> Found | None:
    """A date in any other form: the day as it is written, or the year that is in it."""
    value = chance.choice(attribute.held.values)
    if "YYYY" in form and chance.random() < 0.5:
        years = re.findall(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)", value)
        if not years:
            return None
        slots["t"] = years[0]
        return "in", slots, f"{{}} LIKE '%{years[0]}%'"
    if re.fullmatch(r"[\w ,]+", value) is None or not any(name in form for name in ("Month", "Mon")):
        return None
    slots["t"] = value
    rule = "on" if "D" in form else "in"
    return rule, slots, f"{{}} = {quoted_text(value)}"


def say_day(year: int, month: int, day: int, chance: random.Random) -> str:
    """A day in one of the ways in which people write it."""
    name = MONTHS[month - 1]
    ordinal = f"{day}{_ENDS.get(day, 'th')}"
    return chance.choice(
        (
            f"{name} {day}, {year}",
            f"{name} {ordinal}, {year}",
            f"{day} {name} {year}",
            f"{ordinal} {name} {year}",
            f"the {ordinal} of {name} {year}",
            f"{year:04}-{month:02}-{day:02}",
            f"{year:04}-{month:02}-{day:02}",
        )
    )


def _say_written(written: str, chance: random.Random) -> str:
    year, month, day = (int(part) for part in re.split(r"\D", written))
    return say_day(year, month, day, chance)
