"""Stopping cleanly when asked to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopFlag:
    """Turns SIGTERM and SIGINT into a flag that loops look at.

    As a context manager, in the main thread, it takes the signals over and gives them back. A second signal while the
    flag is up goes to whoever had the signal before, so that an impatient person can still end the process.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait for the request, at most ``timeout`` seconds; whether it came."""
        return self._event.wait(timeout)

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when a stop is requested (at once if it was); it must be safe in a signal handler."""
        self._callbacks.append(callback)
        if self.requested:
            callback()

    def request(self) -> None:
        """Ask for the stop; safe from any thread and more than once."""
        if self.requested:
            return
        self._event.set()
        for callback in self._callbacks:
            callback()

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            signal.signal(number, self._before.get(number, signal.SIG_DFL))
            signal.raise_signal(number)
            return
        self.request()
