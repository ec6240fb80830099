"""Tokens and cost, as far as the agents record them: a session's own, what it inherited, and its family's.

A turn's usage is what its provider wrote, under the provider's numbers and our names. What forks share was used once, so a
family counts each turn once, however many sessions show it. Nothing here is estimated: a turn without a record adds nothing.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import Case, Max, Q, When
from django.db.models.functions import Coalesce

from sessions.models import Segment, Session, Turn
from sessions.segments import parts_of

Totals = dict[str, float]

# One log's turns from one ordinal to another, both inclusive.
_Range = tuple[int, int, int]

# Numbers nobody can have used are not added up; the last two also keep both databases from overflowing.
_LIMIT = 10**15
_MOST_NAMES = 50
_RANGES_A_QUERY = 200
# Turns that are added up once, and for how many such blocks the sums are kept in memory.
_TURNS_A_BLOCK = 250
_BLOCKS_KEPT = 4_096

_NAMES = {
    "totalTokens": "tokens",
    "inputTokens": "tokens in",
    "outputTokens": "tokens out",
    "cacheReadInputTokens": "read from the cache",
    "cachedInputTokens": "read from the cache",
    "cacheCreationInputTokens": "written to the cache",
    "reasoningOutputTokens": "for reasoning",
}
_COSTS = ("costUsd", "totalCostUsd")

_SQLITE = (
    "SELECT e.key, total(e.value) FROM agent_sessions_turn t, json_each(t.usage) e"
    " WHERE json_type(t.usage) = 'object' AND e.type IN ('integer', 'real') AND e.value BETWEEN 0 AND %s AND ({ranges})"
    " GROUP BY e.key ORDER BY e.key LIMIT %s"
)
_POSTGRESQL = (
    "SELECT e.key, sum(e.number)::float8 FROM agent_sessions_turn t, LATERAL ("
    # Kept apart, or each number would be read three times.
    "SELECT key, (value #>> '{{}}')::numeric AS number FROM jsonb_each("
    "CASE WHEN jsonb_typeof(t.usage) = 'object' THEN t.usage ELSE '{{}}'::jsonb END)"
    " WHERE jsonb_typeof(value) = 'number' OFFSET 0) e"
    " WHERE e.number BETWEEN 0 AND %s AND ({ranges}) GROUP BY e.key ORDER BY e.key LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """``own``: of the turns recorded in the session itself. ``inherited``: of those it shares with its source."""

    own: Totals
    inherited: Totals


def of_session(session: Session) -> SessionUsage:
    """What the turns of a session used, those it inherited apart."""
    own: list[_Range] = []
    inherited: list[_Range] = []
    for part in parts_of(session):
        if part.first_turn <= part.last_turn:
            # A seed ends outside of turns and at the end of a part.
            ranges = inherited if part.last_seq <= session.seed_length else own
            ranges.append((part.log_id, part.first_turn, part.last_turn))
    return SessionUsage(_totals(own), _totals(inherited))


def of_family(sessions: Sequence[Session]) -> Totals:
    """What all turns used that these sessions show, each turn once."""
    shown = (
        Segment.objects.filter(session_id__in=[session.pk for session in sessions])
        .values_list("log_id")
        .order_by("log_id")
        .annotate(through=Max(Case(When(last_seq=None, then="session__turn_count"), default=Coalesce("last_turn", 0))))
    )
    # Every session shows a prefix of a log, so the longest holds the others.
    return _totals([(log_id, 1, through) for log_id, through in shown])


def numbers(usage: Mapping[str, Any]) -> Totals:
    """The numbers of one turn's usage that can be added up."""
    return {
        name: _whole(value)
        for name, value in list(usage.items())[:_MOST_NAMES]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LIMIT
    }


def in_words(totals: Mapping[str, float]) -> list[str]:
    """The totals for people, tokens first, then cost; other names as they were recorded."""
    said = [f"{totals[name]:,} {words}" for name, words in _NAMES.items() if totals.get(name)]
    said += [f"${totals[name]:,.4f}".rstrip("0").rstrip(".") for name in _COSTS if totals.get(name)]
    known = {*_NAMES, *_COSTS}
    said += [f"{value:,} {name[:40]}" for name, value in sorted(totals.items()) if name not in known and value]
    return said


def _totals(ranges: Sequence[_Range]) -> Totals:
    """Of a long log, only what was not added up before is read: settled turns never change."""
    blocks = [block for each in ranges for block in _blocks(each)]
    rest = [
        (log_id, first + _TURNS_A_BLOCK * len(_blocks((log_id, first, last))), last) for log_id, first, last in ranges
    ]
    totals: Totals = {}
    ends = _turn_ids([(log_id, last) for log_id, _, last in blocks])
    for log_id, first, last in blocks:
        # A purge may have come between.
        if (log_id, last) in ends:
            _add(totals, _of_block(ends[log_id, last], log_id, first, last))
    for at in range(0, len(rest), _RANGES_A_QUERY):
        _add(totals, _summed(rest[at : at + _RANGES_A_QUERY]))
    return dict(sorted(totals.items())[:_MOST_NAMES])


def _blocks(turns: _Range) -> list[_Range]:
    """What of a log's first turns comes in whole blocks; the last turn, which may be open, is in none."""
    log_id, first, last = turns
    return [
        (log_id, start, start + _TURNS_A_BLOCK - 1) for start in range(first, last - _TURNS_A_BLOCK + 1, _TURNS_A_BLOCK)
    ]


def _turn_ids(turns: Sequence[tuple[int, int]]) -> dict[tuple[int, int], uuid.UUID]:
    found: dict[tuple[int, int], uuid.UUID] = {}
    for at in range(0, len(turns), _RANGES_A_QUERY):
        condition = reduce(or_, (Q(log_id=each, ordinal=ordinal) for each, ordinal in turns[at : at + _RANGES_A_QUERY]))
        rows = Turn.objects.filter(condition).values_list("log_id", "ordinal", "pk")
        found |= {(log_id, ordinal): turn_id for log_id, ordinal, turn_id in rows}
    return found


@functools.lru_cache(maxsize=_BLOCKS_KEPT)
def _of_block(last_turn: uuid.UUID, log_id: int, first: int, last: int) -> tuple[tuple[str, float], ...]:
    """The id of its last turn says which turns these are, whatever else becomes of the log."""
    return tuple(_summed([(log_id, first, last)]))


def _add(totals: Totals, more: Iterable[tuple[str, float]]) -> None:
    for name, value in more:
        totals[name] = _whole(totals.get(name, 0) + value)


def _summed(ranges: Sequence[_Range]) -> Iterable[tuple[str, float]]:
    condition = " OR ".join(["(t.log_id = %s AND t.ordinal BETWEEN %s AND %s)"] * len(ranges))
    statement = (_POSTGRESQL if connection.vendor == "postgresql" else _SQLITE).format(ranges=condition)
    with connection.cursor() as cursor:
        cursor.execute(statement, [_LIMIT, *(value for one in ranges for value in one), _MOST_NAMES])
        return list(cursor.fetchall())


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value
