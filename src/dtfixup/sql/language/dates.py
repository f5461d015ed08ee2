"""Dates in questions, and the forms in which databases write them.

In: the words of a question, or stored values. Out: `Date`s, each with its span of words; the form in which a column
writes its dates, and any date written in that form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dtfixup.sql.language.words import Word


@dataclass(frozen=True, slots=True)
class Date:
    """The date, whole or in part, that the words `start:end` express; `clock` is the time of day as written."""

    start: int
    end: int
    year: int | None
    month: int
    day: int | None
    clock: str | None = None


_MONTH_NAMES = "January February March April May June July August September October November December"
MONTHS = tuple(_MONTH_NAMES.split())
_MONTH_OF = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
_MONTH_OF |= {name[:3]: number for name, number in _MONTH_OF.items()} | {"sept": 9}
_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", re.ASCII)
_SLASHED = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?", re.ASCII)
_YEAR = re.compile(r"[12]\d{3}", re.ASCII)
_DAY = re.compile(r"([1-9]|[12]\d|3[01])(?:st|nd|rd|th)?", re.ASCII | re.IGNORECASE)


def dates_in(words: Sequence[Word]) -> tuple[Date, ...]:
    """Every date of a question: in figures, with the month's name, or the month's name alone.

    >>> from dtfixup.sql.language.words import split_words
    >>> dates_in(split_words("before November 5th, 2007"))
    (Date(start=1, end=5, year=2007, month=11, day=5, clock=None),)
    """
    dates: list[Date] = []
    position = 0
    while position < len(words):
        date = _figures_date_at(words, position) or _named_date_at(words, position)
        dates += [date] if date else []
        position = date.end if date else position + 1
    return tuple(dates)


def _figures_date_at(words: Sequence[Word], start: int) -> Date | None:
    text = words[start].text
    if match := _ISO.fullmatch(text):
        year, month, day = map(int, match.groups())
    elif match := _SLASHED.fullmatch(text):
        month, day, year = map(int, match.groups())
        if month > 12:
            month, day = day, month
    else:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    has_clock = start + 1 < len(words) and _CLOCK.fullmatch(words[start + 1].text) is not None
    return Date(start, start + 1 + has_clock, year, month, day, words[start + 1].text if has_clock else None)


def _named_date_at(words: Sequence[Word], start: int) -> Date | None:
    """`November 5th, 2007`, `5 November 2007`, `the 5th of November`, `November 2007`, `November`."""
    day, position = _day_at(words, start)
    if day is not None and position < len(words) and words[position].lemma == "of":
        position += 1
    if position >= len(words) or words[position].text.lower() not in _MONTH_OF:
        return None
    name = words[position].text
    month = _MONTH_OF[name.lower()]
    position += 1
    if position < len(words) and words[position].text == "." and len(name) < 5:
        position += 1
    if day is None:
        day, position = _day_at(words, position)
    after_comma = position + (position < len(words) and words[position].text == ",")
    year = None
    if after_comma < len(words) and _YEAR.fullmatch(words[after_comma].text):
        year, position = int(words[after_comma].text), after_comma + 1
    # "may", "march" and "mar" are words too: alone they are months only with a capital inside a sentence.
    if year is None and day is None and (start == 0 or not name[0].isupper()):
        return None
    return Date(start, position, year, month, day)


def _day_at(words: Sequence[Word], position: int) -> tuple[int | None, int]:
    if position < len(words) and (match := _DAY.fullmatch(words[position].text)):
        return int(match[1]), position + 1
    return None, position


# The fields of a form and what each matches in a stored value.
_FIELDS = {
    "YYYY": r"(?:1[0-9]|20)\d\d",
    "YY": r"\d\d",
    "MM": r"(?:0[1-9]|1[0-2])",
    "M": r"(?:0?[1-9]|1[0-2])",
    "DD": r"(?:0[1-9]|[12]\d|3[01])",
    "D": r"(?:0?[1-9]|[12]\d|3[01])",
    "Month": "(?:" + "|".join(MONTHS) + ")",
    "Mon": "(?:" + "|".join(name[:3] for name in MONTHS) + ")",
    "MON": "(?:" + "|".join(name[:3].upper() for name in MONTHS) + ")",
}
_FIELD = re.compile("|".join(sorted(_FIELDS, key=len, reverse=True)))
_FORMS = tuple(
    (form, re.compile(_FIELD.sub(lambda match: _FIELDS[match.group()], re.escape(form)) + r"(?:[ T]\d{1,2}:.*)?"))
    for form in (
        *("YYYY-MM-DD", "YYYY-M-D", "YYYY/MM/DD", "YYYY/M/D", "YYYY.MM.DD", "YYYYMMDD"),
        *("MM/DD/YYYY", "M/D/YYYY", "MM/DD/YY", "M/D/YY", "DD/MM/YYYY", "D/M/YYYY", "DD/MM/YY", "D/M/YY"),
        *("MM-DD-YYYY", "M-D-YYYY", "DD-MM-YYYY", "D-M-YYYY", "DD.MM.YYYY", "D.M.YYYY", "D.M.YY"),
        *("Month D, YYYY", "Mon D, YYYY", "Mon. D, YYYY", "D Month YYYY", "D Mon YYYY", "DD Mon YYYY"),
        *("DD-Mon-YYYY", "D-Mon-YYYY", "DD-MON-YYYY", "D-MON-YYYY", "DD-Mon-YY", "D-Mon-YY", "DD-MON-YY"),
        *("YYYY-MM", "YYYY/MM", "MM/YYYY", "M/YYYY", "Month YYYY", "Mon YYYY", "Month D", "D Month"),
    )
)
_MIN_SHARE = 0.75  # of the values; there are odd ones such as "null" and 0000-00-00
_CLOCKS = re.compile(r"\d{1,3}:\d{2}(?::\d{2})?(?:\.\d+)?(?: ?[ap]\.?m\.?)?", re.ASCII | re.IGNORECASE)


def date_form(values: Sequence[str]) -> str | None:
    """The form in which most of the values write dates; None where they are not dates.

    >>> date_form(["8/21/2013", "12/1/2013"])
    'M/D/YYYY'
    """
    if not values:
        return None
    for form, pattern in _FORMS:
        # The first two values decide for most columns: they are seldom both odd.
        if pattern.fullmatch(values[0]) or (len(values) > 1 and pattern.fullmatch(values[1])):
            matching = sum(pattern.fullmatch(value) is not None for value in values)
            if matching >= _MIN_SHARE * len(values):
                return form
    return None


def are_clocks(values: Sequence[str]) -> bool:
    """Whether all values are times of day or durations, such as 07:13:53."""
    return bool(values) and all(_CLOCKS.fullmatch(value) for value in values)


def render_date(date: Date, form: str) -> str | None:
    """Write a date in a form, or the known part of it; None if no part is known.

    Such a part begins a written date or is inside it: `8/` of `M/D/YYYY` and `-08-` of `YYYY-MM-DD` for August.

    >>> render_date(Date(0, 1, 2017, 6, None), "YYYY-MM-DD"), render_date(Date(0, 1, None, 8, None), "M/D/YYYY")
    ('2017-06', '8/')
    """
    month = MONTHS[date.month - 1]
    texts: dict[str, str | None] = {
        "YYYY": None if date.year is None else f"{date.year:04}",
        "YY": None if date.year is None else f"{date.year % 100:02}",
        "MM": f"{date.month:02}",
        "M": str(date.month),
        "DD": None if date.day is None else f"{date.day:02}",
        "D": None if date.day is None else str(date.day),
        "Month": month,
        "Mon": month[:3],
        "MON": month[:3].upper(),
    }
    parts = [""]  # neighbouring known fields with the marks around them
    count = 0
    for part in re.split(f"({_FIELD.pattern})", form):
        if part not in _FIELDS:
            parts[-1] += part
        elif (text := texts[part]) is not None:
            parts[-1] += text
            count += 1
        else:
            parts.append("")
    if count == len(_FIELD.findall(form)):
        return parts[0] + (f" {date.clock}" if date.clock else "")
    longest = max(parts, key=len)
    # A month's name is clear by itself; a month's number needs the marks beside it, a year without a day does not.
    if "mon" in form.lower():
        return longest.strip(" ,")
    return (longest if date.year is None else longest.strip("-/. ")) or None
