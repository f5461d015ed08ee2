"""Runs that take no time, and a trainer that notes them; `sweep` returns what a sweep prints, too."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtfixup_paper.runs.run import Run, Trainer
from dtfixup_paper.runs.sweep import Outcome, run_sweep
from rich.console import Console

Train = Callable[[Path, bool], Any]


@dataclass(frozen=True)
class Toy:
    """A configuration."""

    layers: int = 2
    encoder: str = "tiny"


def toy_run(layers: int = 2, seed: int = 1, *, experiment: str = "toy", cost: float = 1.0, config: Any = None) -> Run:
    path = f"{experiment}/n{layers}"
    return Run(path, seed, config or Toy(layers), "accuracy", cost, command="made by a test")


def result(value: float, seconds: float = 1.0) -> dict[str, Any]:
    return {"wall_seconds": seconds, "metrics": {"accuracy": value}}


@dataclass
class Toys:
    """Trains by noting that it was asked to; `how` replaces the training of a variant."""

    how: Mapping[str, Train] = field(default_factory=dict)
    data: str = "data"
    weights: str = "weights"
    names: list[str] = field(default_factory=list)

    def data_hash(self, run: Run) -> str:
        return self.data

    def encoder_sha256(self, run: Run) -> str:
        return self.weights

    def train(self, run: Run, folder: Path, resume: bool) -> Any:
        self.names.append(run.name)
        how = self.how.get(run.variant)
        return result(10.0 * run.config.layers) if how is None else how(folder, resume)


def sweep(
    runs: list[Run], trainer: Trainer, out: Path, run: Callable[..., list[Outcome]] = run_sweep, **how: Any
) -> tuple[list[Outcome], str]:
    """What becomes of runs, and what is printed."""
    console = Console(file=io.StringIO(), width=150)
    outcomes = run(runs, trainer, out, console=console, **how)
    assert isinstance(console.file, io.StringIO)
    return outcomes, console.file.getvalue()


def failing(error: Exception) -> Train:
    def train(folder: Path, resume: bool) -> None:
        raise error

    return train


def save(folder: Path) -> None:
    """Leave a checkpoint."""
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / "step-00000007.safetensors").touch()
