"""The backend: ``ENGINE = "forkhost.kit.sqlite"``. Everything is Django's but how a transaction waits for its turn.

SQLite's own wait grows to a tenth of a second between two looks. The lock is free for a moment between two short
transactions, so whoever came late finds it taken again and again: with four writers the unluckiest waits a second. Here
everyone looks every half millisecond at first and never more seldom than every few, so everyone has the same chance.
"""

from __future__ import annotations

import random
import sqlite3
import time

from django.db.backends.sqlite3 import base

_SHORTEST, _LONGEST = 0.0005, 0.004
# Who has waited long looks a little more seldom, so that a crowd of waiting threads leaves time for the one at work.
_PAUSE_PER_SECOND_WAITED = 0.02
# The lower byte of SQLite's extended error codes.
_PRIMARY_CODE = 0xFF


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to an SQLite file. Statements outside of a transaction wait as SQLite does."""

    def _start_transaction_under_autocommit(self) -> None:
        """BEGIN, waiting at most ``OPTIONS["timeout"]`` seconds. Raises OperationalError (database is locked)."""
        seconds = self.settings_dict["OPTIONS"].get("timeout", 5.0)
        with self.wrap_database_errors:
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._begin(seconds)
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _begin(self, seconds: float) -> None:
        # The driver's connection, because a look that fails must cost next to nothing.
        begin = f"BEGIN {self.transaction_mode or ''}"
        started = time.monotonic()
        while True:
            try:
                self.connection.execute(begin)
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - started
                if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or waited >= seconds:
                    raise
            else:
                return
            pause = min(_SHORTEST + waited * _PAUSE_PER_SECOND_WAITED, _LONGEST)
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
