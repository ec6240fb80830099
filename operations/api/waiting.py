"""``Prefer: wait=N`` (RFC 7240): hold the answer until the fork is no longer on its way, at most ten seconds.

A waiter holds a thread and nothing else: no transaction, and no connection while it sleeps. Only so many may wait at a
time in one process; further ones are answered at once, which the preference allows.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from dataclasses import dataclass

from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

from operations.choices import OPEN_STATUSES
from operations.models import Operation

LONGEST_WAIT_SECONDS = 10
MOST_WAITERS = 8
FIRST_LOOK_SECONDS = 0.02
SLOWEST_LOOK_SECONDS = 0.25

_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?\s*(?=$|[,;])", re.IGNORECASE | re.ASCII)
_waiters = threading.BoundedSemaphore(MOST_WAITERS)


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait went. ``seconds`` is what was granted, None when nobody asked or too many wait already."""

    operation: Operation
    seconds: int | None

    def mark(self, response: Response) -> Response:
        """Say in the response that the preference was honoured."""
        response["Vary"] = "Prefer"
        if self.seconds is not None:
            response["Preference-Applied"] = f"wait={self.seconds}"
        return response


def preferred_wait(request: Request) -> int | None:
    """The seconds the caller prefers to wait, cut to ten; None without the preference. Others are ignored."""
    found = _WAIT.search(request.headers.get("Prefer", ""))
    return min(int(found.group(1)), LONGEST_WAIT_SECONDS) if found else None


def wait_until_settled(operation: Operation, seconds: int | None) -> Waited:
    """The operation as soon as it is not on its way any more, or as it is when the time is up."""
    if seconds is None or operation.status not in OPEN_STATUSES:
        return Waited(operation, seconds)
    if not _waiters.acquire(blocking=False):
        return Waited(operation, None)
    try:
        _sleep_while_open(operation.pk, seconds)
    finally:
        _waiters.release()
    operation.refresh_from_db()
    return Waited(operation, seconds)


def _sleep_while_open(operation_id: uuid.UUID, seconds: int) -> None:
    deadline = time.monotonic() + seconds
    pause = FIRST_LOOK_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        _let_go_of_connection()
        time.sleep(min(pause, left))
        pause = min(pause * 2, SLOWEST_LOOK_SECONDS)
        if not Operation.objects.open().filter(pk=operation_id).exists():
            return


def _let_go_of_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()
