"""Wake-ups only save waiting: a lost one costs a worker the time until its next look, never work.

PostgreSQL: ``pg_notify`` inside the writer's transaction, delivered at its commit, and LISTEN on a plain connection of
its own (it does not pass a pooler in transaction mode). SQLite: any commit of another connection moves
``PRAGMA data_version``, read every few milliseconds; that takes no lock. Where others commit all the time, wake-ups come
a hundred times a second at most.
"""

from __future__ import annotations

import contextlib
import os
import select
import sqlite3
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg
import structlog
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import sql

log = structlog.get_logger(__name__)

SQLITE_TICK_SECONDS = 0.004
# Between two wake-ups: each costs whoever waits a look at its queue.
SQLITE_REST_SECONDS = 0.01


def notify(channel: str, payload: str = "", *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Wake the listeners of ``channel`` once the current transaction commits (at once outside of one).

    ``payload`` is a hint of at most 8,000 bytes. Nothing to do on SQLite, whose listeners see the commit itself.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [channel, payload])


class _Source(Protocol):
    """Where wake-ups come from. ``tick`` None: waiting on ``fileno`` is enough, otherwise look that often."""

    tick: float | None

    def fileno(self) -> int | None: ...

    def happened(self) -> bool: ...

    def close(self) -> None: ...


class _SQLiteSource:
    def __init__(self, path: str, tick: float) -> None:
        self.tick: float | None = tick
        self._rest = max(tick, SQLITE_REST_SECONDS)
        self._rests_until = 0.0
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._version = self._read()

    def _read(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def fileno(self) -> int | None:
        return None

    def happened(self) -> bool:
        if time.monotonic() < self._rests_until:
            return False
        version = self._read()
        moved = version != self._version
        self._version = version
        if moved:
            self._rests_until = time.monotonic() + self._rest
        return moved

    def close(self) -> None:
        self._connection.close()


class _PostgreSQLSource:
    tick: float | None = None

    def __init__(self, params: dict[str, Any], channel: str) -> None:
        self._connection = psycopg.connect(**params, autocommit=True)
        self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def fileno(self) -> int | None:
        return self._connection.fileno()

    def happened(self) -> bool:
        return len(list(self._connection.notifies(timeout=0))) > 0

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()


class Listener:
    """Waits for wake-ups of one channel, from one thread. Listens from construction on, so look for work after it.

    Raises the driver's error when the database cannot be reached at construction; later a lost connection is opened
    again, and counts as a wake-up because something may have been missed. ``sqlite_tick`` is in seconds.
    """

    def __init__(
        self, channel: str, *, using: str = DEFAULT_DB_ALIAS, sqlite_tick: float = SQLITE_TICK_SECONDS
    ) -> None:
        self._channel = channel
        self._sqlite_tick = sqlite_tick
        self._using = using
        self._source: _Source | None = self._open()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        # Reentrant, because a signal handler may interrupt a wake() of its own thread.
        self._pipe_lock = threading.RLock()
        self._closed = False

    def _open(self) -> _Source:
        connection = connections[self._using]
        if connection.vendor == "sqlite":
            return _SQLiteSource(str(connection.settings_dict["NAME"]), self._sqlite_tick)
        params = connection.get_connection_params()
        # Django's cursor class and adapters belong to its own connections.
        plain = {name: value for name, value in params.items() if name not in ("cursor_factory", "context")}
        return _PostgreSQLSource(plain, self._channel)

    def wake(self) -> None:
        """Make a running (or else the next) :meth:`wait` return; safe from another thread and a signal handler.

        Nothing happens once the listener is closed: its descriptors may belong to another file by then.
        """
        with self._pipe_lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._wake_write, b"\0")

    def wait(self, timeout: float) -> bool:
        """Wait for a wake-up, at most ``timeout`` seconds. True: woken (perhaps for nothing); False: time is up."""
        deadline = time.monotonic() + timeout
        for remaining in self._remaining(deadline):
            try:
                if self._source is None:
                    self._source = self._open()
                    return True
                if self._source.happened():
                    return True
                if self._sleep(self._source, remaining):
                    return True
            except (psycopg.Error, sqlite3.Error, OSError) as error:
                log.warning("listener_lost", channel=self._channel, error=str(error))
                self._drop_source()
                if self._sleep(None, min(1.0, remaining)):
                    return True
        return False

    @staticmethod
    def _remaining(deadline: float) -> Iterator[float]:
        yield max(0.0, deadline - time.monotonic())
        while (left := deadline - time.monotonic()) > 0:
            yield left

    def _sleep(self, source: _Source | None, seconds: float) -> bool:
        """Sleep until the source may have something or :meth:`wake` was called; True for the latter."""
        descriptors = [self._wake_read]
        if source is not None:
            if source.tick is not None:
                seconds = min(seconds, source.tick)
            if (descriptor := source.fileno()) is not None:
                descriptors.append(descriptor)
        ready, _, _ = select.select(descriptors, [], [], seconds)
        if self._wake_read not in ready:
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        return True

    def _drop_source(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None

    def close(self) -> None:
        """Stop listening; the listener cannot be used again. Closing it twice changes nothing."""
        self._drop_source()
        with self._pipe_lock:
            if not self._closed:
                self._closed = True
                os.close(self._wake_read)
                os.close(self._wake_write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
