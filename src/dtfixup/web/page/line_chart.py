"""Lines in a frame: training curves, a metric against depth, rows with a number for each year.

In: named lines. Out: SVG for both widths of screen, with a legend in words below.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtfixup.web.page.pictures import COLOURS, NARROW, WIDE, clipped, escaped, for_both_widths, short_number, ticks

_SIZES = {WIDE: (860, 340), NARROW: (330, 250)}
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 40
_DOTS = 40
"""Points of a line up to which each is marked."""


@dataclass(frozen=True)
class Line:
    """A named line; points are from left to right."""

    label: str
    points: tuple[tuple[float, float], ...]
    remark: str = ""
    """Beside the name in the legend."""


def draw_lines(
    lines: Sequence[Line],
    *,
    across: str,
    up: str,
    is_doubling: bool = False,
    marks: Sequence[tuple[float, str]] | None = None,
) -> str:
    """The lines in one frame; `across` and `up` name the axes.

    Args:
        lines: those without a finite point are in the legend alone.
        is_doubling: each step across is a doubling.
        marks: what to write along the axis and where, in place of round numbers: dates, say; of many, some are written.
    """
    finite = [(x, y) for line in lines for x, y in line.points if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        return '<p class="note">There are no points to draw yet.</p>'
    frame = _Frame(finite, is_doubling)
    marks = [(x, _plain(x)) for x in frame.x_ticks] if marks is None else marks
    drawn = for_both_widths(lambda width: _draw(lines, frame, width, across, up, marks))
    return f"{drawn}{_legend(lines)}"


class _Frame:
    """Where numbers stand within the axes, as shares."""

    def __init__(self, points: Sequence[tuple[float, float]], is_doubling: bool) -> None:
        self._is_doubling = is_doubling
        xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
        self.y_ticks = ticks(min(ys), max(ys))
        round_ones = [x for x in ticks(xs[0], xs[-1], 7) if xs[0] <= x <= xs[-1]]
        self.x_ticks = xs if is_doubling or not round_ones else round_ones
        self._x = (self._scaled(xs[0]), self._scaled(xs[-1]))
        self._y = (self.y_ticks[0], self.y_ticks[-1])

    def _scaled(self, x: float) -> float:
        return math.log2(x) if self._is_doubling and x > 0 else x

    def place(self, x: float, y: float) -> tuple[float, float]:
        low, high = self._x
        across = 0.5 if low == high else (self._scaled(x) - low) / (high - low)
        return across, (y - self._y[0]) / (self._y[1] - self._y[0])


def _draw(
    lines: Sequence[Line], frame: _Frame, width: str, across: str, up: str, marks: Sequence[tuple[float, str]]
) -> str:
    full, high = _SIZES[width]
    inner, tall = full - _LEFT - _RIGHT, high - _TOP - _BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        share_x, share_y = frame.place(x, y)
        return _LEFT + share_x * inner, _TOP + (1 - share_y) * tall

    parts = []
    for y in frame.y_ticks:
        _, place = at(frame.x_ticks[0], y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{full - _RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 8}" y="{place + 4:.1f}">{short_number(y)}</text>')
    room = max(56, 9 * max(len(text) for _, text in marks))
    every = math.ceil(len(marks) / max(1, inner // room))
    for x, text in marks[::every]:
        place, _ = at(x, frame.y_ticks[0])
        parts.append(f'<text class="tick middle" x="{place:.1f}" y="{high - _BOTTOM + 18}">{escaped(text)}</text>')
    for place, line in enumerate(lines):
        parts.append(_line(line, place, at))
    parts.append(f'<text class="axis end" x="{full - _RIGHT}" y="{high - 4}">{escaped(across)}</text>')
    parts.append(f'<text class="axis" x="{_LEFT - 46}" y="{high - 4}">{escaped(clipped(up, 34))}</text>')
    label = f"{up} against {across}: {', '.join(line.label for line in lines)}"
    return (
        f'<svg class="chart" viewBox="0 0 {full} {high}" width="{full}" height="{high}" role="img" '
        f'aria-label="{escaped(label)}">{"".join(parts)}</svg>'
    )


def _line(line: Line, place: int, at: Callable[[float, float], tuple[float, float]]) -> str:
    found = [at(x, y) for x, y in line.points if math.isfinite(x) and math.isfinite(y)]
    if not found:
        return ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in found)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in found) if len(found) <= _DOTS else ""
    return f'<g class="line line-{place % COLOURS}"><polyline points="{path}"/>{dots}</g>'


def _plain(x: float) -> str:
    """A year is no quantity: no comma."""
    return f"{x:g}" if abs(x) < 1e5 else short_number(x)


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li class="line-{place % COLOURS}"><i></i>{escaped(line.label)}'
        + (f" <b>{escaped(line.remark)}</b>" if line.remark else "")
        + "</li>"
        for place, line in enumerate(lines)
    )
    return f'<ul class="legend">{items}</ul>' if len(lines) > 1 or any(line.remark for line in lines) else ""
