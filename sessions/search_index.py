"""Asking the index over the words of events and titles which logs hold them.

Nothing else knows which database it is. Words come normalised, and neither database breaks them up again, so both find
the same. A word that is nearly everywhere must not take longer than a rare one, and nobody needs all of its places:
SQLite reads the newest places without looking at the others; PostgreSQL is asked for common words among the newest
documents, and for all others at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from sessions.models import SearchDocument
from sessions.places import LAST_SEQ, SEQ_BITS, TITLE, Place, place_of
from sessions.search_schema import INDEX, LOGS_FUNCTION, TABLE
from sessions.words import PREFIX_LENGTH

# SQLite: places that are read in one look; where they are all in a few logs, another look begins below these.
PLACES_A_LOOK = 10_000
LOOKS = 4
# PostgreSQL: words that are probably in more places than that are looked for in the newest documents first.
COMMON_PLACES = 15_000
NEWEST_DOCUMENTS = 5_000
# With so many logs, the newest places are answer enough.
ENOUGH_LOGS = 30
_BEYOND = (1 << 63) - 1
_SEQ = f"(place & {LAST_SEQ})"
_BY_LOG = (
    f"SELECT place >> {SEQ_BITS}, count(*) FILTER (WHERE {_SEQ} = 0), "  # noqa: S608
    f"min({_SEQ}) FILTER (WHERE {_SEQ} > 0), count(*) "
    "FROM ({places}) AS found GROUP BY 1 ORDER BY 1 DESC"
)


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


def logs_holding(words: Sequence[str], any_of: Collection[str], most: int) -> Matches:
    """The newest logs, at most ``most``, with all of ``words`` and, if given, one of ``any_of`` in one event or title.

    A word of three or more letters may go on. All words have to be normalised: nothing else is safe here.
    """
    if not words:
        return Matches([], True)
    query = _query(words, any_of)
    return _on_postgresql(query, most) if connection.vendor == "postgresql" else _on_sqlite(query, most)


def _on_sqlite(query: str, most: int) -> Matches:
    logs: list[LogMatch] = []
    below = _BEYOND
    places = f"SELECT rowid AS place FROM {INDEX} WHERE {INDEX} MATCH %s AND rowid < %s ORDER BY rowid DESC LIMIT %s"  # noqa: S608
    for _ in range(LOOKS):
        rows = _rows(_BY_LOG.format(places=places), query, below, PLACES_A_LOOK)
        logs += _logs(rows)
        if sum(row[3] for row in rows) < PLACES_A_LOOK:
            return Matches(logs[:most], len(logs) <= most)
        # The last log may have been cut; what is left out of the oldest is no loss where there are others.
        if len(logs) > ENOUGH_LOGS:
            return Matches(logs[:-1][:most], False)
        # One log cannot use up the room: the next look goes on below it.
        logs[-1] = _whole(query, logs[-1].log_id)
        below = Place(logs[-1].log_id, TITLE).number
    return Matches(logs[:most], False)


def _on_postgresql(query: str, most: int) -> Matches:
    if _probable_places(query) >= COMMON_PLACES:
        newest = f"SELECT id AS place, vector FROM {TABLE} ORDER BY id DESC LIMIT %s"  # noqa: S608
        places = f"SELECT place FROM ({newest}) AS newest WHERE vector @@ %s::tsquery"  # noqa: S608
        logs = _logs(_rows(_BY_LOG.format(places=places), NEWEST_DOCUMENTS, query))
        if len(logs) > ENOUGH_LOGS:
            return Matches(logs[:-1][:most], False)
    logs = _logs(_rows(f"SELECT * FROM {LOGS_FUNCTION}(%s::tsquery, %s)", query, most + 1))  # noqa: S608
    return Matches(logs[:most], len(logs) <= most)


def _probable_places(query: str) -> int:
    """What the planner expects from its statistics; it looks at no document."""
    ((plan,),) = _rows(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {TABLE} WHERE vector @@ %s::tsquery", query)  # noqa: S608
    rows: int = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
    return rows


def _whole(query: str, log_id: int) -> LogMatch:
    """A log of which only the last places were seen: a fork shows a prefix of it, so the first decides."""
    statement = f"SELECT rowid FROM {INDEX} WHERE {INDEX} MATCH %s AND rowid BETWEEN %s AND %s ORDER BY rowid LIMIT 2"  # noqa: S608
    found = _rows(statement, query, Place(log_id, TITLE).number, Place(log_id, LAST_SEQ).number)
    seqs = [place_of(number).seq for (number,) in found]
    return LogMatch(log_id, TITLE in seqs, next((seq for seq in seqs if seq != TITLE), None))


def _logs(rows: Sequence[Sequence[Any]]) -> list[LogMatch]:
    return [LogMatch(log_id, bool(titles), first_seq) for log_id, titles, first_seq, *_ in rows]


def _rows(statement: str, *values: str | int) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[Any] = cursor.fetchall()
    return rows


def _query(words: Sequence[str], any_of: Collection[str]) -> str:
    """The databases' own languages, in which our words are always quoted and never anything but letters and digits."""
    postgresql = connection.vendor == "postgresql"
    quote, goes_on, both, either = ("'", ":*", " & ", " | ") if postgresql else ('"', "*", " AND ", " OR ")
    parts = [f"{quote}{word}{quote}{goes_on if len(word) >= PREFIX_LENGTH else ''}" for word in words]
    if any_of:
        parts.append(f"({either.join(f'{quote}{word}{quote}' for word in sorted(any_of))})")
    return both.join(parts)


def forget_events(log_id: int, after: int) -> None:
    """Remove the words of the log's events beyond ``after``; its title stays."""
    first, last = Place(log_id, max(after, TITLE)).number, Place(log_id, LAST_SEQ).number
    SearchDocument.objects.filter(pk__gt=first, pk__lte=last).delete()


def forget_titles(log_ids: Collection[int]) -> None:
    """Remove the titles of the sessions that wrote to these logs."""
    SearchDocument.objects.filter(pk__in=[Place(log_id, TITLE).number for log_id in log_ids]).delete()
