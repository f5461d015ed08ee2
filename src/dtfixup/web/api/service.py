"""Answers questions and runs queries, a few at a time.

In: requests of the page and of the API alike. Out: answers and rows, or a `ServeError`: the queue is full, the time is
up, or the server is closing. A late question cannot be stopped, and keeps its worker until it ends; a query is stopped
whatever it does.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from dtfixup.errors import BusyError, ClosingError, LateError, SchemaError
from dtfixup.sql.ask.opened import OpenedDatabase, Reading
from dtfixup.sql.ask.parser import Answer, TextToSql
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.execution.run import run_query
from dtfixup.web.settings import ServerSettings

Result = TypeVar("Result")

_START_SECONDS = 10.0
"""Time that a query's process may take to start and end, beside the query's own deadline."""


class WorkerPool:
    """Threads for one kind of work, with a queue of bounded length."""

    def __init__(self, workers: int, waiting: int, name: str) -> None:
        self.most = workers + waiting
        self.taken = 0
        """Requests at work or waiting, late ones included."""
        self._lock = threading.Lock()
        # Threads of one question that wait for each other by spinning would take the time of the other questions.
        self._pool = ThreadPoolExecutor(workers, name, initializer=torch.set_num_threads, initargs=(1,))

    async def do(self, work: Callable[[], Result], deadline: float) -> Result:
        """The work's result, or a `ServeError` if the queue is full or the deadline passes."""
        with self._lock:
            if self.taken >= self.most:
                raise BusyError(f"the request queue is full: {self.taken} requests are being answered or waiting")
            self.taken += 1
        job: Future[Result] = self._pool.submit(work)
        job.add_done_callback(self._leave)
        outcome = asyncio.wrap_future(job)
        outcome.add_done_callback(_retrieve_error)
        try:
            await asyncio.wait({outcome}, timeout=deadline)
            if not outcome.done():
                raise LateError(f"no answer within {deadline:g} s")
            return outcome.result()
        finally:
            job.cancel()  # where it still waits, because its visitor has gone or the time is up

    def _leave(self, _: object) -> None:
        with self._lock:
            self.taken -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _retrieve_error(outcome: "asyncio.Future[Result]") -> None:
    """Read an error that nobody waits for any more, or asyncio would log it."""
    if not outcome.cancelled():
        outcome.exception()


class AnswerService:
    """One model for all visitors, with workers for questions and others for queries."""

    def __init__(self, parser: TextToSql, settings: ServerSettings) -> None:
        self.parser, self.settings = parser, settings
        self.asks = WorkerPool(settings.workers, settings.waiting, "ask")
        self.runs = WorkerPool(settings.workers, settings.waiting, "run")
        self.is_closing = False

    @property
    def is_idle(self) -> bool:
        return self.asks.taken == 0 and self.runs.taken == 0

    async def ask(self, database: OpenedDatabase, question: str, beam: int = 5) -> Answer:
        """Answer a question."""
        return await self._at(
            self.asks, lambda: self.parser.ask(question, database, beam), self.settings.answer_seconds
        )

    async def read(self, database: OpenedDatabase) -> Reading:
        """The schema and content of a database."""
        return await self._at(self.asks, database.read, self.settings.answer_seconds)

    async def run(self, database: OpenedDatabase, sql: str, rows: int | None = None) -> Rows:
        """Run a query, read-only."""
        most, seconds = min(rows or self.settings.rows, self.settings.rows), self.settings.deadline
        waits = self.settings.answer_seconds + seconds + _START_SECONDS

        def work() -> Rows:
            path = database.location.path
            if path is not None and not path.is_file():
                raise SchemaError(f"{path} is not there any more: put it back, or name another database")
            return run_query(database.location, sql, deadline=seconds, max_rows=most)

        return await self._at(self.runs, work, waits)

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do other work outside the event loop, such as reading an upload."""
        return await self._at(self.runs, work, self.settings.answer_seconds + _START_SECONDS)

    async def _at(self, pool: WorkerPool, work: Callable[[], Result], deadline: float) -> Result:
        if self.is_closing:
            raise ClosingError("the server is shutting down")
        return await pool.do(work, deadline)

    def close(self) -> None:
        self.asks.close()
        self.runs.close()
