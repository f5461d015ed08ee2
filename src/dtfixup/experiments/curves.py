"""Validation curves of training runs, as one picture.

In: result files that hold a `curve`, as `sql_run.py` writes them. Out: a PNG with a line for each configuration: the
mean over its seeds, in a band from the lowest to the highest seed.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_atomically

TITLES = {"exact": "exact match"}
_LABEL_SHARE = 0.085
"""Least distance of two labels, as a share of the axis: two lines of small text."""


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
    for band in bands:
        wide = 2.6 if band.label.startswith("dt-fixup") else 1.8
        axis.plot(band.epochs, band.mean, marker="o", ms=3, lw=wide, clip_on=False)
        colour = axis.lines[-1].get_color()
        if band.seeds > 1:
            axis.fill_between(band.epochs, band.lowest, band.highest, color=colour, alpha=0.18, lw=0)
    highest = max((value for band in bands for value in band.highest if math.isfinite(value)), default=100.0)
    axis.set_ylim(0, max(1.06 * highest, 1.0))
    axis.set_xlim(left=0)
    axis.set_xlabel("epoch")
    where = "dev" if curves[0].is_on_dev else "held-out databases"
    axis.set_ylabel(f"{where}: {TITLES.get(metric, metric.replace('_', ' '))}, %")
    axis.set_title(title or _title(bands), fontsize=11)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    _label_ends(axis, bands)
    return write_atomically(out, lambda temporary: figure.savefig(temporary, dpi=130, format="png"))


def read_curve(path: str | Path, metric: str) -> Curve:
    """One metric of a result file, or an error that says what the file lacks."""
    content = read_json(path)
    curve = content.get("curve") if isinstance(content, dict) else None
    if not curve:
        raise DataError(f"{path} has no curve: give result files of training runs that were evaluated on the way")
    settings = _flat(content.get("config", {}))
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
    return [_band(label, members) for label, members in zip(labels, groups.values(), strict=True)]


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


def _band(label: str, members: Sequence[Curve]) -> Band:
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


def _label_ends(axis: Any, bands: Sequence[Band]) -> None:
    """Each line's name and last value beside its end: colours of a legend are hard to tell apart."""
    ends = [_end(band) for band in bands]
    gap = _LABEL_SHARE * axis.get_ylim()[1]
    right = max(epoch for epoch, _ in ends)
    axis.set_xlim(right=right)
    texts = spread([value for _, value in ends], gap)
    for band, (_, value), place, line in zip(bands, ends, texts, axis.lines, strict=True):
        seeds = f", {band.seeds} seeds" if band.seeds > 1 else ""
        axis.annotate(
            f"{band.label}\n{value:.1f} %{seeds}",
            (right, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=line.get_color(),
            annotation_clip=False,
        )


def _end(band: Band) -> tuple[float, float]:
    """The last point that has a number; the bottom of the axis if there is none."""
    known = [(epoch, value) for epoch, value in zip(band.epochs, band.mean, strict=True) if math.isfinite(value)]
    return known[-1] if known else (band.epochs[-1], 0.0)


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
