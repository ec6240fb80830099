"""How much an import writes at once, so that it is fast alone and nobody waits for it beside others.

SQLite has one writer at a time: as long as a batch is being written, nobody else can write. Whether anybody else does
is seen from ``PRAGMA data_version``, which other connections' commits move and our own do not. PostgreSQL has no such
lock, but its server works for the import with a processor that others may want; who else writes is seen from the number
of the next transaction, which our own move as well, one each.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from django.db import connection, transaction

PAUSE_SECONDS = 0.002
# Beside others, how many times as long as a batch kept them from writing they are left alone after it.
PAUSE_TIMES = {"sqlite": 16.0, "postgresql": 8.0}
LONGEST_PAUSE_SECONDS = 0.1
# How long others count as busy after a commit of theirs.
BESIDE_OTHERS_SECONDS = 2.0

EVENTS_ALONE = 1000
EVENTS_BESIDE_OTHERS = 100
CHARACTERS_ALONE = 1_000_000
CHARACTERS_BESIDE_OTHERS = 200_000


class Background:
    """Writes of this process that nobody waits for: an import need not make way for them.

    A context manager around each of them. Whether somebody else wrote at the same time cannot be told.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended = 0

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._running -= 1
            self._ended += 1

    def happened_since(self, mark: int) -> tuple[bool, int]:
        """Whether any ran since ``mark`` was taken, and the next mark."""
        with self._lock:
            return bool(self._running) or self._ended != mark, self._ended


background = Background()


class Pace:
    """The size of the next batch: at most ``events`` entries or about ``characters`` of text, whichever comes first."""

    def __init__(self) -> None:
        self._expected: int | None = None
        self._others_until = 0.0
        # Nobody has been looked for yet.
        self._alone = False
        self._held = 0.0
        self._written = 0
        self._mark = 0

    @property
    def events(self) -> int:
        """Entries of one batch."""
        return EVENTS_ALONE if self._alone else EVENTS_BESIDE_OTHERS

    @property
    def characters(self) -> int:
        """Characters of one batch."""
        return CHARACTERS_ALONE if self._alone else CHARACTERS_BESIDE_OTHERS

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction; how long it lasted counts for the rest after it."""
        with transaction.atomic():
            began = time.monotonic()
            yield
            self._held = time.monotonic() - began
        self._written += 1

    def rest(self) -> None:
        """After each batch: leave others a moment, and look whether there are any."""
        if self._alone:
            time.sleep(PAUSE_SECONDS)
        else:
            _settle_log()
            times = PAUSE_TIMES[connection.vendor]
            time.sleep(min(max(PAUSE_SECONDS, times * self._held), LONGEST_PAUSE_SECONDS))
        self._look()

    def _look(self) -> None:
        found = _writes()
        now = time.monotonic()
        ours, self._mark = background.happened_since(self._mark)
        own = self._written if connection.vendor == "postgresql" else 0
        if self._expected is not None and found > self._expected + own and not ours:
            self._others_until = now + BESIDE_OTHERS_SECONDS
        self._expected, self._written = found, 0
        self._alone = now >= self._others_until


def _writes() -> int:
    """A number that grows whenever somebody else has written."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA data_version")
        else:
            cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(cursor.fetchone()[0])


def _settle_log() -> None:
    """Put the batch on disk, which keeps nobody from writing: or the next commit of somebody else would have to."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()
