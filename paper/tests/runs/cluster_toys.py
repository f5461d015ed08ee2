"""A trainer for other processes, which find this file by its name: runs that meet, wait or die by their variant."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup_paper.runs.run import Run

from dtfixup.errors import DivergedError

DEADLINE = 180.0


@dataclass(frozen=True)
class Toy:
    layers: int


@dataclass(frozen=True)
class ClusterToys:
    notes: Path

    def data_hash(self, run: Run) -> str:
        return "data"

    def encoder_sha256(self, run: Run) -> str:
        return ""

    def train(self, run: Run, folder: Path, resume: bool) -> dict[str, Any]:
        kind, number = run.variant.split("-n")
        with (self.notes / "notes.txt").open("a") as file:
            file.write(f"{'resumed' if resume else 'began'} {number}\n")
        if kind == "friendly":  # ends when another like it has begun
            (self.notes / f"here-{number}").touch()
            wait_for(lambda: len(list(self.notes.glob("here-*"))) > 1)
        if kind == "loading":  # ends when the test lets it
            (self.notes / f"ready-{number}").touch()
            wait_for((self.notes / "heard").exists)
        if kind == "diverging":
            raise DivergedError("the loss is not finite")
        if kind == "killed" and not resume:
            (folder / "checkpoints").mkdir(exist_ok=True)
            (folder / "checkpoints" / "step-00000007.safetensors").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"metrics": {"accuracy": 10.0 * run.config.layers}, "wall_seconds": 1.0, "pid": os.getpid()}


def toy_run(kind: str, number: int = 2) -> Run:
    return Run(f"toy/{kind}-n{number}", 1, Toy(number), "accuracy")


def wait_for(condition: Any) -> None:
    """Until it holds; an error if it takes too long."""
    ends = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.02)
