"""Whether a session can be forked at a point now, in the order in which reasons are told."""

from __future__ import annotations

from django.core.exceptions import ObjectDoesNotExist

from operations.points import ForkPoint, PointRefused, ResolvedPoint
from operations.requests import Refused
from sessions import capabilities
from sessions.capabilities import SENTENCES, Capability, Reason
from sessions.choices import SyncState, TurnPhase
from sessions.history import latest_turn
from sessions.models import Session, SessionSync

RETRY_AFTER_SECONDS = 2
# States in which more of the transcript is still going to be read.
_READING = (SyncState.LISTED, SyncState.IMPORTING, SyncState.IMPORTED)


def check_session(source: Session, asked: ForkPoint) -> Capability:
    """What the session can do, when it can be forked at all. Raises :class:`Refused` with the adapter's own reason."""
    capability = capabilities.session_capability(source)
    if not capability.fork:
        raise _refused(capability.reason, capability.sentence)
    if asked.follows_tail and _tail_is_behind(source):
        raise _refused(Reason.NOT_IMPORTED, SENTENCES[Reason.NOT_IMPORTED])
    return capability


def check_point(
    source: Session, capability: Capability, asked: ForkPoint, point: ResolvedPoint | PointRefused
) -> ResolvedPoint:
    """The point, when the session can be cut there. Raises :class:`Refused` with the adapter's own reason."""
    if isinstance(point, PointRefused):
        missing = point.code == "turn_not_found"
        field = "/point/turnId" if asked.turn_id else "/point/seq" if asked.seq is not None else "/point"
        raise Refused(point.code, 404 if missing else 409, point.sentence, field=field)
    if point.turn is not None:
        able = capabilities.turn_capability(source, point.turn, capability)
        if not able.forkable:
            raise _refused(able.reason, able.sentence)
    return point


def _refused(reason: str, sentence: str) -> Refused:
    waiting = reason == Reason.NOT_IMPORTED
    return Refused(reason, 409, sentence, retry_after=RETRY_AFTER_SECONDS if waiting else None)


def _tail_is_behind(source: Session) -> bool:
    """Whether a settled turn may lie in the part of the transcript that is not read yet.

    While a turn is open here, what is unread belongs to that turn: the last settled one is known.
    """
    try:
        sync: SessionSync = source.sync
    except ObjectDoesNotExist:
        return False
    if sync.state not in _READING or sync.stamp_seen == sync.stamp_imported:
        return False
    turn = latest_turn(source)
    return turn is None or turn.phase == TurnPhase.SETTLED
