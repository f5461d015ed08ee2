"""Many training runs, one after the other, in one process that may end at any time.

In: an ordered list of `Run`s. Out: one file for each, `<out>/<experiment>-<variant>-seed<k>.json`, written whole or not
at all: its result, or why it has none. The same call again goes on where the last one ended, however it ended: a run is
known by a hash of its configuration and data, so what is finished is not repeated, under whatever experiment's name it
was trained, and what has changed is trained anew.

One process at a time: a sweep locks its folders by `flock`, so it runs on Linux and macOS, as the training engine does.
"""

import fcntl
import gc
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich import get_console
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.table import Table

from dtfixup.errors import ConfigError, DivergedError, TrainingError
from dtfixup.experiments.provenance import commit, hardware
from dtfixup.files import read_json, write_json
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.config import to_json

Content = Mapping[str, Any]
_STARTED = "sweep.json"  # in a run's folder: whose it is
_OUTDATED = "outdated"  # folder beside the result files
_LOCK = ".sweep.lock"  # stays behind, since removing it could unlock what another process has locked by then
_FRAME = 8  # lines of the screen that the live table's rows leave to its head and to what was there before


class State(StrEnum):
    """Where a run of a sweep stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    DIVERGED = "diverged"
    """Training broke: a result as good as any, and not repeated."""
    FAILED = "failed"
    """Something else went wrong; repeated by the next call."""
    LEFT = "left"
    """It would not have fitted into the time, or a stop was asked for before it."""


SETTLED = frozenset({State.FINISHED, State.DIVERGED})
"""States that the next call does not change."""


@dataclass(frozen=True)
class Run:
    """One training run of an experiment."""

    experiment: str
    variant: str
    seed: int
    config: Any
    """Frozen dataclass: all that the run depends on but the data."""
    data_hash: str
    train: Callable[[Path, bool], Content | None]
    """Trains into a folder, from its newest checkpoint if the second argument says so. Returns what the result file
    shall hold, as JSON has it: `metrics` by name, among them `metric`, and what else there is, such as `curve`. The
    sweep adds configuration, seconds and origin where they are not there. None if a stop was asked for."""
    metric: str
    """The one of the result's metrics to show."""
    cost: float = 1.0
    """Time it takes, in proportion to the sweep's other runs."""
    command: str = ""

    @property
    def name(self) -> str:
        return f"{self.experiment}-{self.variant}-seed{self.seed}"

    @property
    def key(self) -> str:
        """The same for runs that come to the same."""
        parts = {"config": to_json(self.config), "seed": self.seed, "data": self.data_hash}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


@dataclass
class Outcome:
    """A run and what has become of it."""

    run: Run
    state: State = State.WAITING
    content: Content | None = None
    """Of its file, or of the file of another experiment that has trained the same."""
    began: float = 0.0
    """A reading of `time.monotonic()`, while it runs."""

    @property
    def seconds(self) -> float | None:
        if self.state is State.RUNNING:
            return time.monotonic() - self.began
        return None if self.content is None else float(self.content["wall_seconds"])

    @property
    def value(self) -> float | None:
        found = None if self.content is None else self.content["metrics"].get(self.run.metric)
        return None if found is None else float(found)


def run_sweep(
    runs: Sequence[Run],
    out: str | Path,
    *,
    work: str | Path | None = None,
    budget_seconds: float | None = None,
    keep_weights: bool = False,
    console: Console | None = None,
) -> list[Outcome]:
    """Train what is not finished yet, in order.

    Args:
        runs: what to train.
        out: folder of the result files.
        work: folder that runs are trained in, each in one of its own; `<out>/runs` by default.
        budget_seconds: a run is not started if it would take longer than what is left of them, by what the runs before
            it took.
        keep_weights: leave the weights of finished runs in their folders; else only logs and predictions stay.
        console: where the table is shown: a live one on a terminal, a line for each run elsewhere. rich's own console
            by default, on which progress bars of the runs stand below the table.
    """
    out, console = Path(out), console or get_console()
    work = out / "runs" if work is None else Path(work)
    with _locked(out, work):
        outcomes, settled = [Outcome(run) for run in runs], _settled(out)
        for outcome in outcomes:
            _take_over(outcome, settled)
            _set_outdated_aside(outcome, out, console)
        ends = math.inf if budget_seconds is None else time.monotonic() + budget_seconds
        with _live(outcomes, console):
            for place, outcome in enumerate(outcomes, start=1):
                _take_over(outcome, settled)
                if outcome.state is not State.WAITING:
                    continue
                if time.monotonic() + _expected_seconds(outcome.run, outcomes) >= ends:
                    outcome.state = State.LEFT
                    continue
                outcome.state, outcome.began = State.RUNNING, time.monotonic()
                outcome.state, outcome.content = train_one(outcome.run, out, work / outcome.run.name, keep_weights)
                if outcome.content is None:
                    break
                if outcome.state in SETTLED:
                    settled[outcome.run.key] = outcome.content
                if not console.is_terminal:
                    _say(console, f"[{place}/{len(outcomes)}] {_line(outcome)}")
    _say_end(console, outcomes)
    return outcomes


