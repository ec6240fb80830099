"""How much an import writes at once, so that it is fast alone and nobody waits for it beside others.

SQLite has one writer at a time: as long as a batch is being written, nobody else can write. Whether anybody else does
is seen from ``PRAGMA data_version``, which other connections' commits move and our own do not. PostgreSQL has no such
lock, so batches may always be large there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from django.db import connection, transaction

PAUSE_SECONDS = 0.002
# Beside others, how many times as long as a batch kept them from writing they are left alone after it.
PAUSE_TIMES = 10.0
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
        self._version: int | None = None
        self._others_until = 0.0
        self._one_writer = connection.vendor == "sqlite"
        # Nobody has been looked for yet.
        self._alone = not self._one_writer
        self._held = 0.0
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

    def rest(self) -> None:
        """After each batch: leave others a moment, and look whether there are any."""
        if not self._alone and self._one_writer:
            _settle_log()
            time.sleep(min(max(PAUSE_SECONDS, PAUSE_TIMES * self._held), LONGEST_PAUSE_SECONDS))
        else:
            time.sleep(PAUSE_SECONDS)
        if self._one_writer:
            self._look()

    def _look(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            (version,) = cursor.fetchone()
        now = time.monotonic()
        ours, self._mark = background.happened_since(self._mark)
        if self._version is not None and version != self._version and not ours:
            self._others_until = now + BESIDE_OTHERS_SECONDS
        self._version = version
        self._alone = now >= self._others_until


def _settle_log() -> None:
    """Put the batch on disk, which keeps nobody from writing: or the next commit of somebody else would have to."""
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()
