"""Training runs in a folder, for the page's second tab.

In: a folder. Out: `Runs`: every folder below it that a run has logged to, every result file with a curve, what
`dtfixup demo` and `dtfixup check --json` write. Of a log with very many lines some are taken, evenly spread. A file
that cannot be read is named with the reason, and the rest is shown.
"""

import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import read_json
from dtfixup.provenance import RESULT
from dtfixup.training.log import ALERTS, EVALUATIONS, STEPS
from dtfixup.web.page.line_chart import Line
from dtfixup.web.page.run_lines import Run, Runs, finite
from dtfixup.web.settings import MEBIBYTE

_MOST_RUNS = 200
_MOST_ROWS = 2000
"""Rows of a log that are kept at most; no screen has room for more points."""
_LARGEST = 64 * MEBIBYTE
"""Of a file of JSON, which has to be read whole."""
_LONGEST_LINE = MEBIBYTE
_LEVELS = 3
_CONFIG = "config.json"  # `training.loop` calls it so too, and takes a second to import
_DEMO = "kinship-demo"
_ODD = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
"""What Python raises of JSON that has another shape than ours."""

Content = TypeVar("Content")
Rows = tuple[Mapping[str, Any], ...]


class RunFolder:
    """The runs below a folder, read once for all visitors: what has not changed since is not read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._lock = threading.Lock()
        self._kept: dict[Path, tuple[tuple[Any, ...], Runs]] = {}

    @property
    def place(self) -> tuple[str, str]:
        """What messages must not show, and what they show instead."""
        return str(self.folder), self.folder.name

    def read(self) -> Runs:
        """Everything that can be shown."""
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is not a folder: --runs takes one with run folders or result files")
        with self._lock:
            problems: list[str] = []
            kept: dict[Path, tuple[tuple[Any, ...], Runs]] = {}
            count = 0
            for path in _candidates(self.folder, problems):
                stamp = _stamp(path)
                known = self._kept.get(path)
                kept[path] = known if known is not None and known[0] == stamp else (stamp, self._look_at(path))
                count += len(kept[path][1].runs)
                if count > _MOST_RUNS:
                    problems.append(f"there are more than {_MOST_RUNS} runs; the others are left out")
                    break
            self._kept = kept
        return self._together([found for _, found in kept.values()], problems)

    def _look_at(self, path: Path) -> Runs:
        name = str(path.relative_to(self.folder)) if path != self.folder else self.folder.name
        problems: list[str] = []
        if path.is_dir():
            return Runs((_logged(path, name, problems),), problems=tuple(problems))
        found = _attempt(lambda file: _stored(file, name.removesuffix(".json")), path, Runs(), problems)
        return Runs(found.runs, found.depth_checks, tuple(problems))

    def _together(self, found: Sequence[Runs], problems: Sequence[str]) -> Runs:
        runs = [run for each in found for run in each.runs][:_MOST_RUNS]
        told = [*(problem for each in found for problem in each.problems), *problems]
        if thinned := [run.name for run in runs if run.is_thinned]:
            told.append(f"some lines of long logs are shown, evenly spread over them: {', '.join(thinned)}")
        return Runs(
            tuple(runs),
            {name: check for each in found for name, check in each.depth_checks.items()},
            tuple(problem.replace(f"{self.folder}{os.sep}", "").replace(*self.place) for problem in told),
        )


def read_runs(folder: Path) -> Runs:
    """Everything that can be shown of a folder."""
    return RunFolder(folder).read()


def _candidates(folder: Path, problems: list[str], level: int = 0) -> Iterator[Path]:
    """Folders that runs have logged to, and JSON files elsewhere."""
    if any((folder / name).is_file() for name in (STEPS, EVALUATIONS)):
        yield folder
        return
    none: list[Path] = []
    entries = _attempt(lambda path: sorted(path.iterdir()), folder, none, problems)
    shown = [path for path in entries if not path.name.startswith(".")]
    yield from (path for path in shown if path.suffix == ".json" and path.is_file())
    if level < _LEVELS:
        for path in shown:
            if path.is_dir() and not path.is_symlink():
                yield from _candidates(path, problems, level + 1)


def _stamp(path: Path) -> tuple[Any, ...]:
    """What tells that the files of a run have not changed."""
    files = [path / name for name in (STEPS, EVALUATIONS, ALERTS, _CONFIG, RESULT)] if path.is_dir() else [path]
    found = []
    for file in files:
        with suppress(OSError):  # that there is none is told apart too
            state = file.stat()
            found.append((file.name, state.st_mtime_ns, state.st_size))
    return tuple(found)


def _attempt(read: Callable[[Path], Content], path: Path, otherwise: Content, problems: list[str]) -> Content:
    """What is read; where that fails, why is put among the problems."""
    try:
        return read(path)
    except DataError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}")
    return otherwise


def _logged(folder: Path, name: str, problems: list[str]) -> Run:
    """The run that has logged to a folder, as far as its files can be read."""

    def read(reader: Callable[[Path], Content], file: str, otherwise: Content) -> Content:
        path = folder / file
        return _attempt(reader, path, otherwise, problems) if path.is_file() else otherwise

    nothing: tuple[Rows, int] = ((), 0)
    logs = [read(_rows, file, nothing) for file in (STEPS, EVALUATIONS, ALERTS)]
    started: Mapping[str, Any] = read(_object, _CONFIG, {})
    result: Mapping[str, Any] = read(_object, RESULT, {})
    (steps, _), (evaluations, _), (alerts, alert_count) = logs
    strategy, layers = _model(result.get("config") or started.get("fingerprint"))
    is_thinned = any(len(rows) < lines for rows, lines in logs)
    return Run(name, strategy, layers, steps, evaluations, alerts, alert_count, _metrics(result), is_thinned)


def _stored(path: Path, name: str) -> Runs:
    """What a file of JSON holds; nothing where it is of another kind."""
    content = _content(path)
    if not isinstance(content, dict):
        return Runs()
    try:
        if content.get("name") == _DEMO:
            return Runs(tuple(_demo_runs(content, name)))
        if isinstance(content.get("curve"), list):
            strategy, layers = _model(content.get("config"))
            evaluations = tuple(dict(row) for row in content["curve"])
            return Runs((Run(name, strategy, layers, evaluations=evaluations, metrics=_metrics(content)),))
        if "rows" in content and "slopes" in content:
            return Runs(depth_checks={name: _depth_check(content)})
    except _ODD as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} has not the shape of a result file ({reason}): restore it, or delete it") from None
    return Runs()


def _rows(path: Path) -> tuple[Rows, int]:
    """Rows of a log and how many it has: of very many some, evenly spread, and the last.

    A last line without an end is still being written, or was cut short, and is left out.
    """
    rows: list[Mapping[str, Any]] = []
    every = 1
    number, last = 0, b""
    with path.open("rb") as file:
        for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
            if not line.endswith(b"\n"):
                if len(line) == _LONGEST_LINE:
                    raise DataError(f"{path}, line {number + 1}, is too long: restore the file, or delete it")
                break
            if number % every == 0:
                rows.append(_row(line, path, number + 1))
                if len(rows) == _MOST_ROWS:
                    del rows[1::2]
                    every *= 2
            number, last = number + 1, line
    if number and (number - 1) % every:
        rows.append(_row(last, path, number))
    return tuple(rows), number


def _row(line: bytes, path: Path, number: int) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}, is not an object of JSON: restore the file, or delete it")
    return row


def _content(path: Path) -> Any:
    if path.stat().st_size > _LARGEST:
        raise DataError(f"{path} has more than {_LARGEST // MEBIBYTE} MiB, and is left out")
    try:
        return read_json(path)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:  # JSON, and more than Python reads
        raise DataError(f"{path} cannot be read: {error}") from None


def _object(path: Path) -> Mapping[str, Any]:
    content = _content(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} is not an object of JSON: restore it, or delete it")
    return content


def _model(config: Any) -> tuple[str, int | None]:
    """Strategy and number of layers, where a configuration has them."""
    model = config.get("model") if isinstance(config, dict) else None
    layers = model.get("layers") if isinstance(model, dict) else None
    strategy = model.get("strategy", "") if isinstance(model, dict) else ""
    return str(strategy), layers if isinstance(layers, int) and finite(layers) is not None else None


def _metrics(result: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = result.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def _demo_runs(content: Mapping[str, Any], name: str) -> Iterator[Run]:
    """A run for each strategy of `dtfixup demo`."""
    config = content["config"]
    epochs = config["batch_size"] / config["train"]  # of one step
    for run in content["runs"]:
        strategy, layers = _model({"model": {**config, "strategy": run["strategy"]}})
        evaluations = tuple(
            {"step": step, "epoch": step * epochs, "accuracy": accuracy}
            for step, accuracy in zip(run["steps"], run["validation"], strict=True)
        )
        alerts = tuple({"message": message} for message in run["alerts"])
        yield Run(f"{name}/{strategy}", strategy, layers, (), evaluations, alerts, len(alerts))


def _depth_check(check: Mapping[str, Any]) -> Mapping[str, Sequence[Line]]:
    """For each kind of layer the update of one Adam step against depth, in powers of ten, with its slope."""
    lines: dict[str, list[Line]] = {}
    for slope in check["slopes"]:
        stack, strategy, rise = str(slope["stack"]), str(slope["strategy"]), slope.get("update")
        if slope["optimizer"] != "adam":
            continue
        own = (stack, "adam", strategy)
        rows = [row for row in check["rows"] if (row["stack"], row["optimizer"], row["strategy"]) == own]
        found = [(float(row["depth"]), finite(row.get("update"))) for row in rows]
        points = tuple((depth, math.log10(update)) for depth, update in found if update is not None and update > 0)
        lines.setdefault(stack, []).append(Line(strategy, points, "" if rise is None else f"slope {rise:+.2f}"))
    return lines
