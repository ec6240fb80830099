"""Asking GIN: a rare word is looked up whole, a common one among the newest documents, then range by range of logs.

The index hands out all places of a word in no order of ours, and each has to be read from the table. Therefore every
document also has a word for each window of logs it lies in, and such words narrow a search before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sessions.places import LAST_SEQ, SEQ_BITS, place_of
from sessions.search_matches import LogMatch, Matches, matches_of, rows
from sessions.search_schema import LOGS_FUNCTION, TABLE, VECTOR, WINDOWS, window_word
from sessions.words import PREFIX_LENGTH

# Words that are probably in more places than that are not looked up whole.
COMMON_PLACES = 15_000
# They are looked for in the text of the newest documents first, so many and so much, whatever the number of all others.
NEWEST_DOCUMENTS = 5_000
NEWEST_BYTES = 2_000_000
# A range of logs with more places than that is halved.
PLACES_A_RANGE = 5_000
# With so many logs, the newest ones are answer enough.
ENOUGH_LOGS = 30
_SMALLEST = 1 << WINDOWS[0]
_SEQ = f"(id & {LAST_SEQ})"


class _Range(NamedTuple):
    """The logs from ``first`` up to ``end``, which is not among them; both are multiples of the smallest window."""

    first: int
    end: int


def logs_holding(words: Sequence[str], any_of: Collection[str], most: int) -> Matches:
    """As :func:`sessions.search_index.logs_holding`."""
    query = _query(words, any_of)
    if _probable_places(query) < COMMON_PLACES:
        logs = matches_of(_ask(query, None, most + 1))
        return Matches(logs[:most], len(logs) <= most)
    newest = _among_the_newest(words, any_of)
    # The last log may have been cut.
    return Matches(newest[:-1][:most], False) if len(newest) > ENOUGH_LOGS else _by_ranges(query, most)


def _probable_places(query: str) -> int:
    """What the planner expects from its statistics; it looks at no document."""
    ((plan,),) = rows(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {TABLE} WHERE {VECTOR} @@ %s::tsquery", query)  # noqa: S608
    expected: int = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
    return expected


def _among_the_newest(words: Sequence[str], any_of: Collection[str]) -> list[LogMatch]:
    every = [f"% {word}%" if len(word) >= PREFIX_LENGTH else f"% {word} %" for word in words]
    some = [f"% {word} %" for word in any_of] or ["%"]
    some_of_all = f"SELECT id, words FROM {TABLE} ORDER BY id DESC LIMIT %s"  # noqa: S608
    # As they lie on the disk, so that a long one is not even read. OFFSET keeps the texts from being looked at before.
    sizes = f"SELECT *, sum(pg_column_size(words)) OVER (ORDER BY id DESC) AS bytes FROM ({some_of_all}) AS documents"  # noqa: S608
    newest = f"SELECT id, ' ' || words || ' ' AS text FROM ({sizes}) AS sized WHERE bytes <= %s OFFSET 0"  # noqa: S608
    found = rows(
        f"SELECT id >> {SEQ_BITS}, count(*) FILTER (WHERE {_SEQ} = 0), min({_SEQ}) FILTER (WHERE {_SEQ} > 0) "  # noqa: S608
        f"FROM ({newest}) AS newest WHERE text LIKE ALL(%s) AND text LIKE ANY(%s) GROUP BY 1 ORDER BY 1 DESC",
        NEWEST_DOCUMENTS,
        NEWEST_BYTES,
        every,
        some,
    )
    return matches_of(found)


def _by_ranges(query: str, most: int) -> Matches:
    """Each log that is found is found whole, and no log before a newer one."""
    logs: list[LogMatch] = []
    pending = _growing_ranges()
    while pending:
        if len(logs) > ENOUGH_LOGS:
            return Matches(logs[:most], False)
        part = pending.pop()
        found = _within(query, part)
        if found is None:
            pending += _halves(part)
        else:
            logs += found
    return Matches(logs[:most], len(logs) <= most)


def _growing_ranges() -> list[_Range]:
    """All logs, the oldest first; the ranges are the larger the older they are."""
    ((lowest, highest),) = rows(f"SELECT min(id), max(id) FROM {TABLE}")  # noqa: S608
    if highest is None:
        return []
    # Below the lowest there is nothing, so the largest windows may reach beyond it.
    first = place_of(lowest).log_id & -(1 << WINDOWS[-1])
    end = (place_of(highest).log_id & -_SMALLEST) + _SMALLEST
    ranges: list[_Range] = []
    for bits in WINDOWS:
        begin = max(first, (end - 1) & -(1 << bits))
        if begin < end:
            ranges.append(_Range(begin, end))
        end = begin
    return [*([_Range(first, end)] if first < end else []), *reversed(ranges)]


def _halves(part: _Range) -> tuple[_Range, _Range]:
    """The older and the newer half, cut where a window begins that is as large as possible."""
    half = (part.end - part.first) // 2
    bits = max(bits for bits in WINDOWS if 1 << bits <= half)
    middle = (part.first + half) & -(1 << bits)
    return _Range(part.first, middle), _Range(middle, part.end)


def _within(query: str, part: _Range) -> list[LogMatch] | None:
    """The logs of the range that match; None when there is too much to read, and the range can be halved."""
    most_places = PLACES_A_RANGE if part.end - part.first > _SMALLEST else None
    narrowed = " | ".join(f"'{word}'" for word in _window_words(part))
    found = _ask(f"({query}) & ({narrowed})", most_places, None)
    if most_places is not None and sum(row[3] for row in found) >= most_places:
        return None
    return matches_of(found)


def _window_words(part: _Range) -> Iterator[str]:
    """Those of the fewest windows that make up the range."""
    at = part.first
    while at < part.end:
        level = max(
            level for level, bits in enumerate(WINDOWS) if at % (1 << bits) == 0 and at + (1 << bits) <= part.end
        )
        yield window_word(level, at >> WINDOWS[level])
        at += 1 << WINDOWS[level]


def _ask(query: str, most_places: int | None, most_logs: int | None) -> list[Any]:
    return rows(f"SELECT * FROM {LOGS_FUNCTION}(%s::tsquery, %s, %s)", query, most_places, most_logs)  # noqa: S608


def _query(words: Sequence[str], any_of: Collection[str]) -> str:
    parts = [f"'{word}'{':*' if len(word) >= PREFIX_LENGTH else ''}" for word in words]
    if any_of:
        parts.append("(" + " | ".join(f"'{word}'" for word in sorted(any_of)) + ")")
    return " & ".join(parts)
