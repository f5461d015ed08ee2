"""Training runs as lines to draw.

In: `Run`, as `runs.py` reads it. Out: a measure against the epoch, or its last value against the number of layers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from dtfixup.web.page.line_chart import Line

_PLACES = ("step", "epoch")
_LOGGED = {"loss": "training loss", "gradient_norm": "gradient norm", "learning_rate": "learning rate"}
_DRAWABLE = 1e300
"""The axes of larger numbers cannot be computed."""


@dataclass(frozen=True)
class Run:
    """One training run."""

    name: str
    strategy: str
    layers: int | None
    steps: tuple[Mapping[str, Any], ...] = ()
    evaluations: tuple[Mapping[str, Any], ...] = ()
    alerts: tuple[Mapping[str, Any], ...] = ()
    alert_count: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Those of its result; empty while it trains."""
    is_thinned: bool = False
    """Whether its logs are too long to be kept whole: the rows are spread evenly over them."""

    def points(self, measure: str) -> tuple[tuple[float, float], ...]:
        """A measure against the epoch."""
        logged = {title: key for key, title in _LOGGED.items()}
        rows, key = (self.steps, logged[measure]) if measure in logged else (self.evaluations, measure)
        found = ((finite(row.get("epoch")), finite(row.get(key))) for row in rows)
        return tuple((epoch, value) for epoch, value in found if epoch is not None and value is not None)

    @property
    def title(self) -> str:
        what = self.strategy if self.layers is None else f"{self.strategy}, {self.layers} layers"
        return self.name if not self.strategy else f"{self.name} ({what})"


@dataclass(frozen=True)
class Runs:
    """What a folder holds."""

    runs: tuple[Run, ...] = ()
    depth_checks: Mapping[str, Mapping[str, Sequence[Line]]] = field(default_factory=dict)
    """By name and by kind of layer, the update of one Adam step against depth."""
    problems: tuple[str, ...] = ()
    """Sentences about what could not be read or was left out."""

    def measures(self, names: Collection[str] | None = None) -> list[str]:
        """What can be drawn of all runs, or of those with these names: measures of evaluations first."""
        runs = [run for run in self.runs if names is None or run.name in names]
        rows = [row for run in runs for row in run.evaluations]
        evaluated = dict.fromkeys(key for row in rows for key, value in row.items() if finite(value) is not None)
        logged = [title for key, title in _LOGGED.items() if any(key in row for run in runs for row in run.steps)]
        return [key for key in evaluated if key not in _PLACES] + logged


def curve_lines(runs: Sequence[Run], measure: str) -> list[Line]:
    """A line for each run, with its last value."""
    lines = []
    for run in runs:
        points = run.points(measure)
        lines.append(Line(run.title, points, f"{points[-1][1]:.4g}" if points else "nothing yet"))
    return lines


def depth_lines(runs: Sequence[Run], measure: str) -> list[Line]:
    """For each strategy the last value of a measure against the number of layers, the mean over seeds."""
    groups: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        points = run.points(measure)
        if run.layers and points:
            groups.setdefault(run.strategy, {}).setdefault(run.layers, []).append(points[-1][1])
    return [
        Line(strategy, tuple((float(layers), fmean(depths[layers])) for layers in sorted(depths)))
        for strategy, depths in groups.items()
    ]


def finite(value: Any) -> float | None:
    """A number that can be drawn; None of anything else.

    >>> [finite(value) for value in (3, 2.5, True, "3", None, float("nan"), 10**400)]
    [3.0, 2.5, None, None, None, None, None]
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and -_DRAWABLE < value < _DRAWABLE else None
