"""Run tasks in worker processes that may hang or die.

In: a function and tasks. Out: the results, and `Lost` for a task whose worker died or was late. The process pool of
the standard library gives up all tasks when one worker dies, and cannot stop one that hangs inside C code.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, TypeVar

from rich.progress import track

from dtfixup.errors import DataError, WorkerStartError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Threads of the parent, such as a progress bar's, make forking unsafe.
_CONTEXT: Final = get_context("spawn")
_HUNG_SECONDS: Final = 4 * 3600.0
"""A task of `map_supervised` that takes longer counts as hung."""


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
    """Return the results of all tasks in order; a lost task is an error that names it.

    Args:
        function: importable by name, or a partial of such a function. Each worker receives it once, so bind to it what
            all tasks share.
        tasks: by the names that errors use.
        description: the label of the progress bar.
        workers: how many processes, by default one per core. A single task or a single worker runs in this process.
        show_progress: whether to show the bar.
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
    """Yield each task's position and result, in the order in which they finish.

    `function` is importable by name, or a partial of such a function. A worker that dies, or takes longer than
    `deadline` seconds for a task, is killed and replaced. An exception of the function ends the run and is raised here.
    """
    waiting = deque(enumerate(tasks))
    crew = [_Worker(function, deadline) for _ in range(min(workers, len(tasks)))]
    try:
        while waiting or any(worker.is_busy for worker in crew):
            for worker in crew:
                if waiting and not worker.is_busy:
                    worker.give(*waiting.popleft())
            busy = [worker for worker in crew if worker.is_busy]
            first_end = min(worker.end for worker in busy)
            wait([worker.connection for worker in busy], timeout=max(first_end - time.monotonic(), 0))
            for worker in busy:
                if not worker.connection.poll() and time.monotonic() <= worker.end:
                    continue
                result = worker.take_result()
                yield worker.position, result
                if isinstance(result, Lost):
                    worker.stop()
                    crew[crew.index(worker)] = _Worker(function, deadline)
    finally:
        for worker in crew:
            worker.stop()


class _Worker(Generic[Task, Result]):
    """One process and its current task."""

    def __init__(self, function: Callable[[Task], Result], deadline: float) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, function), daemon=True)
        self._process.start()
        theirs.close()
        self._deadline = deadline
        self._is_ready = False
        self.is_busy = False
        self.position = -1
        self.end = 0.0

    def give(self, position: int, task: Task) -> None:
        """Send a task, whose time begins now."""
        if not self._is_ready:
            self._await_start()
        self.is_busy, self.position, self.end = True, position, time.monotonic() + self._deadline
        self.connection.send(task)

    def _await_start(self) -> None:
        try:
            self._is_ready = self.connection.recv()
        except EOFError:
            raise WorkerStartError(
                f"a worker process ended with exit code {self._exit_code()} before its first task; in a script of "
                'your own, start the work below `if __name__ == "__main__":`, because a new process reads the script '
                "again"
            ) from None

    def take_result(self) -> Result | Lost:
        """The result of the task, once the worker has answered or died, or its deadline has passed."""
        self.is_busy = False
        if not self.connection.poll():
            return Lost(f"its worker process gave no answer within {self._deadline:g} s and was stopped", is_late=True)
        try:
            answer: tuple[Result, Exception | None] = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return Lost(f"its worker process ended with exit code {self._exit_code()}")
        result, error = answer
        if error is not None:
            raise error
        return result

    def _exit_code(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, function: Callable[[Any], Any]) -> None:
    """Answer tasks with a result or an exception until the parent is gone."""
    connection.send(True)  # ready
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
