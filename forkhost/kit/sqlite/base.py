"""The backend: ``ENGINE = "forkhost.kit.sqlite"``. Everything is Django's but how a transaction waits for its turn.

SQLite's own wait grows to a tenth of a second between two looks. The lock is free for a moment between two short
transactions, so whoever came late finds it taken again and again: with four writers the unluckiest waits a second. Here
everyone looks about every half millisecond, so everyone has the same chance.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Iterator

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

_SHORTEST, _LONGEST = 0.0002, 0.0008
# The lower byte of SQLite's extended error codes.
_PRIMARY_CODE = 0xFF


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to an SQLite file. Statements outside of a transaction wait as SQLite does."""

    def _start_transaction_under_autocommit(self) -> None:
        """BEGIN, waiting at most ``OPTIONS["timeout"]`` seconds. Raises OperationalError (database is locked)."""
        seconds = self.settings_dict["OPTIONS"].get("timeout", 5.0)
        deadline = time.monotonic() + seconds
        with self._own_wait_off(seconds):
            while True:
                try:
                    super()._start_transaction_under_autocommit()  # type: ignore[misc]
                except OperationalError as error:
                    if not _is_busy(error) or time.monotonic() >= deadline:
                        raise
                else:
                    return
                time.sleep(random.uniform(_SHORTEST, _LONGEST))  # noqa: S311

    @contextlib.contextmanager
    def _own_wait_off(self, seconds: float) -> Iterator[None]:
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def _is_busy(error: OperationalError) -> bool:
    code = getattr(error.__cause__, "sqlite_errorcode", 0)
    return code & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
