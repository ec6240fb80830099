"""Running things at the same time, for certain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def together(calls: Sequence[Callable[[], T]], *, timeout: float = 30) -> list[T]:
    """Start every call at the same moment, each in a thread with database connections of its own.

    The results, in order; the first exception of a call is raised. Needs a transactional test.
    """
    barrier = threading.Barrier(len(calls), timeout=timeout)

    def run(call: Callable[[], T]) -> T:
        try:
            barrier.wait()
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        futures = [pool.submit(run, call) for call in calls]
        return [future.result(timeout=timeout) for future in futures]
