"""Committed means on disk. A dispatching mark that a crash takes back would let a fork be sent a second time.

SQLite is opened with ``synchronous=FULL``. A PostgreSQL whose ``synchronous_commit`` is off says "committed" before it
is; every other value, stricter ones too, is left as it is.

And nobody waits for the dead: a process that is stopped in the middle of a transaction would keep its rows locked for as
long as it stays stopped, past its lease. PostgreSQL ends such a transaction after ``FORKHOST_STALL_SECONDS``.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_ON_UNLESS_STRICTER = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_END_STALLED = "SELECT set_config('idle_in_transaction_session_timeout', %s, false)"


def install() -> None:
    """Have every new connection wait for its commits, and wait for no stalled one."""
    connection_created.connect(_prepare, dispatch_uid="forkhost.durability")


def _prepare(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_ON_UNLESS_STRICTER)
            if settings.FORKHOST_STALL_SECONDS:
                cursor.execute(_END_STALLED, [f"{settings.FORKHOST_STALL_SECONDS * 1000:.0f}ms"])
