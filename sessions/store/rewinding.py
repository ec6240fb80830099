"""Taking back the end of a history that was changed outside, without touching what others show of it."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import F

from sessions.choices import Activity, EventKind
from sessions.errors import InvalidForkBoundary
from sessions.models import Event, EventLog, Segment, Session, Turn
from sessions.segments import Part, cut, part_at, parts_of
from sessions.store import guards
from sessions.store.purging import sweep


@transaction.atomic
def rewind(session_id: uuid.UUID, through_seq: int) -> Session:
    """Make ``through_seq`` (0: nothing) the session's last event and go on in a new log after it.

    A seq inside a turn is pulled back to just before that turn. The old log keeps its events for whoever shows them
    (those of a purged source that nobody shows any more go);
    ``history_revision`` rises, so cursors and stale objects notice. Nothing happens when the session ends there
    outside a turn already. Returns the session as it is afterwards.

    Raises the refusals of a history write and :class:`InvalidForkBoundary`.
    """
    session = guards.writable(session_id)
    if not 0 <= through_seq <= session.last_seq:
        raise InvalidForkBoundary(f"The session has no event {through_seq}; its last one is {session.last_seq}.")
    shown = parts_of(session)
    last_seq, turn_count, digest = _place(shown, through_seq)
    if last_seq == session.last_seq:
        return session
    log = EventLog.objects.create(first_seq=last_seq + 1, seed_digest=digest, made_by=session.pk)
    guards.advance(
        session,
        log=log,
        last_seq=last_seq,
        turn_count=turn_count,
        seed_length=min(session.seed_length, last_seq),
        history_revision=F("history_revision") + 1,
        activity=Activity.IDLE,
    )
    _close(session, cut(shown, last_seq, turn_count))
    _drop_orphans(session, [part.log_id for part in shown if part.last_seq > last_seq])
    rewound: Session = Session.objects.select_related("log").get(pk=session.pk)
    return rewound


def _place(parts: list[Part], through_seq: int) -> tuple[int, int, bytes]:
    """Last seq, number of turns and running digest at the last place outside a turn through ``through_seq``."""
    part = part_at(parts, through_seq)
    if part is None:
        return 0, 0, b""
    event = Event.objects.get(log_id=part.log_id, seq=through_seq)
    if event.turn_no is not None and event.kind != EventKind.TURN_END:
        turn = Turn.objects.get(log_id=part.log_id, ordinal=event.turn_no)
        return _place(parts, turn.first_seq - 1)
    if event.turn_no is not None:
        return through_seq, event.turn_no, bytes(event.digest)
    before = Turn.objects.filter(log_id=part.log_id, first_seq__lte=through_seq).order_by("-first_seq").first()
    return through_seq, before.ordinal if before else part.first_turn - 1, bytes(event.digest)


def _close(session: Session, kept: list[Part]) -> None:
    """Close the segment that holds the new end, and drop those after it."""
    Segment.objects.filter(session_id=session.pk, position__gte=len(kept)).delete()
    if kept:
        last = kept[-1]
        turns = last.last_turn >= last.first_turn
        Segment.objects.filter(session_id=session.pk, position=last.position).update(
            last_seq=last.last_seq,
            first_turn=last.first_turn if turns else None,
            last_turn=last.last_turn if turns else None,
        )


def _drop_orphans(session: Session, log_ids: list[int]) -> None:
    """What was inherited from a session that is purged by now, and is shown by nobody any more, goes after it."""
    inherited = EventLog.objects.filter(pk__in=log_ids).exclude(made_by=session.pk)
    orphans = dict(inherited.values_list("pk", "made_by"))
    living = set(Session.objects.filter(pk__in=orphans.values()).values_list("pk", flat=True))
    gone = [log_id for log_id, made_by in orphans.items() if made_by not in living]
    if gone:
        sweep(gone)
