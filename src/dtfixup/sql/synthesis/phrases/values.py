"""Words for stored values: texts, parts of texts, and restrictions by time.

In: an attribute and its stored values. Out: slots of the book's rules; for times also the rule and the SQL condition.
Dates are written as their column writes them. Dates that do not begin with the year are only tested for equality or for
their year, because text order is not their order in time.
"""

import random
import re

from dtfixup.sql.language.dates import MONTHS
from dtfixup.sql.language.words import lemma
from dtfixup.sql.language.world import Topic, world
from dtfixup.sql.synthesis.phrases.descriptions import quoted_text
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.wording import attribute_slots

_VALUE = re.compile(r"[^\W_][\w .,:/&'-]{0,38}[\w.]|[^\W_]")
_CODE = re.compile(r"[A-Z]{1,4}|.*\d.*|.*[_/@:].*")
_STATES = re.compile(r".+(?:ed|ing)|open|new|full|free|ready|late|good|bad")
_MOST_WORDS = 5
_WORDY = frozenset(
    ["description", "note", "text", "address", "email", "comment", "recommendation", "name", "title", "summary"]
)


def is_quotable(value: str) -> bool:
    """Whether a stored value can stand in a question."""
    return _VALUE.fullmatch(value) is not None and len(value.split()) <= _MOST_WORDS and "  " not in value


def descriptive_texts(entity: Entity) -> list[Attribute]:
    """Text attributes that describe entities and do not name them."""
    return [
        attribute
        for attribute in entity.of_kind(Kind.TEXT)
        if attribute not in entity.titles and attribute.noun.head not in _WORDY
    ]


def pick_value(attribute: Attribute, rng: random.Random) -> str | None:
    """A random stored value that can stand in a question."""
    fitting = [value for value in attribute.content.values if is_quotable(value)]
    return rng.choice(fitting) if fitting else None


def value_slots(attribute: Attribute, entity: Entity, value: str, mark: str) -> dict[str, str]:
    """The words that tie a value to an entity: `in Oslo`, `red`, `by Orwell`; `mark` is a quotation mark or empty."""
    slots = attribute_slots(attribute, entity)
    forms, head = lexicon().text_forms, attribute.noun.head
    is_code = _CODE.fullmatch(value) is not None
    is_bare = len(attribute.noun.one.split()) == 1
    slots["v"] = value if is_code or not is_bare else f"{mark}{value}{mark}"
    adjective = value_adjective(attribute, value)
    if adjective is not None:
        slots["v_pred"] = adjective
        if head not in ("type", "category", "kind"):
            slots["v_adj"] = adjective
    if is_code or not (is_bare or head in ("type", "category", "city", "state", "town")):
        return slots
    if head in forms["from"] and (entity.is_person or head in ("nationality", "origin")):
        slots["from"] = "from"
    if head in forms["in"] and head not in ("nationality", "origin", "hometown"):
        if entity.is_person and head in ("city", "country", "state", "town", "county", "region", "residence"):
            slots |= {"living_in": "<live|lives> in", "live_in": "live in"}
        elif head in ("venue", "location") and entity.is_event:
            slots["in"] = "at" if head == "venue" else "in"
        elif head not in ("headquarters", "headquarter", "area"):
            slots |= {"in": "in", "located": "located in"}
        else:
            slots["in"] = "based in"
    if head in forms["by"]:
        slots["by"] = "by"
    if head == "type" and is_bare:
        slots["v_type"] = slots["v"]
    if head == "category" and is_bare:
        slots["v_category"] = slots["v"]
    return slots


def value_adjective(attribute: Attribute, value: str) -> str | None:
    """A value as an adjective, such as `female`, `French`, `red`, `cancelled`; None where it is none."""
    head = attribute.noun.head
    if head not in lexicon().text_forms["adjective"] and head != "country":
        return None
    if head in ("gender", "sex"):
        return {"f": "female", "m": "male", "female": "female", "male": "male"}.get(value.lower())
    if head in ("nationality", "country", "citizenship"):
        for concept in world().phrases.get(" ".join(map(lemma, value.split())), ()):
            if concept.topic is Topic.COUNTRY and len(concept.forms) > 1:
                return concept.forms[1]
        return None
    if not value.isalpha() or len(value) < 3 or value.isupper():
        return None
    if head == "status" and not _STATES.fullmatch(value.lower()):
        return None
    return value.lower()


def pick_part(value: str, rule: str, rng: random.Random) -> str | None:
    """A word or some letters of a value, at the place that the rule names."""
    words = [word for word in re.findall(r"[^\W\d_]+", value) if len(word) > 2]
    if not words:
        return None
    is_letter = rng.random() < 0.5
    if rule in ("starts", "not starts"):
        part = value[0] if is_letter else value[:2] if rng.random() < 0.3 else words[0]
        return part if value.startswith(part) and part.isalpha() else None
    if rule == "ends":
        part = value[-1] if is_letter else value[-2:] if rng.random() < 0.3 else words[-1]
        return part if value.endswith(part) and part.isalpha() else None
    if is_letter:
        return rng.choice(rng.choice(words).lower())
    return rng.choice(words)


_STORED = re.compile(r"(\d{4})\D(\d{2})\D(\d{2})(.*)")
_ENDS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

