"""Training runs in a folder, for the page's second tab.

In: a folder. Out: `Runs`: every folder below it that a run has logged to, every result file with a curve, every depth
check. A file that cannot be read is named with the reason.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from dtfixup.errors import ConfigError, DataError
from dtfixup.experiments.provenance import RESULT
from dtfixup.files import read_json
from dtfixup.training.log import ALERTS, EVALUATIONS, STEPS, read_lines
from dtfixup.web.line_chart import Line
from dtfixup.web.settings import MEBIBYTE

_MOST_RUNS = 200
_LARGEST = 64 * MEBIBYTE
_LEVELS = 3
_PLACES = ("step", "epoch")
_LOGGED = {"loss": "training loss", "gradient_norm": "gradient norm", "learning_rate": "learning rate"}


@dataclass(frozen=True)
class Run:
    """One training run."""

    name: str
    strategy: str
    layers: int | None
    seed: int | None
    steps: tuple[Mapping[str, Any], ...]
    evaluations: tuple[Mapping[str, Any], ...]
    alerts: tuple[Mapping[str, Any], ...]
    metrics: Mapping[str, Any]
    """Those of its result; empty while it trains."""

    def points(self, measure: str) -> tuple[tuple[float, float], ...]:
        """A measure against the epoch."""
        logged = {title: key for key, title in _LOGGED.items()}
        rows, key = (self.steps, logged[measure]) if measure in logged else (self.evaluations, measure)
        found = ((_finite(row.get("epoch")), _finite(row.get(key))) for row in rows)
        return tuple((epoch, value) for epoch, value in found if epoch is not None and value is not None)

    @property
    def title(self) -> str:
        what = self.strategy if self.layers is None else f"{self.strategy}, {self.layers} layers"
        return self.name if not self.strategy else f"{self.name} ({what})"


@dataclass(frozen=True)
class Runs:
    """What a folder holds."""

    runs: tuple[Run, ...] = ()
    depth_checks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Sentences about what could not be read or was left out."""

    def measures(self) -> list[str]:
        """What can be drawn: measures of evaluations first."""
        rows = [row for run in self.runs for row in run.evaluations]
        evaluated = dict.fromkeys(key for row in rows for key, value in row.items() if _finite(value) is not None)
        logged = [title for key, title in _LOGGED.items() if any(key in row for run in self.runs for row in run.steps)]
        return [key for key in evaluated if key not in _PLACES] + logged


def read_runs(folder: Path) -> Runs:
    """Everything that can be shown of a folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: --runs takes one with run folders or result files")
    runs: list[Run] = []
    checks: dict[str, Mapping[str, Any]] = {}
    problems: list[str] = []
    for path in _candidates(folder):
        name = str(path.relative_to(folder)) if path != folder else folder.name
        try:
            if path.is_dir():
                runs.append(_run_of(path, name))
            elif isinstance(content := _content(path), dict):
                if isinstance(content.get("curve"), list):
                    runs.append(_from_result(content, name.removesuffix(".json")))
                elif "rows" in content and "slopes" in content:
                    checks[name.removesuffix(".json")] = content
        except (DataError, OSError, KeyError, TypeError, ValueError) as error:
            problems.append(f"{name}: {str(error).replace(str(folder), folder.name)}")
        if len(runs) == _MOST_RUNS:
            problems.append(f"there are more than {_MOST_RUNS} runs; the others are left out")
            break
    return Runs(tuple(runs), checks, tuple(problems))


def _candidates(folder: Path, level: int = 0) -> Iterator[Path]:
    """Folders that runs have logged to, and JSON files elsewhere."""
    if any((folder / name).is_file() for name in (STEPS, EVALUATIONS)):
        yield folder
        return
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    yield from (path for path in entries if path.suffix == ".json" and path.is_file())
    if level < _LEVELS:
        for path in entries:
            if path.is_dir() and not path.is_symlink():
                yield from _candidates(path, level + 1)


def _content(path: Path) -> Any:
    if path.stat().st_size > _LARGEST:
        raise DataError(f"it has more than {_LARGEST // MEBIBYTE} MiB")
    return read_json(path)


def _run_of(folder: Path, name: str) -> Run:
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for file in (STEPS, EVALUATIONS, ALERTS):
        path = folder / file
        found[file] = tuple(read_lines(path)) if path.is_file() and path.stat().st_size <= _LARGEST else ()
    config: Mapping[str, Any] = {}
    metrics: Mapping[str, Any] = {}
    for file in ("config.json", RESULT):
        if (folder / file).is_file():
            content = _content(folder / file)
            config = content.get("config", content) or config
            metrics = content.get("metrics", {})
    return _made(name, config, metrics, found[STEPS], found[EVALUATIONS], found[ALERTS])


def _from_result(content: Mapping[str, Any], name: str) -> Run:
    return _made(name, content.get("config", {}), content.get("metrics", {}), (), tuple(content["curve"]), ())


def _made(
    name: str,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Mapping[str, Any]],
    alerts: Sequence[Mapping[str, Any]],
) -> Run:
    model, training = _part(config, "model"), _part(config, "training")
    layers, seed = model.get("layers"), training.get("seed")
    return Run(
        name,
        str(model.get("strategy", "")),
        layers if isinstance(layers, int) else None,
        seed if isinstance(seed, int) else None,
        tuple(steps),
        tuple(evaluations),
        tuple(alerts),
        metrics if isinstance(metrics, Mapping) else {},
    )


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name) if isinstance(config, Mapping) else None
    return part if isinstance(part, Mapping) else {}


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


def check_lines(check: Mapping[str, Any], stack: str, optimizer: str, measure: str) -> list[Line]:
    """Of a depth check, a measure against depth in powers of ten, for each strategy, with its slope."""
    slopes = {
        row["strategy"]: row.get(measure)
        for row in check["slopes"]
        if (row["stack"], row["optimizer"]) == (stack, optimizer)
    }
    lines = []
    for strategy, slope in slopes.items():
        rows = [
            row
            for row in check["rows"]
            if (row["stack"], row["optimizer"], row["strategy"]) == (stack, optimizer, strategy)
        ]
        found = [(float(row["depth"]), _finite(row.get(measure))) for row in rows]
        points = tuple((depth, math.log10(value)) for depth, value in found if value is not None and value > 0)
        lines.append(Line(strategy, points, "" if slope is None else f"slope {slope:+.2f}"))
    return lines


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
