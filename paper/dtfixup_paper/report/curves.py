"""Pictures of training runs: validation curves, and a metric against depth.

In: result files that hold a `curve`, as `model/train.py` and `reading/train.py` write them. Out: a PNG with a line
for each configuration: the mean over its seeds, in a band from the lowest to the highest seed. Or, in: values at each
depth, and out: a PNG with a line for each strategy, error bars and the seeds themselves.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_atomically
from dtfixup.fixup import STRATEGIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"exact": "exact match"}
COLOURS = {name: f"C{place}" for place, name in enumerate(STRATEGIES)}
"""Each strategy has one, in all pictures where it is a line's name."""
_GREY = "0.35"
_LABEL_INCHES = 0.374
"""Least distance of two labels beside their lines: two lines of small text."""


@dataclass(frozen=True)
class Curve:
    """One metric of one run, at the end of some of its epochs."""

    path: Path
    seed: int
    settings: Mapping[str, Any]
    """Flat fields of the configuration, without the seed."""
    points: Mapping[float, float]
    """From epoch to percent; NaN where an evaluation gave no number."""

    @property
    def is_on_dev(self) -> bool:
        return not self.settings.get("hold_out")


@dataclass(frozen=True)
class Band:
    """Runs that differ by their seed alone."""

    label: str
    epochs: tuple[float, ...]
    mean: tuple[float, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    seeds: int


def draw_curves(results: Sequence[Path], out: Path, *, metric: str = "exact", title: str | None = None) -> Path:
    """Draw a metric of all runs against the epoch; runs that differ by their seed alone become one line."""
    from matplotlib.figure import Figure

    curves = [read_curve(path, metric) for path in results]
    bands = bands_of(curves)
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    axis = figure.subplots()
    colours = [f"C{place % 10}" for place in range(len(bands))]
    for band, colour in zip(bands, colours, strict=True):
        _draw_band(axis, band, colour)
    highest = max((value for band in bands for value in band.highest if math.isfinite(value)), default=100.0)
    axis.set_ylim(0, max(1.06 * highest, 1.0))
    axis.set_xlim(left=0)
    axis.set_xlabel("epoch")
    where = "dev" if curves[0].is_on_dev else "held-out databases"
    axis.set_ylabel(f"{where}: {TITLES.get(metric, metric.replace('_', ' '))}, %")
    axis.set_title(title or _title(bands), fontsize=11)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    ends = [_end(band) for band in bands]
    axis.set_xlim(right=max(epoch for epoch, _ in ends))
    seeds = [f", {band.seeds} seeds" if band.seeds > 1 else "" for band in bands]
    _label_ends(
        axis,
        [
            (f"{band.label}\n{value:.1f} %{more}", value, colour)
            for band, (_, value), more, colour in zip(bands, ends, seeds, colours, strict=True)
        ],
    )
    return write_atomically(out, lambda temporary: figure.savefig(temporary, dpi=130, format="png"))


def panels_figure(
    panels: Mapping[str, Sequence[Band]],
    *,
    ylabel: str,
    level: float | None = None,
    columns: int | None = None,
    size: tuple[float, float],
) -> "Figure":
    """Bands against the epoch, a panel for each title: all in one row, or so many columns; `size` is in inches."""
    from matplotlib.figure import Figure

    if not panels:
        raise DataError("there is no result file to draw")
    names = list(dict.fromkeys(band.label for bands in panels.values() for band in bands))
    figure = Figure(figsize=size, layout="constrained")
    columns = min(columns or len(panels), len(panels))
    grid = figure.subplots(-(-len(panels) // columns), columns, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    drawn: dict[str, Any] = {}
    for axis, (title, bands) in zip(axes, panels.items(), strict=False):
        for band in bands:
            drawn[band.label] = _draw_band(axis, band, COLOURS.get(band.label, _GREY))
        if level is not None:
            axis.axhline(level, color="0.55", lw=1.0, ls=":")
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("epoch")
        axis.set_xlim(left=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(bottom=0)
    for row in grid:
        row[0].set_ylabel(ylabel)
    figure.legend([drawn[name] for name in names], names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _draw_band(axis: Any, band: Band, colour: str) -> Any:
    """The line of the means, which is returned, and the band around it."""
    wide = 2.6 if band.label.startswith("dt-fixup") else 1.8
    (line,) = axis.plot(band.epochs, band.mean, marker="o", ms=3, lw=wide, color=colour, clip_on=False)
    if band.seeds > 1:
        axis.fill_between(band.epochs, band.lowest, band.highest, color=colour, alpha=0.18, lw=0)
    return line


@dataclass(frozen=True)
class DepthLine:
    """A strategy's values: for each depth, one of every seed."""

    label: str
    values: Mapping[int, Sequence[float]]
    split: Collection[int] = ()
    """Depths at which some runs collapsed and others did not: a mean of both is no run's, so it is not drawn."""

    @property
    def means(self) -> dict[int, float]:
        return {depth: fmean(self.values[depth]) for depth in sorted(self.values) if depth not in self.split}


def depth_figure(
    lines: Sequence[DepthLine],
    *,
    ylabel: str,
    baseline: tuple[str, Sequence[float]] | None = None,
    chance: float | None = None,
    paper: Sequence[DepthLine] = (),
    size: tuple[float, float] = (8.0, 4.4),
) -> "Figure":
    """Means and standard deviations against depth.

    Args:
        lines: one for each strategy.
        ylabel: what the values are.
        baseline: name and values of what has no depth, such as the encoder alone: a level line.
        chance: what guessing gives: a dotted line.
        paper: the paper's means: dashed lines behind the others.
        size: in inches.
    """
    from matplotlib.figure import Figure

    if not lines:
        raise DataError("there is no run with new layers to draw")
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    depths = sorted({depth for line in (*lines, *paper) for depth in line.values})
    named = []
    for line in paper:
        style: dict[str, Any] = {"marker": "o", "ms": 4, "mfc": "none", "ls": "--", "lw": 1.2, "alpha": 0.75}
        axis.plot(list(line.means), list(line.means.values()), color=COLOURS.get(line.label, _GREY), **style)
    for place, line in enumerate(lines):
        colour = COLOURS.get(line.label, _GREY)
        _draw_line(axis, line, colour, shift=1 + 0.03 * (place - (len(lines) - 1) / 2))
        if line.means:
            depth, last = max(line.means.items())
            where = f" at {depth}" if depth < max(line.values) else ""
            named.append((f"{line.label}\n{last:.1f} %{where}", last, colour))
    if baseline is not None:
        level, around = fmean(baseline[1]), deviation(baseline[1])
        axis.axhline(level, color=_GREY, lw=1.4, ls="--")
        axis.axhspan(level - around, level + around, color=_GREY, alpha=0.12, lw=0)
        named.append((f"{baseline[0]}\n{level:.1f} %", level, _GREY))
    if chance is not None:
        axis.axhline(chance, color="0.55", lw=1.0, ls=":")
        named.append((f"chance {chance:.0f} %", chance, "0.55"))
    axis.set_xscale("log", base=2)
    axis.set_xticks(depths, [str(depth) for depth in depths])
    axis.minorticks_off()
    axis.set_xlim(depths[0] / 1.15, depths[-1] * 1.15)
    axis.set_xlabel("new layers")
    axis.set_ylabel(ylabel)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    _label_ends(axis, named)
    return figure


def _draw_line(axis: Any, line: DepthLine, colour: str, shift: float) -> None:
    """Means, bars and, beside them, dots; `shift` moves them aside, so that lines do not hide each other."""
    at, means = [shift * depth for depth in line.means], list(line.means.values())
    axis.plot(at, means, marker="o", ms=5, lw=2.6 if line.label == "dt-fixup" else 1.8, color=colour)
    around = [deviation(line.values[depth]) for depth in line.means]
    axis.errorbar(at, means, around, fmt="none", ecolor=colour, capsize=4)
    dots = [(1.03 * shift * depth, value) for depth in line.means for value in line.values[depth]]
    alone = [(shift * depth, value) for depth in line.split for value in line.values[depth]]
    for size, drawn in ((14, dots), (34, alone)):
        if drawn:
            axis.scatter(*zip(*drawn, strict=True), s=size, color=colour, alpha=0.7, lw=0)


def deviation(values: Sequence[float]) -> float:
    """Of a sample; 0 for one value."""
    return stdev(values) if len(values) > 1 else 0.0


def read_curve(path: str | Path, metric: str) -> Curve:
    """One metric of a result file, or an error that says what the file lacks."""
    return curve_of(read_json(path), path, metric)


def curve_of(content: Any, path: str | Path, metric: str) -> Curve:
    """The same of a file that is read already; `path` is for errors."""
    curve = content.get("curve") if isinstance(content, dict) else None
    if not curve:
        raise DataError(f"{path} has no curve: give result files of training runs that were evaluated on the way")
    settings = flat(content.get("config", {}))
    for name in ("model.strategy", "model.layers", "training.seed"):
        if name not in settings:
            raise DataError(f"{path} does not say {name} in its config: it is no result of dtfixup sql train")
    points: dict[float, float] = {}
    for evaluation in curve:
        if metric not in evaluation:
            known = ", ".join(name for name in evaluation if name not in ("step", "epoch"))
            raise DataError(f"{path} has no {metric} in its curve: it has {known}")
        value = evaluation[metric]
        points[float(evaluation["epoch"])] = math.nan if value is None else float(value)
    return Curve(Path(path), int(settings.pop("training.seed")), settings, points)


def bands_of(curves: Sequence[Curve]) -> list[Band]:
    """One band for each configuration, in the order of the files; all must be measured on the same thing."""
    if not curves:
        raise DataError("there is no result file to draw")
    if len({curve.is_on_dev for curve in curves}) > 1:
        held_out, dev = (next(curve.path for curve in curves if curve.is_on_dev is wanted) for wanted in (False, True))
        raise DataError(
            f"{held_out} was evaluated on held-out databases and {dev} on dev: their curves cannot be compared"
        )
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(json.dumps(curve.settings, sort_keys=True), []).append(curve)
    labels = labels_of([members[0].settings for members in groups.values()])
    return [band_of(label, members) for label, members in zip(labels, groups.values(), strict=True)]


def labels_of(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Strategy and layers, and whatever else tells two configurations of one name apart."""
    names = [f"{settings['model.strategy']}, {settings['model.layers']} layers" for settings in configurations]
    labels = []
    for name, settings in zip(names, configurations, strict=True):
        alike = [other for other, its_name in zip(configurations, names, strict=True) if its_name == name]
        fields = sorted({field for other in alike for field in other})
        differing = [field for field in fields if any(other.get(field) != settings.get(field) for other in alike)]
        details = ", ".join(f"{field.rpartition('.')[2]} {settings.get(field)}" for field in differing)
        labels.append(f"{name}, {details}" if details else name)
    return labels


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places at least `gap` apart, in the same order and as near to the given ones as that allows in the mean.

    >>> spread([10.0, 30.0, 31.0], 3.0)
    [10.0, 29.0, 32.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    clusters: list[list[int]] = []  # neighbours that touch, moved as one
    centres: list[float] = []
    for place in order:
        clusters.append([place])
        centres.append(places[place])
        while len(clusters) > 1:
            needed = gap * (len(clusters[-1]) + len(clusters[-2])) / 2
            if centres[-1] - centres[-2] >= needed:
                break
            touching = clusters.pop()
            clusters[-1] += touching
            centres.pop()
            centres[-1] = fmean(places[member] for member in clusters[-1])
    found = [0.0] * len(places)
    for members, centre in zip(clusters, centres, strict=True):
        for rank, member in enumerate(members):
            found[member] = centre + gap * (rank - (len(members) - 1) / 2)
    return found


def band_of(label: str, members: Sequence[Curve]) -> Band:
    """The mean of runs that differ by their seed, evaluated after the same epochs."""
    twice = [seed for seed, count in Counter(curve.seed for curve in members).items() if count > 1]
    if twice:
        paths = " and ".join(str(curve.path) for curve in members if curve.seed == twice[0])
        raise DataError(f"{paths} are runs of one configuration and one seed, {twice[0]}: give one of them")
    epochs = tuple(sorted(members[0].points))
    for curve in members:
        if tuple(sorted(curve.points)) != epochs:
            raise DataError(
                f"{curve.path} and {members[0].path} were evaluated after different epochs: no mean can be drawn"
            )
    columns = [[curve.points[epoch] for curve in members] for epoch in epochs]
    means = tuple(fmean(column) for column in columns)
    known = [column if math.isfinite(mean) else [math.nan] for column, mean in zip(columns, means, strict=True)]
    return Band(label, epochs, means, tuple(map(min, known)), tuple(map(max, known)), len(members))


def _title(bands: Sequence[Band]) -> str:
    if all(band.seeds == 1 for band in bands):
        return "validation during training"
    return "validation during training: mean of seeds, lowest to highest shaded"


def _label_ends(axis: Any, named: Sequence[tuple[str, float, str]]) -> None:
    """Text, value and colour of each line beside its end: colours of a legend are hard to tell apart."""
    low, high = axis.get_ylim()
    places = spread([value for _, value, _ in named], _LABEL_INCHES / axis.figure.get_figheight() * (high - low))
    for (text, _, colour), place in zip(named, places, strict=True):
        axis.annotate(
            text,
            (axis.get_xlim()[1], place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
            annotation_clip=False,
        )


def _end(band: Band) -> tuple[float, float]:
    """The last point that has a number; the bottom of the axis if there is none."""
    known = [(epoch, value) for epoch, value in zip(band.epochs, band.mean, strict=True) if math.isfinite(value)]
    return known[-1] if known else (band.epochs[-1], 0.0)


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested fields by their names with dots."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