TimeRestriction = tuple[str, dict[str, str], str]
"""A rule, its slots, and a condition with `{}` for the column."""


def restrict_time(attribute: Attribute, entity: Entity, rng: random.Random) -> TimeRestriction | None:
    """A restriction by a year, a month or a day."""
    slots = attribute_slots(attribute, entity) | time_verb_slots(attribute, entity, rng)
    if attribute.noun.one in ("year", "season") or attribute.noun.one.split()[-1] not in ("date", "year", "birth"):
        slots.pop("an_attr")
    if attribute.kind is Kind.YEAR:
        return _by_year(attribute, slots, rng)
    if attribute.has_sortable_dates:
        return _by_date(attribute, slots, rng)
    return _by_written_date(attribute, slots, rng)


def time_verb_slots(attribute: Attribute, entity: Entity, rng: random.Random) -> dict[str, str]:
    """What happened to an entity at a time: it was built, it opened, it was held."""
    slots: dict[str, str] = {}
    verb = attribute.time_verb
    if verb is not None:
        if verb.passive is not None and (verb.passive != "born" or entity.is_person):
            slots["built"] = verb.passive
        if verb.active is not None:
            slots["opened"] = verb.active
    elif attribute.noun.one in ("date", "year", "season"):
        if entity.noun.head in lexicon().held:
            slots["taking_place"] = rng.choice(("held", "taking place", "that took place", ""))
        elif attribute.noun.one == "date":
            slots["dated"] = rng.choice(("dated", ""))
            slots["bare_date"] = ""
        else:
            slots["of_year"] = "from"
    return slots


def _by_year(attribute: Attribute, slots: dict[str, str], rng: random.Random) -> TimeRestriction | None:
    years = sorted({int(float(value)) for value in attribute.content.values})
    if len(years) < 2:
        return None
    year = rng.choice(years)
    slots["t"] = str(year)
    if rng.random() < 0.15:
        low, high = sorted((year, rng.choice(years)))
        slots |= {"t": str(low), "s": str(high)}
        return ("between times", slots, f"{{}} BETWEEN {low} AND {high}") if low < high else None
    rule, operator = rng.choice(
        (("before", "<"), ("after", ">"), ("since", ">="), ("until", "<="), ("in year", "="), ("in year", "="))
    )
    return rule, slots, f"{{}} {operator} {year}"


def _by_date(attribute: Attribute, slots: dict[str, str], rng: random.Random) -> TimeRestriction | None:
    dates = [match for value in attribute.content.values if (match := _STORED.fullmatch(value)) and match[1] != "0000"]
    if not dates:
        return None
    match = rng.choice(dates)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    mark = match.group()[4]
    draw = rng.random()
    if draw < 0.4:
        return _by_year_of_date(year, mark, slots, rng)
    if draw < 0.55:
        slots["t"] = f"{MONTHS[month - 1]} {year}"
        return "in", slots, f"{{}} LIKE '{year:04}{mark}{month:02}%'"
    written = f"{year:04}{mark}{month:02}{mark}{day:02}"
    slots["t"] = day_text(year, month, day, rng)
    if draw < 0.65:
        condition = f"{{}} LIKE '{written}%'" if match[4] else f"{{}} = '{written}'"
        return "on", slots, condition
    if draw < 0.75:
        other = rng.choice(dates)
        low, high = sorted((match.group()[:10], other.group()[:10]))
        if low == high:
            return None
        slots |= {"t": _written_day_text(low, rng), "s": _written_day_text(high, rng)}
        return "between times", slots, f"{{}} BETWEEN '{low}' AND '{high}'"
    slots["t_on"] = f"{slots['t']} {rng.choice(('on', 'onwards'))}"
    rule, operator = rng.choice((("before", "<"), ("after", ">"), ("since day", ">="), ("until day", "<=")))
    return rule, slots, f"{{}} {operator} '{written}'"


def _by_year_of_date(year: int, mark: str, slots: dict[str, str], rng: random.Random) -> TimeRestriction:
    slots["t"] = str(year)
    first, last = f"{year:04}{mark}01{mark}01", f"{year:04}{mark}12{mark}31"
    return rng.choice(
        (
            ("in", slots, f"{{}} LIKE '{year:04}%'"),
            ("in", slots, f"{{}} LIKE '{year:04}%'"),
            ("before", slots, f"{{}} < '{first}'"),
            ("after", slots, f"{{}} > '{last}'"),
            ("since", slots, f"{{}} >= '{first}'"),
            ("until", slots, f"{{}} <= '{last}'"),
        )
    )


def _by_written_date(attribute: Attribute, slots: dict[str, str], rng: random.Random) -> TimeRestriction | None:
    """A restriction on dates in any other form: the day as it is written, or its year."""
    form = attribute.content.date_form or ""
    value = rng.choice(attribute.content.values)
    if "YYYY" in form and rng.random() < 0.5:
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


def day_text(year: int, month: int, day: int, rng: random.Random) -> str:
    """A day in a random notation."""
    name = MONTHS[month - 1]
    ordinal = f"{day}{_ENDS.get(day, 'th')}"
    return rng.choice(
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


def _written_day_text(written: str, rng: random.Random) -> str:
    year, month, day = (int(part) for part in re.split(r"\D", written))
    return day_text(year, month, day, rng)
