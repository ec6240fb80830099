"""Committed means on disk. A dispatching mark that a crash takes back would let a fork be sent a second time.

SQLite is opened with ``synchronous=FULL``. A PostgreSQL whose ``synchronous_commit`` is off says "committed" before it
is; every other value, stricter ones too, is left as it is.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_ON_UNLESS_STRICTER = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


def install() -> None:
    """Have every new connection wait for its commits."""
    connection_created.connect(_wait_for_commits, dispatch_uid="forkhost.durability")


def _wait_for_commits(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_ON_UNLESS_STRICTER)
