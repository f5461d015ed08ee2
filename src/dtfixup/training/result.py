"""The outcome of a training run, for programs and in its result file."""

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch

from dtfixup.encoders import encoder_identity
from dtfixup.files import write_json
from dtfixup.provenance import RESULT, provenance
from dtfixup.training.config import TrainingConfig, to_json


@dataclass(frozen=True)
class FitResult:
    """The outcome of `fit`, over all parts of a resumed run."""

    finished: bool
    """False if the run was stopped; it can be resumed."""
    steps: int
    """Updates, skipped ones included."""
    skipped_steps: int
    step_ms: float
    """Wall time of an update, data and optimiser included: the median over the epochs of this process except the first,
    which captures graphs. 0 if no epoch ended."""
    wall_seconds: float
    """Wall time, with evaluations, checkpoints and initialisation."""
    peak_gib: float
    """Peak memory of this process on its device."""
    best: dict[str, Any]
    """Step, epoch and metrics of the evaluation behind `best.safetensors`; empty without one."""
    last: dict[str, Any]
    """Step, epoch and metrics of the last evaluation."""
    history: tuple[dict[str, Any], ...]
    """All evaluations."""
    watched: dict[str, float]
    """The monitor's summary (`Judge.summary`); empty for strategies without an input norm."""


@dataclass(frozen=True)
class TaskRun:
    """A training run and its metrics."""

    fit: FitResult
    metrics: Mapping[str, float]
    """Empty if the run was stopped."""


def fit_metrics(done: FitResult) -> dict[str, float]:
    """The metrics of every run's training."""
    return {
        "step_ms": round(done.step_ms, 2),
        "skipped_steps": done.skipped_steps,
        "steps": done.steps,
        "train_seconds": round(done.wall_seconds, 1),
        "peak_gib": round(done.peak_gib, 2),
        **done.watched,
    }


class RunConfig(Protocol):
    """The part of a task's configuration that a result file needs."""

    @property
    def encoder(self) -> str: ...

    @property
    def training(self) -> TrainingConfig: ...


def finish_run(
    folder: Path,
    config: RunConfig,
    done: FitResult,
    metrics: Mapping[str, float],
    *,
    name: str,
    command: str,
    started: float,
    data_hash: str,
) -> TaskRun:
    """Write the result file of a training run: its provenance, flat metrics, and the evaluations on the way."""
    encoder = encoder_identity(config.encoder)
    record = provenance(name, command, started, seed=config.training.seed, encoder=encoder, data_hash=data_hash)
    record["dtype"] = config.training.precision.value
    settings = {**to_json(config), "encoder": encoder["encoder"]}
    content = {**record, "config": settings, "metrics": dict(metrics), "curve": list(done.history)}
    write_json(folder / RESULT, content)
    return TaskRun(done, metrics)


def typical_step_ms(epochs: Sequence[float]) -> float:
    """The median of all epochs except the first.

    >>> typical_step_ms([90.0, 10.0, 12.0, 11.0]), typical_step_ms([90.0]), typical_step_ms([])
    (11.0, 90.0, 0.0)
    """
    return median(epochs[1:] or epochs) if epochs else 0.0


def peak_gib(device: torch.device) -> float:
    """Peak memory in GiB: of tensors on a GPU, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    unit = 2**30 if sys.platform == "darwin" else 2**20  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def joined_over_ranks(summaries: Sequence[dict[str, float]]) -> dict[str, float]:
    """Summaries of all ranks over the same steps: the largest of every value, and the sum of alerts.

    >>> joined_over_ranks([{"highest_growth": 2.0, "alerts": 1.0}, {"highest_growth": 3.0, "alerts": 1.0}])
    {'highest_growth': 3.0, 'alerts': 2.0}
    """
    return {name: (sum if name == "alerts" else max)(summary[name] for summary in summaries) for name in summaries[0]}


def joined_in_time(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Summaries before and after a resume: the larger of every value, and the sums of counts.

    >>> before, after = ({"mu": 13.0, "highest_growth": growth, "alerts": 1.0} for growth in (2.0, 1.0))
    >>> joined_in_time(before, after)
    {'mu': 13.0, 'highest_growth': 2.0, 'alerts': 2.0}
    """
    if not before:
        return dict(after)
    return {
        name: before[name] + value if name.startswith(("alerts", "steps")) else max(before[name], value)
        for name, value in after.items()
    }
