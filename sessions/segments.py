"""Which parts of which logs a session shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Q

from sessions.models import Segment, Session


@dataclass(frozen=True, slots=True)
class Part:
    """A prefix of a log. Turn ordinals are inclusive; ``first_turn > last_turn``: no turn starts in it."""

    position: int
    log_id: int
    first_seq: int
    last_seq: int
    first_turn: int
    last_turn: int
    tail: bool = False


def parts_of(session: Session) -> list[Part]:
    """The parts of ``session`` in order, its open tail ending at ``session.last_seq``; one query."""
    parts: list[Part] = []
    turns = 0
    for row in Segment.objects.filter(session_id=session.pk).order_by("position"):
        tail = row.last_seq is None
        last_turn = session.turn_count if tail else (row.last_turn or turns)
        parts.append(
            Part(
                row.position,
                row.log_id,
                row.first_seq,
                session.last_seq if row.last_seq is None else row.last_seq,
                turns + 1,
                last_turn,
                tail,
            )
        )
        turns = last_turn
    return parts


def cut(parts: Iterable[Part], through_seq: int, turn_count: int) -> list[Part]:
    """The parts through ``through_seq``, where ``turn_count`` turns have begun; none of them is a tail."""
    return [
        replace(
            part,
            last_seq=min(part.last_seq, through_seq),
            last_turn=min(part.last_turn, turn_count),
            tail=False,
        )
        for part in parts
        if part.first_seq <= through_seq
    ]


def part_at(parts: Iterable[Part], seq: int) -> Part | None:
    """The part that holds ``seq``."""
    return next((part for part in parts if part.first_seq <= seq <= part.last_seq), None)


def seqs_between(parts: Iterable[Part], first: int, last: int) -> Q | None:
    """The condition on events with ``first <= seq <= last`` in these parts; None: there are none."""
    return _any_of("seq__range", ((part.log_id, part.first_seq, part.last_seq) for part in parts), first, last)


def turns_between(parts: Iterable[Part], first: int, last: int) -> Q | None:
    """The condition on turns with ``first <= ordinal <= last`` in these parts; None: there are none."""
    return _any_of("ordinal__range", ((part.log_id, part.first_turn, part.last_turn) for part in parts), first, last)


def _any_of(lookup: str, spans: Iterable[tuple[int, int, int]], first: int, last: int) -> Q | None:
    """Rows of a span's log that ``lookup`` finds in the span, as far as it lies between ``first`` and ``last``."""
    condition: Q | None = None
    for log_id, begin, end in spans:
        low, high = max(first, begin), min(last, end)
        if low <= high:
            piece = Q(("log_id", log_id), (lookup, (low, high)))
            condition = piece if condition is None else condition | piece
    return condition
