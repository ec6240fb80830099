"""The time, in one place, so that a test can hold it.

Decisions about leases and due work use the database's clock (:func:`database_now`), because machines disagree; times
shown to people use this machine's (:func:`now`).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator

from django.db.models import DateTimeField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now


class HeldClock:
    """A clock that stands still until it is moved. Made by :func:`held`; seen by every thread of the process."""

    def __init__(self, at: dt.datetime) -> None:
        self._lock = threading.Lock()
        self._at = at

    @property
    def at(self) -> dt.datetime:
        """The time it shows."""
        with self._lock:
            return self._at

    def advance(self, seconds: float) -> None:
        """Move forward (or back, when negative)."""
        with self._lock:
            self._at += dt.timedelta(seconds=seconds)


_held: HeldClock | None = None


def now() -> dt.datetime:
    """The time, aware, UTC."""
    return _held.at if _held else dt.datetime.now(dt.UTC)


def now_ms() -> int:
    """The time in Unix milliseconds."""
    return to_ms(_held.at) if _held else time.time_ns() // 1_000_000


def to_ms(at: dt.datetime) -> int:
    """An aware time in Unix milliseconds, rounded down."""
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def from_ms(unix_ms: int) -> dt.datetime:
    """Unix milliseconds as an aware time, UTC. Raises OverflowError beyond year 9999."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=unix_ms)


def database_now(plus_seconds: float = 0) -> Combinable:
    """An expression for the database's time at the statement, moved by ``plus_seconds``; the held time in a test."""
    if _held:
        return Value(_held.at + dt.timedelta(seconds=plus_seconds), output_field=DateTimeField())
    if not plus_seconds:
        return Now()
    return ExpressionWrapper(Now() + dt.timedelta(seconds=plus_seconds), output_field=DateTimeField())


@contextlib.contextmanager
def held(at: dt.datetime | None = None) -> Iterator[HeldClock]:
    """Hold the clock at ``at`` (aware; default: now) for this whole process, the database's included."""
    global _held
    before = _held
    _held = HeldClock(at or now())
    try:
        yield _held
    finally:
        _held = before
