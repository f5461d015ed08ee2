"""Where a number came from: command, commit, seed, encoder, data and hardware, for every result file."""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from dtfixup.encoders import encoder_sha256
from dtfixup.files import write_json
from dtfixup.training.config import TrainingConfig, to_json
from dtfixup.training.result import FitResult

RESULT = "result.json"
"""The result file in a run's folder."""


def provenance(
    name: str, command: str, started: float, *, seed: int, encoder: str = "minilm", data_hash: str = ""
) -> dict[str, Any]:
    """The fields that every result file has; `started` is what `begin` returned."""
    return {
        "name": name,
        "command": command,
        "commit": commit(),
        "seed": seed,
        "encoder": encoder,
        "encoder_sha256": encoder_sha256(encoder),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "data_hash": data_hash,
        "hardware": hardware(),
        "wall_seconds": round(time.monotonic() - started, 1),
    }


@dataclass(frozen=True)
class TaskRun:
    """What a training run came to."""

    fit: FitResult
    metrics: Mapping[str, float]
    """Empty if the run was stopped."""


def fit_metrics(done: FitResult) -> dict[str, float]:
    """What every run says of its training."""
    return {
        "step_ms": round(done.step_ms, 2),
        "skipped_steps": done.skipped_steps,
        "steps": done.steps,
        "train_seconds": round(done.wall_seconds, 1),
        "peak_gib": round(done.peak_gib, 2),
        **done.watched,
    }


class RunConfig(Protocol):
    """What is used of a task's configuration."""

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
    """Write the result file of a training run: where it came from, flat metrics, and the evaluations on the way.

    An encoder in a folder is named without it: a folder of this machine is nobody's business, and the hash says which
    encoder it is.
    """
    record = provenance(name, command, started, seed=config.training.seed, encoder=config.encoder, data_hash=data_hash)
    encoder = Path(config.encoder).name
    record |= {"encoder": encoder, "dtype": config.training.precision.value}
    settings = {**to_json(config), "encoder": encoder}
    content = {**record, "config": settings, "metrics": dict(metrics), "curve": list(done.history)}
    write_json(folder / RESULT, content)
    return TaskRun(done, metrics)


def begin() -> float:
    """A reading of `time.monotonic()`, for `provenance`; what is committed later is not the code that runs."""
    commit()
    return time.monotonic()


@cache
def commit() -> str:
    """The commit of this source tree, "-dirty" where it has changes, "unknown" where it is no checkout; read once."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "..", ":/benchmarks", ":/examples")
        return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def hardware() -> str:
    """Processor or GPU, cores and the version of torch."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{_processor()}, {os.cpu_count()} cores, torch {torch.__version__}"


def peak_memory_gib(workers: int | None = None) -> float:
    """The most memory this process and its workers can have held: each as much as the largest of them."""
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, KiB elsewhere
    own, worker = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own + (workers or os.cpu_count() or 1) * worker) / unit


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
