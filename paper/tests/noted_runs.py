"""Runs that note that they were asked to train, and a sweep whose words can be read."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup_paper.runs.sweep import Outcome, Run, run_sweep
from rich.console import Console

Train = Callable[[Path, bool], Any]


@dataclass(frozen=True)
class Toy:
    """A configuration."""

    layers: int = 2
    seed: int = 1


def result(value: float, seconds: float = 1.0) -> dict[str, Any]:
    return {"name": "toy", "seed": 1, "wall_seconds": seconds, "metrics": {"accuracy": value}, "curve": []}


class Trained:
    """Trains by noting that it was asked to."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def run(
        self,
        layers: int = 2,
        seed: int = 1,
        *,
        train: Train | None = None,
        experiment: str = "toy",
        cost: float = 1.0,
        seconds: float = 1.0,
        data_hash: str = "data",
    ) -> Run:
        def note(folder: Path, resume: bool) -> Any:
            self.names.append(made.name)
            return result(10.0 * layers, seconds) if train is None else train(folder, resume)

        config = Toy(layers, seed)
        made = Run(experiment, f"n{layers}", seed, config, data_hash, note, "accuracy", cost, command="made by a test")
        return made


def sweep(
    runs: list[Run], out: Path, run: Callable[..., list[Outcome]] = run_sweep, **how: Any
) -> tuple[list[Outcome], str]:
    """What comes of runs, and what is shown of them."""
    console = Console(file=io.StringIO(), width=150)
    outcomes = run(runs, out, console=console, **how)
    assert isinstance(console.file, io.StringIO)
    return outcomes, console.file.getvalue()


def fail(error: Exception) -> Train:
    def train(folder: Path, resume: bool) -> None:
        raise error

    return train
