"""Workers that answer, hang and die. Tasks are Python text for `eval`, which a fresh process can import."""

import os
from typing import Any

import pytest

from dtfixup.errors import DataError, WorkerStartError
from dtfixup.processes import Lost, map_supervised, run_supervised

_DIE = "__import__('os')._exit(3)"
_CRASH = "__import__('os').kill(__import__('os').getpid(), 11)"
_HANG = "__import__('time').sleep(600)"


def _run(tasks: list[str], **options: Any) -> dict[int, Any]:
    return dict(run_supervised(eval, tasks, **{"workers": 2, "deadline": 30.0} | options))


def test_every_task_gets_its_own_result() -> None:
    assert _run([f"{number} ** 2" for number in range(20)]) == {number: number**2 for number in range(20)}
    assert _run([]) == {}


def test_workers_are_other_processes_and_are_used_again() -> None:
    found = set(_run(["__import__('os').getpid()"] * 8).values())
    assert os.getpid() not in found
    assert 1 <= len(found) <= 2


def test_a_worker_that_dies_loses_its_task_alone() -> None:
    results = _run(["1", _DIE, "2", _CRASH, "3", "4"])
    assert [results[position] for position in (0, 2, 4, 5)] == [1, 2, 3, 4]
    assert results[1] == Lost("its worker process ended with exit code 3")
    assert results[3] == Lost("its worker process ended with exit code -11")


def test_a_worker_that_hangs_is_stopped() -> None:
    results = _run(["1", _HANG, "2"], deadline=3.0)
    assert results == {
        0: 1,
        1: Lost("its worker process gave no answer within 3 s and was stopped", is_late=True),
        2: 2,
    }


def test_an_exception_ends_the_run() -> None:
    with pytest.raises(ZeroDivisionError):
        _run(["1 / 0"])


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    tasks = {"slow": "__import__('time').sleep(0.5) or 'first'", "fast": "'second'"}
    assert map_supervised(eval, tasks, "", workers=workers, show_progress=False) == ["first", "second"]
    assert map_supervised(eval, {}, "", workers=workers, show_progress=False) == []


def test_a_task_that_ends_its_worker_is_named() -> None:
    tasks = {"good": "1", "bad": "__import__('os')._exit(3)"}
    with pytest.raises(DataError, match=r"counting, bad: .* exit code 3; if memory is short, use fewer workers"):
        map_supervised(eval, tasks, "counting", workers=2, show_progress=False)


class _Undeliverable:
    """Ends the process that unpickles it."""

    def __call__(self, task: Any) -> Any:
        return task

    def __reduce__(self) -> Any:
        return os._exit, (7,)


def test_workers_that_cannot_start_are_an_error() -> None:
    with pytest.raises(WorkerStartError, match="exit code 7 before its first task"):
        list(run_supervised(_Undeliverable(), [1, 2], workers=1, deadline=30.0))
