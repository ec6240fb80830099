"""The database connection of work that would be done again: importing transcripts, filling the search index.

What is written and how far the work has come are one transaction, and what it was made from is still there: what a power
cut takes away is made again. So a batch need not be on disk before the next one begins, and on SQLite nobody has to wait
for that. What others commit meanwhile is durable as ever, with everything before it: both databases write one log, in
order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from django.db import connection

# Such work goes from beginning to end; pages it has left behind need not be held. Mapped pages count as its memory.
_SQLITE = {"synchronous": "1", "cache_size": "-4000", "mmap_size": "0"}
_POSTGRESQL = {"synchronous_commit": "off"}


@contextlib.contextmanager
def repeatable_writes() -> Iterator[None]:
    """Commits within the block become durable in order, but later; the first one after it makes all of them so.

    A connection that is opened anew within the block is an ordinary one. Nothing happens inside a transaction.
    """
    if connection.in_atomic_block:
        yield
        return
    wanted, change = (_SQLITE, _pragma) if connection.vendor == "sqlite" else (_POSTGRESQL, _setting)
    connection.ensure_connection()
    driver = connection.connection
    before: dict[str, str] = {}
    try:
        for name, value in wanted.items():
            before[name] = change(name, value)
        yield
    finally:
        if connection.connection is driver and not connection.in_atomic_block:
            for name, value in before.items():
                change(name, value)


def _pragma(name: str, value: str) -> str:
    with connection.cursor() as cursor:
        (before,) = cursor.execute(f"PRAGMA {name}").fetchone()
        cursor.execute(f"PRAGMA {name}={value}")
    return str(before)


def _setting(name: str, value: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s), set_config(%s, %s, false)", [name, name, value])
        before, _ = cursor.fetchone()
    return str(before)
