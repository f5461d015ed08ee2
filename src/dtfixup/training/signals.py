"""SIGTERM and Ctrl-C ask a run to stop; a second Ctrl-C aborts it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_HEARD = b"\nStopping: the step is finished and saved first. Ctrl-C again aborts.\n"


class StopAsked(BaseException):
    """Raised inside `breakable()` when a stop is asked for; no `Exception`, so that no task takes it for an error."""


class StopSignals:
    """While entered, `asked` is the signal that asked for a stop, if one did.

    Handlers can only be set in the main thread; in another, nothing is listened to.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._breakable = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGINT):
                self._before[each] = signal.signal(each, self._hear)
        return self

    def __exit__(self, *exception: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
        self._before = {}

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Work that can be done again: a stop does not wait for its end, but breaks it off with `StopAsked`."""
        self._breakable = True
        try:
            if self.asked is not None:
                raise StopAsked
            yield
        finally:
            self._breakable = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        first, self.asked = self.asked is None, signal.Signals(number)
        if number == signal.SIGINT and not first:
            raise KeyboardInterrupt
        if first:
            os.write(2, _HEARD)  # not print: the signal may have come in the middle of one
        if first and self._breakable:
            raise StopAsked
