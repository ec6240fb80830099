"""What asking the search index gives: logs, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class LogMatch:
    """A log that holds the words in the title of the session that writes to it, or in an event, first in this one."""

    log_id: int
    titled: bool
    first_seq: int | None


@dataclass(frozen=True, slots=True)
class Matches:
    """Logs that hold the words, newest first; ``complete`` says that there are no others."""

    logs: list[LogMatch]
    complete: bool


def matches_of(found: Sequence[Sequence[Any]]) -> list[LogMatch]:
    """Rows of log id, number of titles and first seq (and whatever follows) as matches."""
    return [LogMatch(log_id, bool(titles), first_seq) for log_id, titles, first_seq, *_ in found]


def rows(statement: str, *values: str | int | list[str] | None) -> list[Any]:
    """What the database answers."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[Any] = cursor.fetchall()
    return found
