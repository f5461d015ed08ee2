"""Validation curves of training runs.

In: result files that hold a `curve`, as `dtfixup sql train` and `dtfixup reading train` write them. Out: a line for
each configuration: the mean over its seeds, in a band from the lowest to the highest seed.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_atomically
from dtfixup_paper.report.figures import COLOURS, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CHARACTERS_PER_INCH = 10
"""Of a legend, its line included."""


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
    """Runs that differ only in their seed."""

    label: str
    epochs: Sequence[float]
    values: Sequence[Sequence[float]]
    """A row for each seed, a number for each epoch."""

    @property
    def mean(self) -> list[float]:
        return np.mean(self.values, axis=0).tolist()

    @property
    def last(self) -> float:
        """The last mean that is a number; 0 if there is none."""
        return next(filter(math.isfinite, reversed(self.mean)), 0.0)


def draw_curves(results: Sequence[Path], out: Path, *, metric: str = "exact", title: str | None = None) -> Path:
    """Draw a metric of all runs against the epoch; runs that differ only in their seed become one line."""
    curves = [curve_of(read_json(path), path, metric) for path in results]
    bands = []
    for band in bands_of(curves):
        seeds = f", {len(band.values)} seeds" if len(band.values) > 1 else ""
        bands.append(replace(band, label=f"{band.label}: {band.last:.1f} %{seeds}"))
    split = "dev" if curves[0].is_on_dev else "held-out databases"
    measure = "exact match" if metric == "exact" else metric.replace("_", " ")
    shaded = ": mean of seeds, lowest to highest shaded" if any(len(band.values) > 1 for band in bands) else ""
    panels = {title or f"validation during training{shaded}": bands}
    figure = panels_figure(panels, ylabel=f"{split}: {measure}, %", size=(8.0, 4.8))
    return write_atomically(out, lambda temporary: figure.savefig(temporary, dpi=130, format="png"))


def panels_figure(
    panels: Mapping[str, Sequence[Band]],
    *,
    ylabel: str,
    level: float | None = None,
    columns: int = 1,
    size: tuple[float, float],
) -> "Figure":
    """Bands against the epoch, a panel for each title; `level` is a dotted line, `size` is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(-(-len(panels) // columns), columns, sharey=True, squeeze=False)
    for spare in grid.flat[len(panels) :]:
        spare.set_visible(False)
    lines: dict[str, Any] = {}
    for axis, (title, bands) in zip(grid.flat, panels.items(), strict=False):
        for position, band in enumerate(bands):
            colour = COLOURS.get(band.label, f"C{position % 10}")
            (lines[band.label],) = axis.plot(band.epochs, band.mean, marker="o", ms=3, color=colour, clip_on=False)
            if len(band.values) > 1:
                lowest, highest = np.min(band.values, axis=0), np.max(band.values, axis=0)
                axis.fill_between(band.epochs, lowest, highest, color=colour, alpha=0.18, lw=0)
        if level is not None:
            axis.axhline(level, color="0.55", lw=1.0, ls=":")
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("epoch")
        axis.set_xlim(left=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
        tidy(axis)
    grid[0, 0].set_ylim(bottom=0)
    for axis in grid[:, 0]:
        axis.set_ylabel(ylabel)
    fitting = max(1, int(_CHARACTERS_PER_INCH * size[0] / max(map(len, lines))))
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=fitting, frameon=False)
    return figure


def curve_of(content: Any, path: str | Path, metric: str) -> Curve:
    """One metric of a result file's content, or an error that names the file and says what it lacks."""
    curve = content.get("curve") if isinstance(content, dict) else None
    if not curve:
        raise DataError(f"{path} has no curve: give result files of training runs that were evaluated on the way")
    settings = flatten(content.get("config", {}))
    for name in ("model.strategy", "model.layers", "training.seed"):
        if name not in settings:
            raise DataError(f"{path} does not say {name} in its config: it is no result of dtfixup sql train")
    points: dict[float, float] = {}
    for evaluation in curve:
        if metric not in evaluation:
            measured = ", ".join(name for name in evaluation if name not in ("step", "epoch"))
            raise DataError(f"{path} has no {metric} in its curve: it has {measured}")
        value = evaluation[metric]
        points[float(evaluation["epoch"])] = math.nan if value is None else float(value)
    return Curve(Path(path), int(settings.pop("training.seed")), settings, points)


def bands_of(curves: Sequence[Curve]) -> list[Band]:
    """One band for each configuration, in the order of the files; all must be measured on the same questions."""
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
    labels = _labels([members[0].settings for members in groups.values()])
    return [band_of(label, members) for label, members in zip(labels, groups.values(), strict=True)]


def band_of(label: str, members: Sequence[Curve]) -> Band:
    """Runs that differ only in their seed, evaluated after the same epochs, as a band."""
    seed, count = Counter(curve.seed for curve in members).most_common(1)[0]
    if count > 1:
        paths = " and ".join(str(curve.path) for curve in members if curve.seed == seed)
        raise DataError(f"{paths} are runs of one configuration and one seed, {seed}: give one of them")
    epochs = sorted(members[0].points)
    for curve in members:
        if sorted(curve.points) != epochs:
            raise DataError(
                f"{curve.path} and {members[0].path} were evaluated after different epochs: no mean can be drawn"
            )
    return Band(label, epochs, [[curve.points[epoch] for epoch in epochs] for curve in members])


def _labels(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Strategy and layers, and whatever else differs between two configurations of one name."""
    names = [f"{settings['model.strategy']}, {settings['model.layers']} layers" for settings in configurations]
    labels = []
    for name, settings in zip(names, configurations, strict=True):
        alike = [other for other, its_name in zip(configurations, names, strict=True) if its_name == name]
        fields = sorted({field for other in alike for field in other})
        differing = [field for field in fields if any(other.get(field) != settings.get(field) for other in alike)]
        labels.append(", ".join([name, *(f"{field.rpartition('.')[2]} {settings.get(field)}" for field in differing)]))
    return labels


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by their names with dots.

    >>> flatten({"seed": 1, "model": {"layers": 24}})
    {'seed': 1, 'model.layers': 24}
    """
    fields: dict[str, Any] = {}
    for name, value in config.items():
        fields |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return fields
