"""One training run: which file holds its result, what it was trained with, and how it is trained.

In: a `Run` and a `Trainer`. Out: `<out>/<experiment>/<variant>-seed<k>.json`, written whole or not at all: the result,
or the reason why there is none. That path is the run's identity. `train_one` knows of no other run, so it works in any
process on any machine that sees the folders.
"""

import gc
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import torch

from dtfixup.errors import DataError, DivergedError, DtFixupError, TrainingError
from dtfixup.files import read_json, write_json
from dtfixup.provenance import begin, commit, hardware
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.config import FREE_ON_RESUME, from_json, to_json

Content = Mapping[str, Any]
"""What a result file holds."""
_STARTED = "sweep.json"  # in a run's folder: what it is trained with
_HALF = "-fp16"  # ends the name of an encoder stored in half precision, which counts as the encoder


class State(StrEnum):
    """The state of a run in a sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    DIVERGED = "diverged"
    """Training broke. This is a result, and not repeated."""
    FAILED = "failed"
    """Something else went wrong; repeated by the next call."""
    LEFT = "left"
    """Not trained to the end: too little time, or a stop was asked for."""


SETTLED = frozenset({State.FINISHED, State.DIVERGED})
"""States that the next call does not change."""


@dataclass(frozen=True)
class Run:
    """One training run of an experiment."""

    path: str
    """`<experiment>/<variant>`: the result file without seed and suffix."""
    seed: int
    config: Any
    """Frozen dataclass: all that the run depends on but the data."""
    metric: str
    """The metric of the result to show."""
    cost: float = 1.0
    """Expected time, in proportion to the sweep's other runs."""
    command: str = ""
    """Recorded in the result file."""

    @property
    def experiment(self) -> str:
        return self.path.partition("/")[0]

    @property
    def variant(self) -> str:
        return self.path.partition("/")[2]

    @property
    def label(self) -> str:
        """The name without the seed."""
        return self.path.replace("/", "-")

    @property
    def name(self) -> str:
        """Also the name of the folder that the run is trained in."""
        return f"{self.label}-seed{self.seed}"

    def file(self, out: Path) -> Path:
        """The result file, in the folder of all results."""
        return out / f"{self.path}-seed{self.seed}.json"


class Trainer(Protocol):
    """Trains runs on their data. To work in other processes it must be picklable."""

    def data_hash(self, run: Run) -> str:
        """The hash of the run's data."""

    def encoder_sha256(self, run: Run) -> str:
        """The hash of the run's encoder."""

    def train(self, run: Run, folder: Path, resume: bool) -> Content | None:
        """Train in a folder, from its newest checkpoint if `resume`; None if a stop was asked for.

        What is returned goes into the result file: `metrics`, among them the run's own, and what else there is, such as
        `curve`. The sweep adds configuration, seconds and origin where they are missing.
        """


def state_of(content: Content, file: Path) -> State:
    """The state in a result file; plain training writes none, and only when it finished."""
    try:
        return State(content.get("state", State.FINISHED))
    except ValueError:
        states = ", ".join(State)
        raise DataError(f"{file} has the state {content['state']!r}, and not one of {states}") from None


def read_run(run: Run, out: Path) -> tuple[State, Content | None]:
    """The state and the content of a run's file; WAITING if there is none."""
    file = run.file(out)
    if not file.is_file():
        return State.WAITING, None
    content = read_json(file)
    if not isinstance(content, dict):
        raise DataError(f"{file} is no result file: move it elsewhere")
    return state_of(content, file), content


def differences(config: Any, content: Content) -> list[str]:
    """The fields in which the configuration of a result file is another one.

    A field that was added later has its default in an older file. Fields that do not change the result, such as the
    time between checkpoints, are not compared.
    """
    try:
        theirs = _compared(from_json(type(config), content.get("config") or {}))
    except (DtFixupError, TypeError) as error:  # TypeError: a field without a default is missing
        return [f"its config cannot be read: {error}"]
    return list(_differences(theirs, _compared(config)))


def hash_differences(run: Run, content: Content, trainer: Trainer) -> list[str]:
    """What says that a result file is of other data, or of other weights of an encoder of the same name."""
    found, own = [], trainer.data_hash(run)
    if content.get("data_hash", own) != own:
        found.append("it is of other data (data_hash)")
    has_same_name = Path(str(content.get("encoder"))).name == Path(getattr(run.config, "encoder", "")).name
    if has_same_name and "encoder_sha256" in content and content["encoder_sha256"] != trainer.encoder_sha256(run):
        found.append("it is of another encoder of the same name (encoder_sha256)")
    return found


def encoder_name(encoder: str) -> str:
    """An encoder's name, whatever its folder and precision.

    >>> encoder_name("folder/minilm-fp16")
    'minilm'
    """
    return Path(encoder).name.removesuffix(_HALF)


def whole_seconds(content: Content) -> float:
    """The wall time of a run, with the time before it was resumed where the result has it."""
    metrics = content.get("metrics") or {}
    return max(float(content.get("wall_seconds") or 0.0), float(metrics.get("train_seconds") or 0.0))


def device_seconds(content: Content) -> float:
    """A run's share of its machine's time: its wall time, divided by the number of runs that shared the machine.

    >>> device_seconds({"wall_seconds": 120.0, "at_once": 3}), device_seconds({"wall_seconds": 120.0})
    (40.0, 120.0)
    """
    return whole_seconds(content) / int(content.get("at_once", 1))


