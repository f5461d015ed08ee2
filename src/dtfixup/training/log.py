"""The log of a run: JSON lines, TensorBoard, a progress bar.

In: the numbers of every interval of steps, evaluation and alert. Out, in the run's folder: `steps.jsonl`,
`evaluations.jsonl`, `alerts.jsonl` and `tensorboard/`. A resumed run adds to them and repeats no step. A terminal shows
a progress bar, anything else a line per epoch.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.utils.tensorboard import SummaryWriter

from dtfixup.errors import DataError, TrainingError
from dtfixup.files import finite_or_none, write_atomically
from dtfixup.fixup import Alert

STEPS, EVALUATIONS, ALERTS = "steps.jsonl", "evaluations.jsonl", "alerts.jsonl"
TENSORBOARD = "tensorboard"


@dataclass(frozen=True)
class Interval:
    """The updates between two lines of the log."""

    step: int
    """Updates so far, skipped ones included."""
    epoch: float
    """Passes over the data so far."""
    loss: float | None
    """Mean loss of an example; None if no update had a finite loss."""
    gradient_norm: float | None
    """Median over the interval, before clipping."""
    learning_rate: float
    """Learning rate of the last update, for parameter groups with factor 1."""
    skipped: int
    """Updates skipped since the run began."""
    examples_per_second: float
    seconds: float
    """Wall time of the run so far, over all its parts."""


class JsonLines:
    """A file with one JSON object per line; every object has a `step`."""

    def __init__(self, path: Path, last_step: int) -> None:
        """Continue after `last_step`: drop later lines, and a last line that a crash cut short."""
        kept = [row for row in read_lines(path) if row["step"] <= last_step] if path.exists() else []
        text = "".join(map(_line, kept))
        self._path = write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def write(self, row: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(row))


def read_lines(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a log, without a last line that was cut short."""
    *lines, _ = Path(path).read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise DataError(f"{path} has a line that is not JSON ({error}): restore or delete the file") from None


class RunLog:
    """The log of a run; without a folder, as on ranks other than the first, it writes nothing."""

    def __init__(
        self, folder: Path | None, *, total: int, step: int = 0, best: str = "", console: Console | None = None
    ) -> None:
        self.console = Console(quiet=True) if folder is None else console or Console(stderr=True)
        self.scalars: Thinned | None = None
        self._files: dict[str, JsonLines] = {}
        if folder is not None:
            try:
                self._files = {name: JsonLines(folder / name, step) for name in (STEPS, EVALUATIONS, ALERTS)}
                self._writer = SummaryWriter(folder / TENSORBOARD, purge_step=step + 1, max_queue=1000)
            except OSError as error:
                raise TrainingError(f"the log cannot be written to {folder}: {error}. Choose another folder") from error
            self.scalars = Thinned(self._writer)
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]:.1f}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal or folder is None,
        )
        self._bar_task = self._bar.add_task("", total=total, completed=step, epoch=0.0, status=best)
        self._loss, self._best = "", best

    def __enter__(self) -> "RunLog":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self.scalars is not None:
            self._writer.close()

    def interval(self, row: Interval) -> None:
        """Log the updates since the last line."""
        self._write(STEPS, asdict(row))
        self._loss = "" if row.loss is None else f"loss {row.loss:.4g}"
        self._bar.update(self._bar_task, completed=row.step, epoch=row.epoch, status=f"{self._loss} {self._best}")

    def evaluation(self, row: Mapping[str, Any], best: str) -> None:
        """Log an evaluation: step, epoch and metrics; `best` describes the best one so far."""
        self._write(EVALUATIONS, row)
        self._best = best
        self._bar.update(self._bar_task, status=f"{self._loss} {self._best}")

    def alert(self, alert: Alert) -> None:
        """Log an alert of the monitor, which has warned of it itself."""
        row = {"step": alert.step, "assumption": alert.assumption.value, "message": alert.message}
        self._write(ALERTS, {**row, "value": finite_or_none(alert.value), "limit": alert.limit})

    def epoch(self, number: int, epochs: int, step_ms: float) -> None:
        """Print the end of an epoch, unless there is a progress bar."""
        if not self.console.is_terminal:
            self.print(f"epoch {number}/{epochs}  {self._loss}  {step_ms:.1f} ms/step  {self._best}".rstrip())

    def print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        if not self._files:
            return
        plain = {key: finite_or_none(value) if isinstance(value, float) else value for key, value in row.items()}
        self._files[name].write(plain)
        for key, value in plain.items():
            if key not in ("step", "limit") and isinstance(value, int | float) and name != ALERTS:
                self._writer.add_scalar(f"{name.partition('.')[0]}/{key}", value, row["step"])


class Thinned:
    """Writes the largest of every 50 values of a scalar."""

    EVERY = 50

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer
        self._largest: dict[str, float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self._largest[tag] = max(scalar_value, self._largest.get(tag, -math.inf))
        if global_step % self.EVERY == 0:
            self._writer.add_scalar(tag, self._largest.pop(tag), global_step)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