def train_one(run: Run, out: Path, folder: Path, keep_weights: bool = False) -> tuple[State, Content | None]:
    """Train one run in a folder and write its file; LEFT if a stop was asked for. Needs nothing of other runs."""
    out, folder = out.absolute(), folder.absolute()  # so that errors name them in a form that can be told and cut out
    started, resume = time.monotonic(), _resumes(run, folder)
    write_json(folder / _STARTED, {"key": run.key, "name": run.name})
    found: Content | None
    try:
        state, found = State.FINISHED, run.train(folder, resume)
        if found is not None:
            _require_result(run, found)
    except Exception as error:
        state = State.DIVERGED if isinstance(error, DivergedError) else State.FAILED
        found = {"metrics": {}, "reason": _reason(error, folder, out, keep_weights)}
    _free_memory()
    if found is None:
        return State.LEFT, None
    known = {"experiment": run.experiment, "variant": run.variant, "seed": run.seed, "key": run.key}
    content = {**_record(run, started), **found, **known, "state": state.value}
    write_json(out / f"{run.name}.json", content)
    if state in SETTLED and not keep_weights:
        shutil.rmtree(Checkpoints(folder).folder, ignore_errors=True)
        for file in folder.glob("*.safetensors"):
            file.unlink()
    return state, content


def read_sweep(out: str | Path) -> list[Content]:
    """The files of sweeps in a folder, by name; other JSON files there are left alone.

    So are names with a dot in front: what a kill left of a file that was being written, whole or not.
    """
    files = sorted(file for file in Path(out).glob("*.json") if not file.name.startswith("."))
    contents = [read_json(file) for file in files]
    return [each for each in contents if isinstance(each, dict) and {"key", "state", "variant"} <= each.keys()]


def result_file(out: str | Path, content: Content) -> Path:
    """Where a run's content stands."""
    return Path(out) / f"{content['experiment']}-{content['variant']}-seed{content['seed']}.json"


