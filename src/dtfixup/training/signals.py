"""SIGTERM and Ctrl-C stop a run after the current step; a second Ctrl-C aborts it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_STOPPING = b"\nStopping: the current step is finished and saved first. Press Ctrl-C again to abort.\n"


class StopRequested(BaseException):
    """Raised inside `interruptible()` by a signal; not an `Exception`, so that no task handles it as an error."""


class StopSignals:
    """While entered, `received` is the last signal that arrived, or None.

    Python sets handlers in the main thread only; in other threads no signal is received.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._is_interruptible = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
        self._before = {}

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Work that can be repeated: a signal interrupts it with `StopRequested`."""
        self._is_interruptible = True
        try:
            if self.received is not None:
                raise StopRequested
            yield
        finally:
            self._is_interruptible = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, signal.Signals(number)
        if number == signal.SIGINT and not first:
            raise KeyboardInterrupt
        if first:
            os.write(2, _STOPPING)  # not print: the signal may have come in the middle of one
        if first and self._is_interruptible:
            raise StopRequested
