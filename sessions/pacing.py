"""How much an import writes at once, so that it is fast alone and nobody waits for it beside others.

SQLite has one writer at a time: as long as a batch is being committed, nobody else can write. Whether anybody else does
is seen from ``PRAGMA data_version``, which other connections' commits move and our own do not. PostgreSQL has no such
lock, so batches may always be large there.
"""

from __future__ import annotations

import time

from django.db import connection

PAUSE_SECONDS = 0.002
# How long others count as busy after a commit of theirs.
BESIDE_OTHERS_SECONDS = 2.0

EVENTS_ALONE = 1000
EVENTS_BESIDE_OTHERS = 200
CHARACTERS_ALONE = 1_000_000
CHARACTERS_BESIDE_OTHERS = 400_000


class Pace:
    """The size of the next batch: at most ``events`` entries or about ``characters`` of text, whichever comes first."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._others_until = 0.0
        # Nobody has been looked for yet.
        self._alone = connection.vendor != "sqlite"

    @property
    def events(self) -> int:
        """Entries of one batch."""
        return EVENTS_ALONE if self._alone else EVENTS_BESIDE_OTHERS

    @property
    def characters(self) -> int:
        """Characters of one batch."""
        return CHARACTERS_ALONE if self._alone else CHARACTERS_BESIDE_OTHERS

    def rest(self) -> None:
        """After each batch: leave others a moment, and look whether there are any."""
        time.sleep(PAUSE_SECONDS)
        if connection.vendor == "sqlite":
            self._look()

    def _look(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            (version,) = cursor.fetchone()
        now = time.monotonic()
        if self._version is not None and version != self._version:
            self._others_until = now + BESIDE_OTHERS_SECONDS
        self._version = version
        self._alone = now >= self._others_until
