"""Freezing a source at a boundary."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from forkhost.kit.rows import one
from sessions.choices import EventKind
from sessions.errors import ForkInsideTurn, InvalidForkBoundary, SessionGone, StaleSession
from sessions.models import Attachment, Event, Interaction, Session, Turn
from sessions.segments import Part, cut, part_at, parts_of
from sessions.store import bindings, guards
from sessions.store.snapshots import FrozenAttachment, FrozenInteraction, FrozenSegment, Snapshot


@guards.in_transaction
def freeze(
    source: uuid.UUID | Session, boundary: int | None = None, *, expected_revision: int | None = None
) -> Snapshot:
    """What a fork of ``source`` through ``boundary`` (inclusive seq; default: the last event) consists of.

    Locks the source's row until the transaction ends and writes nothing. The work does not depend on the length of
    the history. An empty source without a boundary gives an empty snapshot.

    Raises, checked in this order: SessionNotFound, :class:`StaleSession` (a ``Session`` object or an
    ``expected_revision`` from before a rewind), :class:`SessionGone`, :class:`InvalidForkBoundary` (not an existing
    seq), :class:`ForkInsideTurn`. Nothing is ever clipped.
    """
    session = lock_source(source, expected_revision)
    through = checked_boundary(session, boundary)
    return take(session, through)


def lock_source(source: uuid.UUID | Session, expected_revision: int | None = None) -> Session:
    """The locked source. Raises SessionNotFound, StaleSession, SessionGone."""
    if isinstance(source, Session):
        expected_revision = source.history_revision if expected_revision is None else expected_revision
    session = guards.lock(source.pk if isinstance(source, Session) else source)
    if expected_revision is not None and session.history_revision != expected_revision:
        raise StaleSession("The session was rewound since it was read.")
    if session.tombstoned_at is not None:
        raise SessionGone("The session is in the bin.")
    return session


def checked_boundary(session: Session, boundary: object) -> int:
    """``boundary`` as a seq of ``session``, the last one when None; 0 for an empty session."""
    if boundary is None:
        return session.last_seq
    if not isinstance(boundary, int) or isinstance(boundary, bool) or not 1 <= boundary <= session.last_seq:
        raise InvalidForkBoundary(f"The session has no event {boundary!r}; its last one is {session.last_seq}.")
    return boundary


def take(session: Session, boundary: int) -> Snapshot:
    """The snapshot of a locked source at an existing boundary. Raises :class:`ForkInsideTurn`."""
    shown = parts_of(session)
    turn_count, digest = _turns_through(shown, boundary)
    parts = cut(shown, boundary, turn_count)
    facts = _facts(session, parts, turn_count)
    return Snapshot(
        source_session_id=session.pk,
        history_revision=session.history_revision,
        boundary=boundary,
        digest=digest,
        turn_count=turn_count,
        segments=tuple(
            FrozenSegment(part.log_id, part.first_seq, part.last_seq, part.first_turn, part.last_turn) for part in parts
        ),
        interactions=_waiting(parts),
        attachments=_attachments(parts),
        session=facts,
        binding_map=_frozen_map(session, turn_count),
        bindings_kept=session.binding_kept,
        seed_turns=min(turn_count, bindings.seed_turns(session, shown)),
    )


def _turns_through(parts: Sequence[Part], boundary: int) -> tuple[int, str]:
    """How many turns begin through ``boundary``, and the digest there (hex)."""
    if boundary == 0:
        return 0, ""
    part = part_at(parts, boundary)
    rows = Event.objects.values_list("turn_no", "kind", "digest", named=True)
    event = one(rows.filter(log_id=part.log_id, seq=boundary)) if part else None
    if part is None or event is None:
        raise InvalidForkBoundary(f"The session has no event {boundary}.")
    if event.turn_no is None:
        turn = (
            Turn.objects.filter(log_id=part.log_id, first_seq__lte=boundary).order_by("-first_seq").values("ordinal")
        ).first()
        return (turn["ordinal"] if turn else part.first_turn - 1), bytes(event.digest).hex()
    if event.kind != EventKind.TURN_END:
        raise ForkInsideTurn(f"Event {boundary} lies inside turn {event.turn_no}.", event.turn_no)
    return event.turn_no, bytes(event.digest).hex()


def _facts(session: Session, parts: Sequence[Part], turn_count: int) -> dict[str, Any]:
    last = next((part for part in parts if part.first_turn <= turn_count <= part.last_turn), None)
    turns = Turn.objects.values_list("model", "effort")
    model, effort = (one(turns.filter(log_id=last.log_id, ordinal=turn_count)) if last else None) or ("", "")
    return {
        "workspace_id": str(session.workspace_id),
        "home_id": str(session.home_id) if session.home_id else None,
        "provider": session.provider,
        "provider_session_id": session.provider_session_id,
        "provider_version": session.provider_version,
        "family_id": str(session.family_id),
        "title": session.title,
        "preview": session.preview,
        "project": session.project,
        "cwd": session.cwd,
        "model": model or session.model,
        "effort": effort or session.effort,
        "settings": session.settings,
        "runtime_context": session.runtime_context,
        "visibility": session.visibility,
        "worktree_isolated": session.worktree_isolated,
    }


def _within(parts: Sequence[Part], field: str) -> Q:
    condition = Q(pk__in=[])
    for part in parts:
        condition |= Q(log_id=part.log_id, **{f"{field}__lte": part.last_seq})
    return condition


def _waiting(parts: Sequence[Part]) -> tuple[FrozenInteraction, ...]:
    condition = Q(pk__in=[])
    for part in parts:
        # Two ranges of the index (log, closed_seq).
        late = Q(closed_seq__isnull=True) | Q(closed_seq__gt=part.last_seq)
        condition |= Q(log_id=part.log_id, asked_seq__lte=part.last_seq) & late
    rows = Interaction.objects.filter(condition).order_by("asked_seq")
    return tuple(FrozenInteraction(str(row.pk), row.log_id, row.key, row.kind, row.asked_seq) for row in rows)


def _attachments(parts: Sequence[Part]) -> tuple[FrozenAttachment, ...]:
    rows = Attachment.objects.filter(_within(parts, "seq")).order_by("seq", "position")
    return tuple(FrozenAttachment(*row) for row in rows.values_list("log_id", "seq", "blob_id", "blob__size"))


def _frozen_map(session: Session, turn_count: int) -> dict[str, list[Any]] | None:
    if not session.seed_length:
        return None
    mapped = bindings.binding_map_of(session)
    return {key: list(value) for key, value in mapped.items() if int(key) <= turn_count} or None
