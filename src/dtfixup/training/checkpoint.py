"""Checkpoints: everything a run needs to continue as if it had never stopped.

In: model, updater and random streams after an update. Out: `checkpoints/step-00000120.safetensors`; the newest two are
kept, and each is put in place by one rename (`weights/tensors.py`). The tensors are the trained weights, their moving
average, Adam's moments, the usual gradient norm and the random streams of every rank. The content says which run they
belong to and how far it has come.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dtfixup
from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.files import finite_or_none
from dtfixup.training.config import FREE_ON_RESUME, TrainingConfig, to_json
from dtfixup.training.health import StepRow
from dtfixup.training.update import Updater
from dtfixup.weights.tensors import copy_into, model_tensors, read_content, read_tensors, write_tensors
from dtfixup.weights.trained import LAST

FORMAT = 1
"""Version of the names in a checkpoint; raise it when older checkpoints cannot be read."""
BEST = "best.safetensors"
_FOLDER, _PATTERN, _KEPT = "checkpoints", "step-*.safetensors", 2
_RANDOM = "random/"


@dataclass
class RunState:
    """How far a run has come. The epoch and the position in it follow from the step."""

    step: int = 0
    """Updates so far, skipped ones included."""
    skipped: int = 0
    seconds: float = 0.0
    """Wall time of all parts of the run."""
    pending: list[StepRow] = field(default_factory=list)
    """Updates that are not in the log yet."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Step, epoch and metrics of every evaluation."""
    watched: dict[str, float] = field(default_factory=dict)
    """The monitor's summary."""

    def to_json(self) -> dict[str, Any]:
        rows = [(finite_or_none(loss), finite_or_none(norm), skipped) for loss, norm, skipped in self.pending]
        return {**asdict(self), "pending": rows}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RunState":
        rows = [
            (math.nan if loss is None else loss, math.nan if norm is None else norm, skipped)
            for loss, norm, skipped in values["pending"]
        ]
        return cls(**{**values, "pending": rows})


class Checkpoints:
    """The checkpoints and weights in a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.best, self.last = folder / _FOLDER, folder / BEST, folder / LAST

    def saved(self) -> list[Path]:
        """Paths of the checkpoints, oldest first."""
        return sorted(self.folder.glob(_PATTERN))

    def save(self, step: int, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> None:
        """Write the checkpoint of a step, then delete old ones and the leftovers of a crash."""
        self.write(self.folder / f"step-{step:08d}.safetensors", tensors, content)
        for old in [*self.saved()[:-_KEPT], *self.folder.glob(f".{_PATTERN}")]:
            old.unlink()

    def best_evaluation(self) -> dict[str, Any] | None:
        """The evaluation that saved the best weights."""
        evaluation: dict[str, Any] | None = read_content(self.best)["evaluation"] if self.best.exists() else None
        return evaluation

    def read_newest(self) -> tuple[dict[str, Tensor], dict[str, Any], Path]:
        """Tensors and content of the newest checkpoint, and its path."""
        saved = self.saved()
        if not saved:
            raise CheckpointError(f"{self.folder} has no checkpoint to resume from: start the run without --resume")
        path = saved[-1]
        try:
            tensors, content = read_tensors(path)
        except CheckpointError as error:
            before = f"{saved[-2].name}, the one before it" if len(saved) > 1 else "the start"
            raise CheckpointError(f"{error}. Delete it to continue from {before}") from error
        if content.get("format") != FORMAT:
            raise CheckpointError(
                f"{path} has format {content.get('format')}, but this version reads {FORMAT}: resume with dtfixup "
                f"{content.get('version')}, or start again in another folder"
            )
        return tensors, content, path

    def advice(self) -> str:
        """How to continue after an error."""
        saved = self.saved()
        if not saved:
            return "There is no checkpoint yet"
        return f"The last checkpoint is intact: {saved[-1]}; continue from it with --resume"

    def require_new(self) -> None:
        """Refuse to start a new run over an earlier one."""
        if saved := self.saved():
            raise CheckpointError(
                f"{self.folder.parent} holds a run, saved at step {_step_of(saved[-1]):,}: continue it with --resume, "
                "or choose another folder"
            )
        if self.best.exists():
            raise CheckpointError(f"{self.best} belongs to an earlier run: choose another folder, or move the file")

    def write(self, path: Path, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> None:
        """Write a file of weights, such as `best` or `last`; an error says how to continue the run."""
        try:
            write_tensors(path, tensors, content)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {self.advice()}") from error


def identity(
    config: TrainingConfig, fingerprint: Mapping[str, Any], ranks: int, device: torch.device
) -> dict[str, Any]:
    """The run that a checkpoint belongs to, as JSON values."""
    whole = {
        "format": FORMAT,
        "version": dtfixup.__version__,
        "config": to_json(config),
        "fingerprint": dict(fingerprint),
        "ranks": ranks,
        "device": device.type,
    }
    plain: dict[str, Any] = json.loads(json.dumps(whole))
    return plain


def require_same(path: Path, saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse to resume another run than the saved one; the error names every difference."""
    differences = [
        f"{name} was {before!r} and is {now!r}"
        for part in ("config", "fingerprint", "ranks", "device")
        for name, before, now in _differences(part, saved.get(part), here.get(part))
    ]
    if differences:
        raise CheckpointError(
            f"{path} belongs to another run: {'; '.join(differences)}. Resume with the settings it was started with, "
            "or start again in another folder"
        )