def train_one(
    run: Run, trainer: Trainer, out: Path, folder: Path, keep_weights: bool = False, *, at_once: int = 1
) -> tuple[State, Content | None]:
    """Train one run in a folder and write its file; LEFT, without a file, if a stop was asked for.

    `at_once` is how many runs share the GPU. It goes into the file, since they take longer.
    """
    out, folder = out.absolute(), folder.absolute()  # errors name these forms, which `_reason` masks
    started, data_hash = begin(), trainer.data_hash(run)
    resume = _prepare_folder(folder, run, data_hash)
    found: Content | None
    gc.freeze()  # searching what is there already for garbage would take longer than a small run
    try:
        state, found = State.FINISHED, trainer.train(run, folder, resume)
        if found is not None:
            _require_result(run, found, data_hash)
    except Exception as error:
        state = State.DIVERGED if isinstance(error, DivergedError) else State.FAILED
        found = {"metrics": {}, "reason": _reason(error, folder, out, keep_weights)}
    if found is None:
        _free_memory()
        return State.LEFT, None
    seconds = time.monotonic() - started
    content = _write(run, out, state, {"data_hash": data_hash, **found}, seconds, hardware(), at_once)
    if state in SETTLED and not keep_weights:
        shutil.rmtree(Checkpoints(folder).folder, ignore_errors=True)
        for file in folder.glob("*.safetensors"):
            file.unlink()
    _free_memory()
    return state, content


def write_lost(run: Run, out: Path, reason: str, seconds: float) -> None:
    """Write the file of a run whose process died; its checkpoints stay. A result it had written is kept."""
    if read_run(run, out)[0] not in SETTLED:
        _write(run, out, State.FAILED, {"metrics": {}, "reason": reason}, seconds, "unknown")


def _write(run: Run, out: Path, state: State, found: Content, seconds: float, where: str, at_once: int = 1) -> Content:
    config = to_json(run.config)
    if "encoder" in config:
        config["encoder"] = Path(config["encoder"]).name  # local paths are masked so result files can be published
    content = {
        "name": run.label,
        "command": run.command,
        "commit": commit(),
        "hardware": where,
        "wall_seconds": round(seconds, 1),
        "at_once": at_once,
        "config": config,
        "curve": [],
        **found,
        "experiment": run.experiment,
        "variant": run.variant,
        "seed": run.seed,
        "state": state.value,
    }
    write_json(run.file(out), content)
    return content


def _prepare_folder(folder: Path, run: Run, data_hash: str) -> bool:
    """Whether the folder has a checkpoint of this very run to go on from; if not, it is emptied.

    The full name of the encoder and the kind of device are part of it: checkpoints do not move between them.
    """
    file, device = folder / _STARTED, "cuda" if torch.cuda.is_available() else "cpu"
    own = {"config": to_json(run.config), "data_hash": data_hash, "device": device}
    if file.exists() and Checkpoints(folder).saved() and read_json(file) == own:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    write_json(file, own)
    return False


def _compared(config: Any) -> dict[str, Any]:
    """The fields of a configuration that change the result."""
    plain = to_json(config)
    if "encoder" in plain:
        plain["encoder"] = encoder_name(plain["encoder"])
    if isinstance(training := plain.get("training"), dict):
        plain["training"] = {name: value for name, value in training.items() if name not in FREE_ON_RESUME}
    return plain


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in ours.items():
        if isinstance(value, Mapping):
            yield from _differences(theirs[name], value, f"{before}{name}.")
        elif theirs[name] != value:
            yield f"{before}{name} is {theirs[name]} there and {value} here"


def _require_result(run: Run, found: Content, data_hash: str) -> None:
    """What a trainer returned has the run's metric, can be written, and is of the run's data."""
    if not isinstance(metrics := found.get("metrics"), Mapping) or run.metric not in metrics:
        raise TrainingError(f"the result of {run.name} has no {run.metric} in its metrics: let its trainer return it")
    if found.get("data_hash", data_hash) != data_hash:
        raise TrainingError("the data have changed since the run began: leave them alone while it runs")
    json.dumps({**found}, allow_nan=False)


def _reason(error: Exception, folder: Path, out: Path, keep_weights: bool) -> str:
    """What went wrong, with local paths masked, and without advice about a checkpoint that is removed."""
    text = str(error) if isinstance(error, DivergedError) else f"{type(error).__name__}: {error}"
    if isinstance(error, DivergedError) and not keep_weights:
        text = text.replace(Checkpoints(folder).advice(), "").rstrip()
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  Path.home() is an error where there is no home
    masks = {home: "~", folder.parent: "WORK", out: "OUT", folder: "RUN"}
    names = {str(form): mask for path, mask in masks.items() for form in (path, path.resolve()) if form != form.parent}
    longest_first = "|".join(re.escape(path) for path in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])({longest_first})(?!\w|[.-]\w)", lambda found: names[found[0]], text)


def _free_memory() -> None:
    """Free what a run held on the GPU, also in the frames of an error, for the next run."""
    gc.collect()
    gc.unfreeze()
    if torch.cuda.is_available():
        with suppress(RuntimeError):  # after some errors a GPU answers to nothing: the next run's errors will say so
            torch.cuda.empty_cache()
