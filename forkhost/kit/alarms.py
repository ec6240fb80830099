"""Things to do later unless they are called off before: one thread for all of them, because most are called off.

Starting a thread costs a busy process milliseconds, and nearly every fork is done long before its lease has to be
renewed or its call is overdue.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from collections.abc import Callable

import structlog

THREAD = "alarms"

log = structlog.get_logger(__name__)


class Alarm:
    """One thing to do later. Made by :func:`ring`."""

    def __init__(self, at: float, act: Callable[[], None], clockwork: _Clockwork) -> None:
        self.at = at
        self._act: Callable[[], None] | None = act
        self._clockwork = clockwork

    def call_off(self) -> bool:
        """Do nothing later. False: it was done already; it is never under way when this returns."""
        with self._clockwork.lock:
            called_off = self._act is not None
            self._act = None
            return called_off

    def go_off(self) -> None:
        """Do it, unless it was called off. The lock is held."""
        act, self._act = self._act, None
        try:
            if act is not None:
                act()
        # The thread serves everybody.
        except Exception:
            log.exception("alarm_failed")


class _Clockwork:
    """The thread, and what it waits for."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._moved = threading.Condition(self.lock)
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def add(self, seconds: float, act: Callable[[], None]) -> Alarm:
        alarm = Alarm(time.monotonic() + seconds, act, self)
        with self.lock:
            heapq.heappush(self._alarms, (alarm.at, next(self._numbers), alarm))
            if self._alarms[0][2] is alarm:
                self._moved.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
                self._thread.start()
        return alarm

    def _run(self) -> None:
        with self.lock:
            while True:
                wait = self._alarms[0][0] - time.monotonic() if self._alarms else None
                if wait is None or wait > 0:
                    self._moved.wait(wait)
                else:
                    heapq.heappop(self._alarms)[2].go_off()


_clockwork = _Clockwork()


def ring(after_seconds: float, act: Callable[[], None]) -> Alarm:
    """Have ``act`` called ``after_seconds`` from now, unless the alarm is called off.

    All alarms of the process share one thread, so ``act`` has to be short, and what it raises is only logged: what takes time or needs
    the database is started as a thread of its own.
    """
    return _clockwork.add(after_seconds, act)


def _begin_anew() -> None:
    global _clockwork
    _clockwork = _Clockwork()


# A forked process has no threads of its parent's, and none of its work.
os.register_at_fork(after_in_child=_begin_anew)