def state_tensors(model: nn.Module, updater: Updater, left_out: Collection[str]) -> dict[str, Tensor]:
    """The live tensors of model and updater by name; resuming copies a checkpoint into them."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    if any(parameter not in names for parameter in updater.parameters):
        raise ConfigError("a parameter group has a parameter that does not belong to the model")
    trained = [names[parameter] for parameter in updater.parameters]
    if hidden := set(trained) & set(left_out):
        raise ConfigError(f"{min(hidden)} is trained, so files cannot leave it out")
    tensors = {f"model/{name}": tensor for name, tensor in model_tensors(model, left_out).items()}
    if updater.averages:
        tensors |= {f"average/{name}": tensor for name, tensor in zip(trained, updater.averages, strict=True)}
    for name, parameter in zip(trained, updater.parameters, strict=True):
        for moment, tensor in updater.optimizer.state[parameter].items():
            tensors[f"adam/{moment}/{name}"] = tensor
    return {**tensors, "usual_norm": updater.usual}


def restore(targets: Mapping[str, Tensor], saved: Mapping[str, Tensor], path: Path, rank: int) -> None:
    """Copy a checkpoint into `state_tensors` and into this rank's random streams."""
    random = {name: tensor for name, tensor in saved.items() if name.startswith(_RANDOM)}
    state = {name: tensor for name, tensor in saved.items() if name not in random}
    copy_into(targets, state, path)
    torch.set_rng_state(random[f"{_RANDOM}cpu/{rank}"])
    if (name := f"{_RANDOM}cuda/{rank}") in random:
        torch.cuda.set_rng_state(random[name])


def random_streams(device: torch.device) -> dict[str, Tensor]:
    """The state of this rank's global random streams."""
    streams = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        streams["cuda"] = torch.cuda.get_rng_state(device)
    return streams


def random_tensors(streams: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The random streams of all ranks, by tensor name."""
    return {f"{_RANDOM}{kind}/{rank}": state for rank, own in enumerate(streams) for kind, state in own.items()}


def _differences(name: str, before: Any, now: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = [key for key in {**before, **now} if not (name == "config" and key in FREE_ON_RESUME)]
        return [row for key in keys for row in _differences(f"{name}.{key}", before.get(key), now.get(key))]
    return [] if before == now else [(name, before, now)]


def _step_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])