def sweep_table(outcomes: Sequence[Outcome], room: int | None = None) -> Table:
    """Variant, seed, state, metric and seconds; `room` is for how many rows, those around the running one."""
    table = Table(title=_counts(outcomes), title_justify="left")
    for heading in ("variant", "seed", "state", "metric", "seconds"):
        justify: JustifyMethod = "left" if heading in ("variant", "state") else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    shown = list(outcomes)
    if room is not None and (room := max(room, 1)) < len(shown):
        at = next((place for place, each in enumerate(shown) if each.state is State.RUNNING), len(shown))
        first = min(max(0, at - room // 2), len(shown) - room)
        shown = shown[first : first + room]
    for each in shown:
        value, seconds = (None if number is None else f"{number:.1f}" for number in (each.value, each.seconds))
        table.add_row(each.run.variant, str(each.run.seed), each.state.value, value, seconds)
    return table


@contextmanager
def _locked(*folders: Path) -> Iterator[None]:
    """Nobody else's sweep has these folders; the system unlocks them when the process ends, however it ends."""
    with ExitStack() as stack:
        for folder in dict.fromkeys(each.resolve() for each in folders):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context((folder / _LOCK).open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another process is at a sweep in {folder}: wait until it ends, or choose other folders for the "
                    "results and for the work"
                ) from None
            except OSError as error:
                raise ConfigError(
                    f"{folder} cannot be locked: {error}. Choose a folder that is yours, on a file system with locks"
                ) from error
        yield


def _live(outcomes: Sequence[Outcome], console: Console) -> AbstractContextManager[object]:
    """The table, drawn again and again; nothing where there is no terminal."""
    if not console.is_terminal:
        return nullcontext()
    draw = partial(sweep_table, outcomes, console.height - _FRAME)
    return Live(get_renderable=draw, console=console, transient=True, refresh_per_second=2)


def _settled(out: Path) -> dict[str, Content]:
    """Results that there are already, by the key of their run."""
    return {each["key"]: each for each in read_sweep(out) if each["state"] in SETTLED}


def _take_over(outcome: Outcome, settled: Mapping[str, Content]) -> None:
    if outcome.state is State.WAITING and (content := settled.get(outcome.run.key)):
        outcome.state, outcome.content = State(content["state"]), content


def _set_outdated_aside(outcome: Outcome, out: Path, console: Console) -> None:
    """A file of a run's name that is not its result goes to another folder, so that no table takes it for one."""
    file, name = out / f"{outcome.run.name}.json", outcome.run.name
    content = read_json(file) if file.exists() else {}
    known = content if isinstance(content, dict) else {}
    if known.get("state") == State.FAILED:
        _say(console, f"{name}: it had failed ({known.get('reason')}); it is trained anew")
    elif file.exists() and known.get("key") != outcome.run.key:
        then = "it is trained anew" if outcome.state is State.WAITING else "another experiment has trained it since"
        aside = out / _OUTDATED / f"{name}-{known.get('key', 'unknown')}.json"
        aside.parent.mkdir(exist_ok=True)
        file.replace(aside)
        _say(
            console,
            f"{name}: configuration or data have changed since its result was written, which is now in {aside}; {then}",
        )


def _resumes(run: Run, folder: Path) -> bool:
    """Whether the folder holds a checkpoint of this very run; what else is in it is removed."""
    if (folder / _STARTED).exists() and Checkpoints(folder).saved() and read_json(folder / _STARTED)["key"] == run.key:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _require_result(run: Run, found: Content) -> None:
    """What `Run.train` returned can be written, and be shown."""
    if not isinstance(metrics := found.get("metrics"), Mapping) or run.metric not in metrics:
        raise TrainingError(f"what {run.name} returned has no {run.metric} in its metrics: let its train return it")
    json.dumps({**found}, allow_nan=False)


def _record(run: Run, started: float) -> dict[str, Any]:
    """What is known of a run whatever came of it."""
    config = to_json(run.config)
    if "encoder" in config:
        config["encoder"] = Path(config["encoder"]).name  # as in `finish_run`: folders are nobody's business
    return {
        "name": f"{run.experiment}-{run.variant}",
        "command": run.command,
        "commit": commit(),
        "data_hash": run.data_hash,
        "hardware": hardware(),
        "wall_seconds": round(time.monotonic() - started, 1),
        "config": config,
        "curve": [],
    }


def _reason(error: Exception, folder: Path, out: Path, keep_weights: bool) -> str:
    """What went wrong, without folders of this machine, and without advice about a checkpoint that is removed."""
    text = str(error) if isinstance(error, DivergedError) else f"{type(error).__name__}: {error}"
    if isinstance(error, DivergedError) and not keep_weights:
        text = text.replace(Checkpoints(folder).advice(), "").rstrip()
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  Path.home() is an error where there is no home
    named = {home: "~", folder.parent: "WORK", out: "OUT", folder: "RUN"}
    names = {str(form): name for path, name in named.items() for form in (path, path.resolve()) if form != form.parent}
    longest_first = "|".join(re.escape(path) for path in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])({longest_first})(?!\w|[.-]\w)", lambda found: names[found[0]], text)


def _expected_seconds(run: Run, outcomes: Iterable[Outcome]) -> float:
    """By the slowest of the runs before, costs considered; 0 where there is none."""
    known = [(each.seconds or 0.0) / each.run.cost for each in outcomes if each.state is State.FINISHED]
    return run.cost * max(known, default=0.0)


def _free_memory() -> None:
    """What a run held on a GPU, also in the frames of an error, makes room for the next."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _counts(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(each.state for each in outcomes)
    return ", ".join(f"{counts[state]} {state}" for state in State if counts[state])


def _line(outcome: Outcome) -> str:
    value = "" if outcome.value is None else f"  {outcome.run.metric} {outcome.value:.2f}"
    reason = "" if outcome.content is None else outcome.content.get("reason", "")
    return f"{outcome.run.name}: {outcome.state}{value}  {outcome.seconds or 0:.1f} s  {reason}".rstrip()


def _say_end(console: Console, outcomes: Sequence[Outcome]) -> None:
    console.print(sweep_table(outcomes))
    for each in outcomes:
        if each.state is State.FAILED and each.content is not None:
            _say(console, f"{each.run.name} failed: {each.content['reason']}")
    if left := [each for each in outcomes if each.state in (State.LEFT, State.WAITING)]:
        expected = sum(_expected_seconds(each.run, outcomes) for each in left)
        _say(console, f"{len(left)} runs are left, about {expected:.0f} s: the same command goes on with them")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
