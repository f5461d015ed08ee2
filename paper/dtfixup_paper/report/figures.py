"""Figures of the report other than curves, and SVG files of all figures.

Letters stay letters, so they can be searched and copied; the same values give the same bytes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from dtfixup.files import write_atomically
from dtfixup.fixup import STRATEGIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 5.0
"""Inches: text is then readable on a phone, and not too large on a screen."""
STYLE: dict[Any, Any] = {"font.size": 9.0, "svg.fonttype": "none"}
"""Settings of matplotlib for all figures of the report."""
COLOURS = {name: f"C{position}" for position, name in enumerate(STRATEGIES)}
"""Each strategy has the same colour in all figures."""
_GREY = "0.35"


@dataclass(frozen=True)
class DepthLine:
    """A strategy's values: for each depth, one of every seed."""

    label: str
    values: Mapping[int, Sequence[float]]
    split: Collection[int] = ()
    """Depths at which some runs failed and others did not: they have no mean."""

    @property
    def means(self) -> dict[int, float]:
        return {depth: fmean(self.values[depth]) for depth in sorted(self.values) if depth not in self.split}


@dataclass(frozen=True)
class Bar:
    """One strategy or choice."""

    values: Sequence[float]
    """Of every seed that has one."""
    text: str
    """Beside the bar."""
    colour: str
    has_mean: bool = True
    """Otherwise there are dots and no bar."""


def write_svg(figure: "Figure", path: Path) -> Path:
    """Write a figure to a file that holds no date."""
    import matplotlib as mpl

    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        return write_atomically(path, lambda temporary: figure.savefig(temporary, format="svg", metadata=metadata))


def depth_figure(
    lines: Sequence[DepthLine], *, ylabel: str, chance: float | None = None, paper: Sequence[DepthLine] = ()
) -> "Figure":
    """Means and standard deviations against depth, with the seeds as dots; the paper's means are dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
    axis = figure.subplots()
    for line in paper:
        dashed: dict[str, Any] = {"marker": "o", "ms": 4, "mfc": "none", "ls": "--", "lw": 1.2, "alpha": 0.75}
        axis.plot(list(line.means), list(line.means.values()), color=COLOURS.get(line.label, _GREY), **dashed)
    for position, line in enumerate(lines):
        _draw_line(axis, line, shift=1 + 0.03 * (position - (len(lines) - 1) / 2))
    if chance is not None:
        axis.axhline(chance, color="0.55", lw=1.0, ls=":", label=f"chance {chance:.0f} %")
    depths = sorted({depth for line in (*lines, *paper) for depth in line.values})
    axis.set_xscale("log", base=2)
    axis.set_xticks(depths, [str(depth) for depth in depths])
    axis.minorticks_off()
    axis.set_xlim(depths[0] / 1.15, depths[-1] * 1.15)
    axis.set_xlabel("new layers")
    axis.set_ylabel(ylabel)
    tidy(axis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_line(axis: Any, line: DepthLine, shift: float) -> None:
    """Means with error bars, and seeds beside them; `shift` keeps lines from hiding each other."""
    colour, label = COLOURS.get(line.label, _GREY), line.label
    if line.means:
        depth, last = max(line.means.items())
        label += f" {last:.1f} %" + (f" at {depth}" if depth < max(line.values) else "")
    around = [stdev(values) if len(values := line.values[depth]) > 1 else 0.0 for depth in line.means]
    at = [shift * depth for depth in line.means]
    axis.errorbar(at, list(line.means.values()), around, marker="o", ms=5, lw=2, capsize=4, color=colour, label=label)
    for depth, values in line.values.items():
        alone = depth in line.split
        place = shift * depth * (1 if alone else 1.03)
        axis.scatter([place] * len(values), values, s=34 if alone else 14, color=colour, alpha=0.7, lw=0)


def bars_figure(panels: Mapping[str, Mapping[str, Bar]], *, xlabel: str, chance: float | None = None) -> "Figure":
    """Means as bars with the seeds as dots, by name, a panel for each title, one below the other."""
    from matplotlib.figure import Figure

    count = sum(len(bars) for bars in panels.values())
    figure = Figure(figsize=(WIDTH, 0.5 + 0.3 * count + 0.45 * len(panels)), layout="constrained")
    heights = [len(bars) + 0.6 for bars in panels.values()]
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for position, bar in enumerate(bars.values()):
            _draw_bar(axis, position, bar)
        axis.set_yticks(range(len(bars)), list(bars))
        axis.set_ylim(len(bars) - 0.4, -0.6)
        axis.set_title(title, fontsize=10, loc="left")
        if chance is not None:
            axis.axvline(chance, color="0.55", lw=1.0, ls=":")
        tidy(axis, "x")
    values = [value for bars in panels.values() for bar in bars.values() for value in bar.values]
    axes[-1].set_xlim(0, 1.6 * max([1.0, *values]))  # room for the text
    axes[-1].set_xlabel(xlabel)
    return figure


def _draw_bar(axis: Any, position: int, bar: Bar) -> None:
    beside = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
    if bar.values and bar.has_mean:
        axis.barh(position, fmean(bar.values), 0.7, color=bar.colour, alpha=0.45, lw=0)
    axis.scatter(bar.values, [position] * len(bar.values), s=12, color=bar.colour, lw=0, zorder=3)
    axis.annotate(bar.text, (max(bar.values, default=0), position), **beside)


def shares_figure(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], shades: Mapping[str, tuple[str, float]], *, ylabel: str
) -> "Figure":
    """Percentages of models side by side: title → kind of error → model → share; each model's colour and opacity."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    wide, middle, bars = 0.8 / len(shades), (len(shades) - 1) / 2, {}
    for axis, (title, kinds) in zip(axes, panels.items(), strict=True):
        for position, (model, (colour, opacity)) in enumerate(shades.items()):
            at = [kind + wide * (position - middle) for kind in range(len(kinds))]
            heights = [shares[model] for shares in kinds.values()]
            bars[model] = axis.bar(at, heights, wide * 0.92, color=colour, alpha=opacity, lw=0)
            axis.bar_label(bars[model], fmt="%.0f", fontsize=8, padding=2)
        axis.set_xticks(range(len(kinds)), list(kinds))
        axis.set_title(title, fontsize=10)
        tidy(axis, "y")
    axes[0].margins(y=0.12)
    axes[0].set_ylabel(ylabel)
    figure.legend(list(bars.values()), list(bars), loc="outside lower center", ncols=len(bars), frameon=False)
    return figure


def tidy(axis: Any, along: str = "both") -> None:
    """Draw a light grid behind the values, and no frame at the top and right."""
    axis.grid(alpha=0.3, axis=along)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
