"""Run tasks in worker processes that may hang or die.

In: a function and tasks. Out: the results, and `Lost` for a task whose worker died or was late. A process pool of the
standard library gives up all tasks when one worker dies, and cannot stop one that hangs inside C code.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, Generic, TypeVar

from rich.progress import track

from dtfixup.errors import DataError, WorkerStartError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Threads of the parent, such as a progress bar's, make forking unsafe.
_CONTEXT: Final = get_context("spawn")
_READY: Final = "ready"
_HUNG_SECONDS: Final = 4 * 3600.0
"""A task of `map_supervised` that takes this long is taken to hang."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A task without a result, because its worker died or did not answer in time."""

    reason: str
    is_late: bool = False


def map_supervised(
    function: Callable[[Task], Result],
    tasks: Mapping[str, Task],
    description: str,
    *,
    workers: int | None,
    show_progress: bool,
) -> list[Result]:
    """The results of all tasks, in their order; a lost task is an error that names it.

    Args:
        function: importable by name, or a partial of one that is. Each worker receives it once, so bind to it what all
            tasks share.
        tasks: by the name that an error gives.
        description: what the progress bar says.
        workers: by default as many as there are cores. One task, or one worker, runs in this process.
        show_progress: whether there is a bar.
    """
    names, values = list(tasks), list(tasks.values())
    workers = min(workers or os.cpu_count() or 1, len(values))
    results: Iterator[tuple[int, Result | Lost]] = (
        run_supervised(function, values, workers=workers, deadline=_HUNG_SECONDS)
        if workers > 1
        else enumerate(map(function, values))
    )
    by_position: dict[int, Result] = {}
    for position, result in track(results, description, len(values), disable=not show_progress, transient=True):
        if isinstance(result, Lost):
            raise DataError(f"{description}, {names[position]}: {result.reason}; if memory is short, use fewer workers")
        by_position[position] = result
    return [by_position[position] for position in range(len(values))]


def run_supervised(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int, deadline: float
) -> Iterator[tuple[int, Result | Lost]]:
    """Yield the position of each task with its result, as they come.

    `function` is importable by name, or a partial of one that is. A worker that takes longer than `deadline` seconds
    for a task is killed and replaced, and so is one that dies. An exception of the function is raised here and ends
    the run.
    """
    waiting = deque(range(len(tasks)))
    crew = [_Worker(function) for _ in range(min(workers, len(tasks)))]
    try:
        while waiting or any(worker.task is not None for worker in crew):
            for worker in crew:
                if worker.task is None and waiting:
                    worker.give(waiting.popleft(), tasks)
            busy = [worker for worker in crew if worker.task is not None]
            first = min(worker.since for worker in busy) + deadline
            wait([worker.connection for worker in busy], timeout=max(first - time.monotonic(), 0))
            for worker in busy:
                outcome = worker.outcome(deadline)
                if outcome is None:
                    continue
                assert worker.task is not None
                yield worker.task, outcome.result
                worker.task = None
                if isinstance(outcome.result, Lost):
                    worker.stop()
                    crew[crew.index(worker)] = _Worker(function)
    finally:
        for worker in crew:
            worker.stop()


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[Result]):
    result: Result | Lost


@dataclass(eq=False)
class _Worker(Generic[Task, Result]):
    """One process and its current task."""

    function: Callable[[Task], Result]
    task: int | None = None
    since: float = 0.0
    connection: Connection = field(init=False)
    process: SpawnProcess = field(init=False)
    is_ready: bool = False

    def __post_init__(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, self.function), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: int, tasks: Sequence[Task]) -> None:
        if not self.is_ready:
            self._await_start()
        self.task, self.since = task, time.monotonic()
        self.connection.send(tasks[task])

    def _await_start(self) -> None:
        try:
            self.is_ready = self.connection.recv() == _READY
        except EOFError:
            self.process.join()
            raise WorkerStartError(
                f"a worker process ended with exit code {self.process.exitcode} before its first task; in a script of "
                'your own, start the work below `if __name__ == "__main__":`, because a new process reads the script '
                "again"
            ) from None

    def outcome(self, deadline: float) -> "_Outcome[Result] | None":
        """What became of the task, or None if the worker is still at it."""
        if self.connection.poll():
            try:
                result, error = self.connection.recv()
            except (EOFError, ConnectionResetError):
                self.process.join()
                return _Outcome(Lost(f"its worker process ended with exit code {self.process.exitcode}"))
            if error is not None:
                raise error
            return _Outcome(result)
        if time.monotonic() - self.since > deadline:
            return _Outcome(Lost(f"its worker process gave no answer within {deadline:g} s and was stopped", True))
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, function: Callable[[Any], Any]) -> None:
    """Answer tasks with a result or an exception until the parent is gone."""
    connection.send(_READY)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = (function(task), None)
        except Exception as error:
            answer = (None, error)
        connection.send(answer)
