"""The backend: ``ENGINE = "forkhost.kit.sqlite"``. Everything is Django's but how a transaction waits for its turn.

SQLite's own wait grows to a tenth of a second between two looks. The lock is free for a moment between two short
transactions, so whoever came late finds it taken again and again: with four writers the unluckiest waits a second. Here
the threads of a process stand in line, and the first of them looks every half millisecond at first and never more
seldom than every few, so every process has the same chance.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections import defaultdict

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

_SHORTEST, _LONGEST = 0.0005, 0.004
# Who has waited long looks a little more seldom, so that a crowd of waiting processes leaves time for the one at work.
_PAUSE_PER_SECOND_WAITED = 0.02
# The lower byte of SQLite's extended error codes.
_PRIMARY_CODE = 0xFF

# By database file; held from before BEGIN to the end of the transaction.
_lines: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
# A forked process has none of the threads that stood in line.
os.register_at_fork(after_in_child=_lines.clear)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to an SQLite file. Statements outside of a transaction wait as SQLite does."""

    _turn: threading.Lock | None = None

    def _start_transaction_under_autocommit(self) -> None:
        """BEGIN, waiting at most ``OPTIONS["timeout"]`` seconds. Raises OperationalError (database is locked)."""
        seconds = self.settings_dict["OPTIONS"].get("timeout", 5.0)
        started = time.monotonic()
        line = _lines[str(self.settings_dict["NAME"])]
        if not line.acquire(timeout=seconds):
            raise OperationalError("database is locked by another thread of this process")
        self._turn = line
        try:
            with self.wrap_database_errors:
                self._begin(started, seconds)
        except BaseException:
            self._end_turn()
            raise

    def _begin(self, started: float, seconds: float) -> None:
        # The driver's connection, because a look that fails must cost next to nothing.
        begin = f"BEGIN {self.settings_dict['OPTIONS'].get('transaction_mode', '')}"
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
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
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    # Whatever goes wrong, the turn is given back: it is for fairness alone, and SQLite's lock keeps others out still.

    def _commit(self) -> None:
        try:
            super()._commit()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._end_turn()
