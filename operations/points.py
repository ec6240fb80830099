"""Fork points: how a caller says where to cut, and what that means in one session's history."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forkhost.kit import ids
from operations.choices import PointType
from sessions import capabilities, history
from sessions.history import TurnView
from sessions.models import Session

_FIELDS: dict[PointType, frozenset[str]] = {
    PointType.THROUGH_TURN: frozenset({"type", "turnId"}),
    PointType.AT_SEQ: frozenset({"type", "seq"}),
    PointType.THROUGH_SEQ: frozenset({"type", "seq"}),
    PointType.LATEST_SETTLED: frozenset({"type"}),
}
# What both databases can hold; no history gets there.
_LARGEST_SEQ = 2**63 - 1


class InvalidPoint(Exception):
    """The point is malformed. ``field`` is an RFC 6901 pointer below the point (``/turnId``; "" is the point itself)."""

    def __init__(self, field: str, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.code = code
        self.sentence = sentence


class PointRefused(Exception):
    """The point is well formed, and this session cannot be cut there now. ``code`` is stable."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class BoundaryRefused(PointRefused):
    """An exact boundary that is none, as the session store refuses it: after a target id that is taken."""


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where to cut. ``turn_id`` belongs to ``throughTurn``; ``seq`` to ``throughSeq`` and, where given, ``atSeq``."""

    type: PointType
    turn_id: uuid.UUID | None = None
    seq: int | None = None

    @property
    def follows_tail(self) -> bool:
        """Whether the answer changes while the history grows."""
        return self.type == PointType.LATEST_SETTLED or (self.type == PointType.AT_SEQ and self.seq is None)

    def as_json(self) -> dict[str, Any]:
        """The point as the caller wrote it, ids in lower case."""
        if self.turn_id is not None:
            return {"type": self.type.value, "turnId": str(self.turn_id)}
        if self.seq is not None:
            return {"type": self.type.value, "seq": self.seq}
        return {"type": self.type.value}


@dataclass(frozen=True, slots=True)
class ResolvedPoint:
    """What a point means in one history: everything through ``seq``; ``turn`` is None for a hosted sequence point."""

    turn: TurnView | None
    seq: int


def parse_point(value: Any) -> ForkPoint:
    """The point of a request's JSON. Raises :class:`InvalidPoint` for anything but one of the four shapes."""
    if not isinstance(value, Mapping):
        raise InvalidPoint("", "invalid", "The point has to be an object with a type.")
    kind = _type(value)
    for name in value:
        if name not in _FIELDS[kind]:
            raise InvalidPoint(f"/{name}", "unknown_field", f"A point of type {kind.value} has no field {name!r}.")
    if kind == PointType.THROUGH_TURN:
        return ForkPoint(kind, turn_id=_turn_id(value))
    if kind == PointType.LATEST_SETTLED:
        return ForkPoint(kind)
    if "seq" not in value and kind == PointType.THROUGH_SEQ:
        raise InvalidPoint("/seq", "required", "A point of type throughSeq needs a seq.")
    return ForkPoint(kind, seq=_seq(value["seq"]) if "seq" in value else None)


def resolve(session: Session, point: ForkPoint) -> ResolvedPoint:
    """What ``point`` means in the session's history now. Raises :class:`PointRefused`."""
    if point.type == PointType.THROUGH_TURN:
        return _through_turn(session, point)
    if point.type == PointType.AT_SEQ and point.seq is not None and point.seq <= session.last_seq:
        return _at_seq(session, point.seq)
    if point.type == PointType.THROUGH_SEQ:
        return _through_seq(session, point)
    turn = history.latest_settled_turn(session)
    if turn is None:
        raise PointRefused("no_settled_turn", "Nothing in this session is settled yet, so there is nothing to fork.")
    return _after(turn)


def _type(value: Mapping[str, Any]) -> PointType:
    if "type" not in value:
        raise InvalidPoint("/type", "required", "The point needs a type.")
    kind = value["type"]
    if not isinstance(kind, str) or kind not in PointType.values:
        raise InvalidPoint("/type", "unknown_type", f"The point's type has to be one of {', '.join(PointType.values)}.")
    return PointType(kind)


def _turn_id(value: Mapping[str, Any]) -> uuid.UUID:
    if "turnId" not in value:
        raise InvalidPoint("/turnId", "required", "A point of type throughTurn needs a turnId.")
    given = value["turnId"]
    if isinstance(given, str):
        try:
            return ids.parse_id(given)
        except ValueError:
            pass
    raise InvalidPoint("/turnId", "invalid", "The turnId has to be the id of a turn.")


def _seq(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _LARGEST_SEQ:
        raise InvalidPoint("/seq", "invalid", "The seq has to be a whole number from 1 on.")
    return given


def _through_turn(session: Session, point: ForkPoint) -> ResolvedPoint:
    turn = history.turn_by_id(session, point.turn_id) if point.turn_id else None
    if turn is None:
        raise PointRefused("turn_not_found", "The turn does not belong to this session.")
    if turn.last_seq is None:
        raise PointRefused(
            capabilities.Reason.TURN_NOT_SETTLED, capabilities.SENTENCES[capabilities.Reason.TURN_NOT_SETTLED]
        )
    return _after(turn)


def _at_seq(session: Session, seq: int) -> ResolvedPoint:
    turn = history.turn_ending_at_or_after(session, seq)
    if turn is None:
        raise PointRefused("fork-unavailable", "The turn at this place is not settled, and no earlier one is taken.")
    return _after(turn)


def _through_seq(session: Session, point: ForkPoint) -> ResolvedPoint:
    seq = point.seq or 0
    if not capabilities.is_hosted(session):
        raise PointRefused("point_not_supported", "Only a hosted session can be forked at an exact sequence number.")
    if seq > session.last_seq:
        raise BoundaryRefused("invalid_fork_boundary", "The seq names no event of this session.")
    turn = history.turn_at(session, seq)
    if turn is not None and turn.last_seq != seq:
        raise BoundaryRefused(
            "fork_inside_turn", "The seq lies inside a turn; only the end of a turn can be a boundary."
        )
    return ResolvedPoint(turn, seq)


def _after(turn: TurnView) -> ResolvedPoint:
    if turn.last_seq is None:
        raise ValueError(f"turn {turn.ordinal} is not settled")
    return ResolvedPoint(turn, turn.last_seq)
