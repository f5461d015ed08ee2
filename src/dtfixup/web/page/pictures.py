"""What all pictures of the page share: escaped text, round numbers, and a drawing for each width of screen.

Pictures are SVG and HTML of our own. Colours are those of `style.css`, so that dark mode has its own. Text of a
database is escaped.
"""

import html
import math
from collections.abc import Callable

WIDE, NARROW = "wide", "narrow"


def escape(text: str) -> str:
    """Text for HTML and SVG, with blanks for control characters, which XML forbids."""
    return html.escape("".join(character if character.isprintable() else " " for character in text))


def notice(kind: str, text: str, title: str = "") -> str:
    """A sentence in a box, "warn" or "error"; screen readers announce errors at once."""
    role = "alert" if kind == "error" else "status"
    head = f"<strong>{escape(title)}</strong> " if title else ""
    return f'<div class="notice {kind}" role="{role}">{head}{escape(text)}</div>'


def clip(text: str, most: int) -> str:
    """The text, cut to at most so many characters.

    >>> clip("community_garden", 10)
    'community…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def draw_both_widths(draw: Callable[[str], str]) -> str:
    """A picture for a screen and one for a phone; the style sheet shows one of them."""
    return "".join(f'<div class="picture {width}">{draw(width)}</div>' for width in (WIDE, NARROW))


def short_number(value: float) -> str:
    """A number as an axis or a bar shows it.

    >>> [short_number(value) for value in (0, 1234567, 0.5, 71.94, 3e-4, 12000.0, 2024)]
    ['0', '1.23M', '0.5', '71.9', '0.0003', '12,000', '2,024']
    """
    size = abs(value)
    if size >= 1e15 or (0 < size < 1e-4):
        return f"{value:.2g}"
    for limit, letter in ((1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{value / limit:.3g}{letter}"
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if size < 1000 else f"{value:,.0f}"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from at most `low` to at least `high`.

    >>> ticks(0, 71.9), ticks(3, 3)
    ([0.0, 20.0, 40.0, 60.0, 80.0], [2.0, 2.5, 3.0, 3.5, 4.0])
    """
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-12, 1e-9 * largest):  # less than labels could tell apart
        low, high = low - max(1.0, 1e-3 * largest), high + max(1.0, 1e-3 * largest)
    raw = (high - low) / max(1, most - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]
