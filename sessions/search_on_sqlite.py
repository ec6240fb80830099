"""Asking FTS5: the newest places of a word are read without looking at the others, so a common one costs as a rare one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sessions.places import LAST_SEQ, SEQ_BITS, TITLE, Place, place_of
from sessions.search_matches import LogMatch, Matches, matches_of, rows
from sessions.search_schema import INDEX
from sessions.words import PREFIX_LENGTH

# Places that are read in one look; where they are all in a few logs, another look begins below these.
PLACES_A_LOOK = 10_000
LOOKS = 4
# With so many logs, the newest places are answer enough.
ENOUGH_LOGS = 30
_BEYOND = (1 << 63) - 1
_SEQ = f"(place & {LAST_SEQ})"
_BY_LOG = (
    f"SELECT place >> {SEQ_BITS}, count(*) FILTER (WHERE {_SEQ} = 0), "  # noqa: S608
    f"min({_SEQ}) FILTER (WHERE {_SEQ} > 0), count(*) "
    f"FROM (SELECT rowid AS place FROM {INDEX} WHERE {INDEX} MATCH %s AND rowid < %s ORDER BY rowid DESC LIMIT %s) "
    "GROUP BY 1 ORDER BY 1 DESC"
)


def logs_holding(words: Sequence[str], any_of: Collection[str], most: int) -> Matches:
    """As :func:`sessions.search_index.logs_holding`."""
    query = _query(words, any_of)
    logs: list[LogMatch] = []
    below = _BEYOND
    for _ in range(LOOKS):
        found = rows(_BY_LOG, query, below, PLACES_A_LOOK)
        logs += matches_of(found)
        if sum(row[3] for row in found) < PLACES_A_LOOK:
            return Matches(logs[:most], len(logs) <= most)
        # The last log may have been cut; what is left out of the oldest is no loss where there are others.
        if len(logs) > ENOUGH_LOGS:
            return Matches(logs[:-1][:most], False)
        # One log cannot use up the room: the next look goes on below it.
        logs[-1] = _whole(query, logs[-1].log_id)
        below = Place(logs[-1].log_id, TITLE).number
    return Matches(logs[:most], False)


def _query(words: Sequence[str], any_of: Collection[str]) -> str:
    parts = [f'"{word}"{"*" if len(word) >= PREFIX_LENGTH else ""}' for word in words]
    if any_of:
        parts.append("(" + " OR ".join(f'"{word}"' for word in sorted(any_of)) + ")")
    return " AND ".join(parts)


def _whole(query: str, log_id: int) -> LogMatch:
    """A log of which only the last places were seen: a fork shows a prefix of it, so the first decides."""
    statement = f"SELECT rowid FROM {INDEX} WHERE {INDEX} MATCH %s AND rowid BETWEEN %s AND %s ORDER BY rowid LIMIT 2"  # noqa: S608
    found = rows(statement, query, Place(log_id, TITLE).number, Place(log_id, LAST_SEQ).number)
    seqs = [place_of(number).seq for (number,) in found]
    return LogMatch(log_id, TITLE in seqs, next((seq for seq in seqs if seq != TITLE), None))
