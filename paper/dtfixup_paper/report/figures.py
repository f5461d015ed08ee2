"""Figures of the report that `curves.py` does not draw, and SVG files of all figures.

Letters stay letters, so that they can be searched and copied; the same values give the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dtfixup.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 5.0
"""Inches. Text is then of a readable size on a phone, and not too large on a screen."""
STYLE: dict[Any, Any] = {"font.size": 9.0, "svg.fonttype": "none"}
"""Settings of matplotlib for all figures of the report."""


@dataclass(frozen=True)
class Bar:
    """One strategy or choice."""

    values: Sequence[float]
    """Of every seed that has one."""
    text: str
    """Beside them."""
    colour: str
    remark: str = ""
    """Below the text, or in its place: failed runs, or that nothing has run."""
    has_mean: bool = True
    """Otherwise there are dots and no bar."""


def write_svg(figure: "Figure", path: Path) -> Path:
    """A figure as a file without date."""
    import matplotlib as mpl

    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        return write_atomically(path, lambda temporary: figure.savefig(temporary, format="svg", metadata=metadata))


def bars_figure(panels: Mapping[str, Mapping[str, Bar]], *, xlabel: str, chance: float | None = None) -> "Figure":
    """Means as bars with the seeds as dots, by name, a panel for each title, one below the other."""
    from matplotlib.figure import Figure

    count = sum(len(bars) for bars in panels.values())
    figure = Figure(figsize=(WIDTH, 0.5 + 0.3 * count + 0.45 * len(panels)), layout="constrained")
    heights = [len(bars) + 0.6 for bars in panels.values()]
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for place, bar in enumerate(bars.values()):
            _draw_bar(axis, place, bar)
        axis.set_yticks(range(len(bars)), list(bars))
        axis.set_ylim(len(bars) - 0.4, -0.6)
        axis.set_title(title, fontsize=10, loc="left")
        if chance is not None:
            axis.axvline(chance, color="0.55", lw=1.0, ls=":")
        _tidy(axis, "x")
    values = [value for bars in panels.values() for bar in bars.values() for value in bar.values]
    remarks = any(bar.values and bar.remark for bars in panels.values() for bar in bars.values())
    axes[-1].set_xlim(0, (1.6 if remarks else 1.25) * max([1.0, *values]))
    axes[-1].set_xlabel(xlabel)
    return figure


def shares_figure(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], shades: Mapping[str, tuple[str, float]], *, ylabel: str
) -> "Figure":
    """Percentages of models side by side: title → kind of error → model → share; each model's colour and opacity."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    wide, middle, bars = 0.8 / len(shades), (len(shades) - 1) / 2, {}
    for axis, (title, kinds) in zip(axes, panels.items(), strict=True):
        for place, (model, (colour, opacity)) in enumerate(shades.items()):
            at = [kind + wide * (place - middle) for kind in range(len(kinds))]
            heights = [shares[model] for shares in kinds.values()]
            bars[model] = axis.bar(at, heights, wide * 0.92, color=colour, alpha=opacity, lw=0)
            axis.bar_label(bars[model], fmt="%.0f", fontsize=8, padding=2)
        axis.set_xticks(range(len(kinds)), list(kinds))
        axis.set_title(title, fontsize=10)
        _tidy(axis, "y")
    highest = max(share for kinds in panels.values() for shares in kinds.values() for share in shares.values())
    axes[0].set_ylim(0, 1.12 * max(highest, 1.0))
    axes[0].set_ylabel(ylabel)
    figure.legend(list(bars.values()), list(bars), loc="outside lower center", ncols=len(bars), frameon=False)
    return figure


def _draw_bar(axis: Any, place: int, bar: Bar) -> None:
    beside = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
    if not bar.values:
        axis.annotate(bar.remark, (0, place), color="0.35", **beside)
        return
    if bar.has_mean:
        axis.barh(place, fmean(bar.values), 0.7, color=bar.colour, alpha=0.45, lw=0)
    axis.scatter(bar.values, [place] * len(bar.values), s=12, color=bar.colour, lw=0, zorder=3)
    axis.annotate("\n".join(filter(None, (bar.text, bar.remark))), (max(bar.values), place), **beside)


def _tidy(axis: Any, along: str) -> None:
    axis.grid(alpha=0.3, axis=along)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
