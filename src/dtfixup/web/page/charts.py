"""A simple chart of rows, where two columns suggest one.

In: `Rows`. Out: bars if one column names things and the other counts or measures them; a line if numbers or dates
increase from row to row; otherwise nothing.
"""

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from dtfixup.sql.execution.guarded import Rows
from dtfixup.web.page.pictures import NARROW, WIDE, clip, draw_both_widths, escape, short_number, ticks

_MOST_BARS = 30
_LEAST_POINTS = 5
_LONGEST_LABEL = 40
_KEY = re.compile(r"(^|[^A-Za-z])(id|Id|ID)$|[a-z](Id|ID)$")  # numbers that name things: stop_id, StuID
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_DAY_OR_MONTH = re.compile(r"\d{4}-\d\d")

_SIZES = {WIDE: (860, 340), NARROW: (330, 250)}
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 40
_DOTS = 40
"""Most points of a line that are drawn as dots."""
_CHARACTER = 7.5
"""Estimated width of a label's character."""


@dataclass(frozen=True)
class Chart:
    """Labelled numbers: bars, or the points of a line."""

    across: str
    up: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    positions: tuple[float, ...] | None
    """The x of each point of a line; None for bars."""

    @property
    def has_dates(self) -> bool:
        """Whether labels are days or months, which are written as they are; years are numbers."""
        return all(_DAY_OR_MONTH.match(label) for label in self.labels)


def suggest_chart(rows: Rows) -> Chart | None:
    """The chart of two columns, one of which is numbers."""
    if len(rows.columns) != 2 or len(rows.rows) < 2 or rows.truncated:
        return None
    columns = [[row[index] for row in rows.rows] for index in (0, 1)]
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
    positions = None if is_key[across] else _positions(columns[across])
    names = rows.columns[across], rows.columns[up]
    if positions is not None and len(positions) >= _LEAST_POINTS:
        return Chart(*names, labels, values, positions)
    if is_number[across] and positions is None:
        return None  # two measures of something: neither names it
    if len(set(labels)) < len(labels) or len(labels) > _MOST_BARS:
        return None
    return Chart(*names, labels, values, None)


def draw_chart(chart: Chart) -> str:
    """Bars as HTML, which fit any width; a line as SVG."""
    if chart.positions is None:
        drawing = _bars(chart)
    else:
        points = list(zip(chart.positions, chart.values, strict=True))
        marks = _marks(chart, chart.positions)
        drawing = draw_both_widths(lambda width: _line(chart, points, marks, width))
    caption = f"<figcaption>{escape(chart.up)} by {escape(chart.across)}</figcaption>"
    return f'<figure class="rows-chart">{caption}{drawing}</figure>'


def _bars(chart: Chart) -> str:
    low, high = min(0.0, *chart.values), max(0.0, *chart.values)
    span = (high - low) or 1.0
    bars = "".join(
        f'<li><span class="label" title="{escape(label)}">{escape(clip(label, _LONGEST_LABEL))}</span>'
        f'<span class="track"><i style="margin-left:{100 * (min(value, 0.0) - low) / span:.2f}%;'
        f'width:{100 * abs(value) / span:.2f}%"></i></span><span class="value">{short_number(value)}</span></li>'
        for label, value in zip(chart.labels, chart.values, strict=True)
    )
    return f'<ul class="bars">{bars}</ul>'


def _marks(chart: Chart, positions: tuple[float, ...]) -> list[tuple[float, str]]:
    """The labels along the axis: the dates themselves, or round numbers."""
    if chart.has_dates:
        return list(zip(positions, chart.labels, strict=True))
    inside = [x for x in ticks(positions[0], positions[-1], 7) if positions[0] <= x <= positions[-1]]
    return [(x, _plain(x)) for x in inside or positions]


def _line(chart: Chart, points: list[tuple[float, float]], marks: list[tuple[float, str]], width: str) -> str:
    full, high = _SIZES[width]
    inner, tall = full - _LEFT - _RIGHT, high - _TOP - _BOTTOM
    y_ticks = ticks(min(chart.values), max(chart.values))
    first, last = points[0][0], points[-1][0]
    bottom, top = y_ticks[0], y_ticks[-1]

    def x_of(x: float) -> float:
        return _LEFT + inner * (x - first) / (last - first)

    def y_of(y: float) -> float:
        return _TOP + tall * (1 - (y - bottom) / (top - bottom))

    parts = []
    for y in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{full - _RIGHT}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 8}" y="{y_of(y) + 4:.1f}">{short_number(y)}</text>')
    longest = _CHARACTER * max(len(text) for _, text in marks)
    every = math.ceil(len(marks) / max(1, inner // max(56.0, longest + 12)))
    for x, text in marks[::every]:
        room = _CHARACTER * len(text) / 2
        centre = max(room, min(x_of(x), full - room))  # a label at the edge stays inside the picture
        parts.append(f'<text class="tick middle" x="{centre:.1f}" y="{high - _BOTTOM + 18}">{escape(text)}</text>')
    path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
    parts.append(f'<polyline points="{path}"/>')
    if len(points) <= _DOTS:
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3"/>' for x, y in points]
    across = escape(clip(chart.across, _LONGEST_LABEL))
    parts.append(f'<text class="axis end" x="{full - _RIGHT}" y="{high - 4}">{across}</text>')
    label = f"{chart.up} against {chart.across}"
    return (
        f'<svg class="chart" viewBox="0 0 {full} {high}" width="{full}" height="{high}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _plain(x: float) -> str:
    """A number without commas, since it may be a year."""
    return f"{x:g}" if abs(x) < 1e5 else short_number(x)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _positions(column: list[Any]) -> tuple[float, ...] | None:
    """Numbers or dates that increase from row to row; None where they do not."""
    positions = [_position(value) for value in column]
    known = [position for position in positions if position is not None]
    is_rising = all(before < after for before, after in pairwise(known))
    is_drawable = math.isfinite(max(known, default=0.0) - min(known, default=0.0))
    return tuple(known) if len(known) == len(positions) and is_rising and is_drawable else None


def _position(value: Any) -> float | None:
    if isinstance(value, datetime.date):
        return value.year + (value.timetuple().tm_yday - 1) / 366
    if isinstance(value, str):
        match = _DATE.fullmatch(value)
        if match is None:
            return None
        year, month, day = (int(part) for part in (value + "-01-01")[:10].split("-"))
        return year + (month - 1) / 12 + (day - 1) / 372
    return _number(value)
