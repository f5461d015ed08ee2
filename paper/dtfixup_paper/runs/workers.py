"""Processes that each train runs one after the other, so that imports and the GPU's start are paid once.

In: runs, and which of them to train next. Out: how each ended, or `Lost` where its process did. A process pool of the
standard library gives up all tasks when one process dies. The processes are in groups of their own, so that Ctrl-C is
heard here alone; they end with the process that started them, however it ends.
"""

import faulthandler
import os
import pickle
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

import torch

from dtfixup.errors import ConfigError, WorkerStartError
from dtfixup.provenance import hardware
from dtfixup_paper.runs.run_identity import Content, State
from dtfixup_paper.runs.runs import Run, train_one

# A GPU that is in use here cannot be used in a fork.
_CONTEXT: Final = get_context("spawn")
_PATIENCE: Final = 30.0  # seconds in which an idle process ends


@dataclass(frozen=True)
class Orders:
    """What a worker process knows from its start."""

    runs: bytes
    """Pickled all together, so that they still share what they shared."""
    out: Path
    work: Path
    keep_weights: bool
    environment: Mapping[str, str]
    threads: int
    at_once: int


@dataclass(frozen=True)
class Lost:
    """The process of a run ended without a word."""

    reason: str
    hardware: str


Answer = tuple[State, Content | None] | Lost


class Crew:
    """Worker processes for runs that are known by their place in a sequence; to be entered.

    Args:
        runs: all that may be asked for.
        out: folder of the result files.
        work: folder that runs are trained in, each in one of its own, and of the workers' logs.
        size: number of processes.
        keep_weights: as in `train_one`.
        environment: variables that the processes shall have beside those of this one.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        out: Path,
        work: Path,
        size: int,
        *,
        keep_weights: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        threads = max(1, torch.get_num_threads() // size)
        self._orders = Orders(_packed(runs), out, work, keep_weights, environment or {}, threads, size)
        for number in range(1, size + 1):
            _log(work, number).unlink(missing_ok=True)
        self._size, self._workers = size, list[_Worker]()
        self.is_stopped = False

    def __enter__(self) -> "Crew":
        self.replace_lost()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        for worker in self._workers:
            worker.end(at_once=kind is not None)

    @property
    def is_busy(self) -> bool:
        return any(worker.place is not None for worker in self._workers)

    @property
    def has_idle(self) -> bool:
        return not self.is_stopped and any(worker.is_idle for worker in self._workers)

    def give(self, place: int) -> None:
        """Let an idle process train a run."""
        worker = next(worker for worker in self._workers if worker.is_idle)
        worker.place = place
        with suppress(BrokenPipeError):  # it has died since: `answers` will tell
            worker.connection.send(place)

    def answers(self, seconds: float) -> list[tuple[int, Answer]]:
        """What has come, after waiting so long at most: places of runs and how they ended."""
        ready = wait([worker.connection for worker in self._workers], timeout=seconds)
        found: list[tuple[int, Answer]] = []
        for worker in [each for each in self._workers if each.connection in ready]:
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):  # also in the middle of a message
                found += self._bury(worker)
                continue
            if worker.hardware is None:
                worker.hardware = message
            else:
                assert worker.place is not None  # nobody else says anything
                found.append((worker.place, message))
                worker.place = None
        return found

    def replace_lost(self) -> None:
        """As many processes as in the beginning, but for those that did not come up; none after a stop."""
        while len(self._workers) < self._size and not self.is_stopped:
            taken = {worker.number for worker in self._workers}
            self._workers.append(_Worker(min({*range(1, self._size + 1)} - taken), self._orders))

    def stop(self) -> None:
        """Ask all to save what they are at and to end; those that are not at it yet end at once."""
        for worker in [] if self.is_stopped else self._workers:
            worker.process.terminate()
        self.is_stopped = True

    def _bury(self, worker: "_Worker") -> list[tuple[int, Answer]]:
        worker.end()
        self._workers.remove(worker)
        how, log = _ending(worker.process.exitcode), _log(self._orders.work, worker.number)
        if worker.hardware is None and not self.is_stopped:
            self._size -= 1
            if not self._size:
                raise WorkerStartError(
                    f"worker processes do not start: one {how} and said {_last_line(log)!r}, see {log}. In a script of "
                    'your own, start the sweep below `if __name__ == "__main__":`'
                )
        if worker.place is None:
            return []
        return [(worker.place, Lost(f"its process {how}; WORK/{log.name} may say more", worker.hardware or ""))]


@dataclass(eq=False)
class _Worker:
    """One process, and the place of the run it is at."""

    number: int
    orders: Orders
    place: int | None = None
    hardware: str | None = None
    """None until it is ready."""
    connection: Connection = field(init=False)
    process: SpawnProcess = field(init=False)

    def __post_init__(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, self.number, self.orders), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def is_idle(self) -> bool:
        return self.hardware is not None and self.place is None

    def end(self, *, at_once: bool = False) -> None:
        """An idle one goes when nobody can tell it anything any more."""
        self.connection.close()
        if at_once:
            self.process.kill()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(connection: Connection, number: int, orders: Orders) -> None:
    """The life of a worker: places in, how their runs ended out."""
    os.setpgrp()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(orders.environment)
    with _log(orders.work, number).open("a") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    faulthandler.enable()
    torch.set_num_threads(orders.threads)
    runs: Sequence[Run] = pickle.loads(orders.runs)
    try:
        connection.send(hardware())
        while True:
            run = runs[connection.recv()]
            folder = orders.work / run.name
            connection.send(train_one(run, orders.out, folder, orders.keep_weights, at_once=orders.at_once))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _end_with_parent() -> None:
    """At once, since the folders are no longer locked: the next sweep may be in them."""
    parent = parent_process()
    assert parent is not None  # this is not the first process
    wait([parent.sentinel])
    os._exit(1)


def _packed(runs: Sequence[Run]) -> bytes:
    try:
        return pickle.dumps(list(runs))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"runs at once go to other processes, and these cannot be sent there: {error}. Let their train be a "
            "function of a module, or an instance of a class there, or train them in turn"
        ) from error


def _ending(code: int | None) -> str:
    """How a process ended, in words.

    >>> _ending(3), _ending(-11)
    ('ended with exit code 3', 'was ended by SIGSEGV')
    """
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"was ended by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")


def _log(work: Path, number: int) -> Path:
    return work / f"worker-{number}.log"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
