"""One training run of an experiment: what it is, and how it is trained into a result file.

In: a `Run` and two folders. Out: `<out>/<experiment>/<variant>-seed<k>.json`, written whole or not at all: its result,
or why it has none. Nothing here knows of other runs, so `train_one` serves any process on any machine that sees the
folders.
"""

import gc
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dtfixup.errors import DivergedError, TrainingError
from dtfixup.files import read_json, write_json
from dtfixup.provenance import begin, commit, hardware
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.config import to_json
from dtfixup_paper.runs.run_identity import SETTLED, Content, State, run_key, state_of

_STARTED = "sweep.json"  # in a run's folder: whose it is


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
    sweep adds configuration, seconds and origin where they are not there. None if a stop was asked for. To run in
    another process it must be picklable: a function of a module, or an instance of a class there; what runs share,
    such as opened data, is sent once for all of them."""
    metric: str
    """The one of the result's metrics to show."""
    cost: float = 1.0
    """Time it takes, in proportion to the sweep's other runs."""
    command: str = ""

    @property
    def name(self) -> str:
        return f"{self.experiment}-{self.variant}-seed{self.seed}"

    def file(self, out: Path) -> Path:
        """Its result, in the folder of a sweep."""
        return out / self.experiment / f"{self.variant}-seed{self.seed}.json"

    @property
    def key(self) -> str:
        """The same for runs that come to the same."""
        return run_key(self.config, self.seed, self.data_hash)


def train_one(
    run: Run, out: Path, folder: Path, keep_weights: bool = False, *, at_once: int = 1
) -> tuple[State, Content | None]:
    """Train one run in a folder and write its file; LEFT if a stop was asked for. Needs nothing of other runs.

    `at_once` is how many runs share the machine, or its GPU: the file says it, since they take longer.
    """
    out, folder = out.absolute(), folder.absolute()  # so that errors name them in a form that can be told and cut out
    started, resume = begin(), _resumes(run, folder)
    write_json(folder / _STARTED, {"key": run.key, "name": run.name, "on": _where(run)})
    found: Content | None
    gc.freeze()  # what is there already is not searched for garbage afterwards: that takes longer than a small run
    try:
        state, found = State.FINISHED, run.train(folder, resume)
        if found is not None:
            _require_result(run, found)
    except Exception as error:
        state = State.DIVERGED if isinstance(error, DivergedError) else State.FAILED
        found = {"metrics": {}, "reason": _reason(error, folder, out, keep_weights)}
    if found is None:
        _free_memory()
        return State.LEFT, None
    content = _write(run, out, state, found, time.monotonic() - started, hardware(), at_once)
    if state in SETTLED and not keep_weights:
        shutil.rmtree(Checkpoints(folder).folder, ignore_errors=True)
        for file in folder.glob("*.safetensors"):
            file.unlink()
    _free_memory()
    return state, content


def write_lost(run: Run, out: Path, reason: str, seconds: float, where: str, *, at_once: int = 1) -> Content:
    """Write the file of a run whose process ended without a word; what it had saved stays. `where` is the hardware.

    Where the run had settled and its file was written already, the process died later, and the file is returned.
    """
    known: Content = read_json(run.file(out)) if run.file(out).is_file() else {}
    if known.get("key") == run.key and state_of(known) in SETTLED:
        return known
    return _write(run, out, State.FAILED, {"metrics": {}, "reason": reason}, seconds, where, at_once)


def _write(run: Run, out: Path, state: State, found: Content, seconds: float, where: str, at_once: int) -> Content:
    """The result file: what is known of a run whatever came of it, and what it found."""
    config = to_json(run.config)
    if "encoder" in config:
        config["encoder"] = Path(config["encoder"]).name  # as in `finish_run`: folders are nobody's business
    content = {
        "name": f"{run.experiment}-{run.variant}",
        "command": run.command,
        "commit": commit(),
        "data_hash": run.data_hash,
        "hardware": where,
        "wall_seconds": round(seconds, 1),
        "at_once": at_once,
        "config": config,
        "curve": [],
        **found,
        "experiment": run.experiment,
        "variant": run.variant,
        "seed": run.seed,
        "key": run.key,
        "state": state.value,
    }
    write_json(run.file(out), content)
    return content


def _resumes(run: Run, folder: Path) -> bool:
    """Whether the folder holds a checkpoint of this run that it can go on from; what else is in it is removed."""
    if (folder / _STARTED).exists() and Checkpoints(folder).saved():
        started, here = read_json(folder / _STARTED), _where(run)
        if started["key"] == run.key and started.get("on", here) == here:
            return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _where(run: Run) -> list[str]:
    """The encoder's folder and the kind of device: the same run, but checkpoints are of one of each."""
    return [str(getattr(run.config, "encoder", "")), "cuda" if torch.cuda.is_available() else "cpu"]


def _require_result(run: Run, found: Content) -> None:
    """What `Run.train` returned can be written, can be shown, and is of the run's data."""
    if not isinstance(metrics := found.get("metrics"), Mapping) or run.metric not in metrics:
        raise TrainingError(f"what {run.name} returned has no {run.metric} in its metrics: let its train return it")
    if found.get("data_hash", run.data_hash) != run.data_hash:
        raise TrainingError("the data are others than when the sweep began: leave them alone while it runs")
    json.dumps({**found}, allow_nan=False)


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


def _free_memory() -> None:
    """What a run held on a GPU, also in the frames of an error, makes room for the next."""
    gc.collect()
    gc.unfreeze()
    if torch.cuda.is_available():
        with suppress(RuntimeError):  # after some errors a GPU answers to nothing: those of the next run will say so
            torch.cuda.empty_cache()
