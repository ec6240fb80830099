"""Two sessions side by side: how much they share, and what each did after they parted."""

from __future__ import annotations

from dataclasses import dataclass

from operations.pages.columns import Column, column
from sessions import history
from sessions.models import Session
from sessions.segments import Part, parts_of

TURNS_SHOWN = 12


@dataclass(slots=True)
class Comparison:
    """``shared_seq`` events and ``shared_turns`` turns are the same records in both; 0: nothing is shared."""

    a: Column
    b: Column
    shared_seq: int
    shared_turns: int

    @property
    def same(self) -> bool:
        """Whether neither went on after the other's end."""
        return not self.a.rows and not self.b.rows


def compare_sessions(a: Session, b: Session) -> Comparison:
    """Where ``a`` and ``b`` part, by the logs they share: no text is compared."""
    shared = _shared_seq(parts_of(a), parts_of(b))
    turns = _turns_through(a, shared)
    return Comparison(column(a, turns + 1, TURNS_SHOWN), column(b, turns + 1, TURNS_SHOWN), shared, turns)


def _shared_seq(a: list[Part], b: list[Part]) -> int:
    shared = 0
    for one, other in zip(a, b, strict=False):
        if one.log_id != other.log_id:
            break
        shared = min(one.last_seq, other.last_seq)
        if one.last_seq != other.last_seq:
            break
    return shared


def _turns_through(session: Session, seq: int) -> int:
    if seq < 1:
        return 0
    turn = history.turn_at(session, seq)
    if turn is not None:
        return turn.ordinal
    following = history.turn_ending_at_or_after(session, seq)
    return following.ordinal - 1 if following is not None else session.turn_count
