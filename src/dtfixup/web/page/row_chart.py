"""A simple chart of rows, where two columns suggest one.

In: `Rows`. Out: bars where one column names things and the other counts or measures them, a line where numbers or dates
run on from row to row, and nothing for all other rows.
"""

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from dtfixup.sql.execution.guard import Rows
from dtfixup.web.page.line_chart import Line, draw_lines
from dtfixup.web.page.pictures import clipped, escaped, short_number

_MOST_BARS = 30
_LEAST_POINTS = 5
_LONGEST_LABEL = 40
_KEY = re.compile(r"(^|[^A-Za-z])(id|Id|ID)$|[a-z](Id|ID)$")  # numbers that name things: stop_id, StuID
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_DAY_OR_MONTH = re.compile(r"\d{4}-\d\d")


@dataclass(frozen=True)
class Chart:
    """Names or places, each with a number."""

    across: str
    up: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    places: tuple[float, ...] | None
    """Where the points of a line stand; None for bars."""

    @property
    def has_dates(self) -> bool:
        """Whether places are dates, which are written as they are; years are numbers."""
        return all(_DAY_OR_MONTH.match(label) for label in self.labels)


def suggest_chart(rows: Rows) -> Chart | None:
    """The chart of two columns, one of which is numbers."""
    if len(rows.columns) != 2 or len(rows.rows) < 2 or rows.truncated:
        return None
    columns = [[row[place] for row in rows.rows] for place in (0, 1)]
    is_key = [_KEY.search(name) is not None for name in rows.columns]
    is_number = [
        not key and all(_number(value) is not None for value in column)
        for key, column in zip(is_key, columns, strict=True)
    ]
    if not any(is_number):
        return None
    up = 1 if is_number[1] else 0
    across = 1 - up
    values = tuple(_number(value) or 0.0 for value in columns[up])
    if not math.isfinite(max(0.0, *values) - min(0.0, *values)):
        return None
    labels = tuple("NULL" if value is None else str(value) for value in columns[across])
    places = None if is_key[across] else _places(columns[across])
    names = rows.columns[across], rows.columns[up]
    if places is not None and len(places) >= _LEAST_POINTS:
        return Chart(*names, labels, values, places)
    if is_number[across] and places is None:
        return None  # two measures of something: neither names it
    if len(set(labels)) < len(labels) or len(labels) > _MOST_BARS:
        return None
    return Chart(*names, labels, values, None)


def draw_chart(chart: Chart) -> str:
    """Bars as text with a ground of colour, which fit any width; lines as SVG."""
    if chart.places is not None:
        line = Line(chart.up, tuple(zip(chart.places, chart.values, strict=True)))
        marks = list(zip(chart.places, chart.labels, strict=True)) if chart.has_dates else None
        drawn = draw_lines([line], across=chart.across, up="", marks=marks)
        return f'<figure class="rows-chart">{_caption(chart)}{drawn}</figure>'
    low, high = min(0.0, *chart.values), max(0.0, *chart.values)
    span = (high - low) or 1.0
    bars = "".join(
        f'<li><span class="label" title="{escaped(label)}">{escaped(clipped(label, _LONGEST_LABEL))}</span>'
        f'<span class="track"><i style="margin-left:{100 * (min(value, 0.0) - low) / span:.2f}%;'
        f'width:{100 * abs(value) / span:.2f}%"></i></span><span class="value">{short_number(value)}</span></li>'
        for label, value in zip(chart.labels, chart.values, strict=True)
    )
    return f'<figure class="rows-chart">{_caption(chart)}<ul class="bars">{bars}</ul></figure>'


def _caption(chart: Chart) -> str:
    return f"<figcaption>{escaped(chart.up)} by {escaped(chart.across)}</figcaption>"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _places(column: list[Any]) -> tuple[float, ...] | None:
    """Numbers or dates that run on from row to row; None where they do not."""
    found = [_place(value) for value in column]
    known = [place for place in found if place is not None]
    if len(known) < len(found) or any(after <= before for before, after in pairwise(known)):
        return None
    return tuple(known)


def _place(value: Any) -> float | None:
    if isinstance(value, datetime.date):
        return value.year + (value.timetuple().tm_yday - 1) / 366
    if isinstance(value, str):
        match = _DATE.fullmatch(value)
        if match is None:
            return None
        year, month, day = (int(part) for part in (value + "-01-01")[:10].split("-"))
        return year + (month - 1) / 12 + (day - 1) / 372
    return _number(value)
