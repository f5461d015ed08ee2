"""Runs that other processes can train: they note what they do, and meet, wait, stop or die as they are told.

As a program: `python toy_runs.py OUT KIND [KIND ...]` trains one run of each kind, two at once.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup_paper.runs.sweep import Run, run_sweep

from dtfixup.errors import DivergedError
from dtfixup.training.signals import StopSignals

DEADLINE = 180.0


@dataclass(frozen=True)
class Toy:
    """A configuration."""

    kind: str
    layers: int = 2
    seed: int = 1


class Data:
    """Notes when another process opens it."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def __reduce__(self) -> Any:
        return opened, (self.notes,)


def opened(notes: Path) -> Data:
    with (notes / "opened.txt").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return Data(notes)


@dataclass(frozen=True)
class Train:
    kind: str
    layers: int
    notes: Path
    data: Data | None = None

    def __call__(self, folder: Path, resume: bool) -> dict[str, Any] | None:
        self.note("resumed" if resume else "began")
        if not getattr(self, f"be_{self.kind}")(folder, resume):
            self.note("stopped")
            return None
        self.note("ended")
        return {"metrics": {"accuracy": 10.0 * self.layers}, "wall_seconds": 1.0, "pid": os.getpid()}

    def note(self, what: str) -> None:
        with (self.notes / "notes.txt").open("a") as file:
            file.write(f"{self.layers} {what} {os.getpid()}\n")

    def say_ready(self) -> None:
        """Says that a signal may come."""
        (self.notes / f"ready-{self.layers}").touch()

    def be_plain(self, folder: Path, resume: bool) -> bool:
        return True

    def be_slow(self, folder: Path, resume: bool) -> bool:
        time.sleep(1.0)
        return True

    def be_mps(self, folder: Path, resume: bool) -> bool:
        assert "quit" not in (self.notes / "said.txt").read_text()
        (self.notes / "pipe.txt").write_text(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
        return True

    def be_friendly(self, folder: Path, resume: bool) -> bool:
        """Ends when another like it has begun."""
        (self.notes / f"here-{self.layers}").touch()
        wait_for(lambda: len(list(self.notes.glob("here-*"))) > 1)
        return True

    def be_diverging(self, folder: Path, resume: bool) -> bool:
        raise DivergedError("the loss is not finite")

    def be_killed(self, folder: Path, resume: bool) -> bool:
        """Dies once, with a checkpoint, and goes on from it."""
        if not resume:
            save(folder)
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def be_crashing(self, folder: Path, resume: bool) -> bool:
        os.kill(os.getpid(), signal.SIGSEGV)
        return True

    def be_quitting(self, folder: Path, resume: bool) -> bool:
        print("said before it quit", file=sys.stderr)
        sys.exit(3)

    def be_stoppable(self, folder: Path, resume: bool) -> bool:
        """Trains for ever the first time, as a run does that is asked to stop, and saves."""
        if resume:
            return True
        with StopSignals() as signals:
            self.say_ready()
            wait_for(lambda: signals.received is not None)
            save(folder)
        return False

    def be_loading(self, folder: Path, resume: bool) -> bool:
        """Is not yet where a stop is waited for, until the test lets it go on."""
        self.say_ready()
        wait_for((self.notes / "heard").exists)
        return True

    def be_deaf(self, folder: Path, resume: bool) -> bool:
        """Hears of no stop, until the test lets it go on."""
        with StopSignals():
            return self.be_loading(folder, resume)


def save(folder: Path) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / "step-00000007.safetensors").touch()


def wait_for(condition: Any) -> None:
    """Until it holds; an error if it takes too long."""
    ends = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.02)


def wait_until_ready(notes: Path, runs: int) -> None:
    wait_for(lambda: len(list(notes.glob("ready-*"))) == runs)


def toy_run(kind: str, notes: Path, layers: int = 2, seed: int = 1, experiment: str = "toy", cost: float = 1.0) -> Run:
    train = Train(kind, layers, notes)
    return Run(experiment, f"{kind}-n{layers}", seed, Toy(kind, layers, seed), "data", train, "accuracy", cost)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    run_sweep([toy_run(kind, out, layers) for layers, kind in enumerate(sys.argv[2:], 1)], out, at_once=2)
