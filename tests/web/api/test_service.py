import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dtfixup.errors import BusyError, ClosingError, DataError, LateError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.web.api.service import AnswerService, WorkerPool
from dtfixup.web.settings import ServerSettings
from tests.sql.asked import tiny_parser
from tests.web.shops import QUESTION


def held(gate: threading.Event) -> Callable[[], bool]:
    """Work that ends when the gate opens; or after a while, so that a test that fails ends too."""
    return lambda: gate.wait(20.0)


def test_as_many_wait_as_may() -> None:
    async def visit() -> None:
        line, gate = WorkerPool(1, 1, "test"), threading.Event()
        begun = [asyncio.create_task(line.do(held(gate), 10.0)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="2 requests"):
            await line.do(held(gate), 10.0)
        gate.set()
        assert await asyncio.gather(*begun) == [True, True]
        assert await line.do(lambda: 3, 10.0) == 3
        await _until(lambda: line.taken == 0)
        line.close()

    asyncio.run(visit())


def test_who_is_late_is_told_and_keeps_the_worker() -> None:
    async def visit() -> None:
        line, gate = WorkerPool(1, 1, "test"), threading.Event()
        with pytest.raises(LateError, match=r"within 0\.05 s"):
            await line.do(held(gate), 0.05)
        assert line.taken == 1
        ran: list[int] = []
        with pytest.raises(LateError):
            await line.do(lambda: ran.append(1), 0.05)  # it waits behind the first, and leaves the queue
        assert line.taken == 1
        gate.set()
        await _until(lambda: line.taken == 0)
        assert ran == []
        line.close()

    asyncio.run(visit())


def test_late_questions_run_no_more_than_workers_may(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit() -> None:
        service = AnswerService(tiny_parser(), ServerSettings(workers=2, waiting=0, answer_seconds=0.05))
        gate, database = threading.Event(), OpenedDatabase(shop)
        running: list[int] = []

        def ask(*_: object) -> str:
            running.append(1)
            gate.wait(20.0)
            return "answered"

        monkeypatch.setattr(service.parser, "ask", ask)
        for _ in range(2):
            with pytest.raises(LateError):
                await service.ask(database, QUESTION)
        for _ in range(5):
            with pytest.raises(BusyError):
                await service.ask(database, QUESTION)
        assert len(running) == 2
        assert not service.is_idle
        assert await service.do(lambda: 3) == 3  # queries have workers of their own
        gate.set()
        await _until(lambda: service.is_idle)
        monkeypatch.setattr(service, "settings", ServerSettings())
        assert await service.ask(database, QUESTION) == "answered"
        service.close()

    asyncio.run(visit())


def test_a_visitor_who_leaves_gives_up_the_place() -> None:
    async def visit() -> None:
        line, gate = WorkerPool(1, 5, "test"), threading.Event()
        first = asyncio.create_task(line.do(held(gate), 10.0))
        second = asyncio.create_task(line.do(held(gate), 10.0))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert line.taken == 1
        gate.set()
        assert await first
        line.close()

    asyncio.run(visit())


def test_errors_come_through_and_threads_are_single() -> None:
    async def visit() -> None:
        line = WorkerPool(2, 5, "test")

        def fail() -> None:
            raise DataError("the question is empty")

        with pytest.raises(DataError, match="empty"):
            await line.do(fail, 10.0)
        assert await line.do(torch.get_num_threads, 10.0) == 1
        await _until(lambda: line.taken == 0)
        line.close()

    torch.set_num_threads(2)  # one is what the tests begin with
    try:
        asyncio.run(visit())
    finally:
        torch.set_num_threads(1)


def test_a_closing_desk_takes_nothing_new() -> None:
    async def visit() -> None:
        service, gate = AnswerService(tiny_parser(), ServerSettings()), threading.Event()
        begun = asyncio.create_task(service.do(held(gate)))
        await asyncio.sleep(0.05)
        service.is_closing = True
        with pytest.raises(ClosingError):
            await service.do(held(gate))
        assert not service.is_idle
        gate.set()
        assert await begun
        await _until(lambda: service.is_idle)
        service.close()

    asyncio.run(visit())


async def _until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)
