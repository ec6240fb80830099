"""Appending to a session's open tail."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from sessions import titles
from sessions.choices import Activity, InteractionState, TurnPhase
from sessions.errors import TurnConflict
from sessions.models import Attachment, Interaction, Segment, Session, Turn
from sessions.store import guards
from sessions.store.drafts import Draft
from sessions.store.entries import Appended, Entry
from sessions.store.rows import insert_events


@transaction.atomic
def append(
    session_id: uuid.UUID,
    entries: Sequence[Entry],
    *,
    expected_last_seq: int | None = None,
    expected_revision: int | None = None,
) -> Appended:
    """Append ``entries`` in order, all or none, and advance the session's activity, model, preview and time.

    A session that lives in a provider's home is lenient, because its transcript is what it is: an event that cannot
    stand (unknown interaction, unwritable payload) becomes a ``note`` that says so, and a turn whose provider id
    belongs to another turn becomes ``recovery_required``. A hosted session refuses instead.

    Raises :class:`SessionNotFound`, :class:`StaleSession` (the expectations do not hold), :class:`SessionGone`,
    :class:`SessionFenced`, :class:`TurnConflict` (an end without an open turn), and for hosted sessions
    :class:`PayloadRefused`, :class:`UnknownReference`, :class:`InteractionConflict`, :class:`BindingConflict`,
    :class:`AttachmentMissing`.
    """
    session = guards.writable(session_id, expected_last_seq=expected_last_seq, expected_revision=expected_revision)
    if not entries:
        return Appended(session.last_seq + 1, session.last_seq, session.turn_count)
    draft = Draft(session)
    for entry in entries:
        draft.add(entry)
    draft.check()
    changes = _session_changes(session, draft)
    guards.advance(session, **changes)
    _write(session, draft)
    if "preview" in changes and not session.title:
        titles.name_family(session, changes["preview"])
    return Appended(session.last_seq + 1, draft.last_seq, draft.turn_count)


def _session_changes(session: Session, draft: Draft) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "last_seq": draft.last_seq,
        "turn_count": draft.turn_count,
        "updated_at_unix_ms": max(session.updated_at_unix_ms, draft.latest_at_unix_ms),
        "activity": Activity.RUNNING if draft.open_turn else Activity.IDLE,
    }
    if draft.open_turn and draft.waits():
        changes["activity"] = Activity.WAITING
    if draft.model:
        changes["model"] = draft.model
    if draft.effort:
        changes["effort"] = draft.effort
    if not session.preview and draft.first_prompt:
        changes["preview"] = draft.first_prompt
    return changes


def _write(session: Session, draft: Draft) -> None:
    if session.last_seq < session.log.first_seq:
        _open_tail(session)
    settled = draft.settled_before
    if settled is not None:
        fields = ("last_seq", "outcome", "digest", "phase", "settled_at_unix_ms", "usage", *draft.BINDING_FIELDS)
        values = {name: getattr(settled, name) for name in fields}
        if Turn.objects.filter(pk=settled.pk, phase=TurnPhase.OPEN).update(**values) != 1:
            raise TurnConflict("The open turn was settled meanwhile.")
    Turn.objects.bulk_create(draft.new_turns)
    insert_events(draft.rows)
    Interaction.objects.bulk_create(draft.asked.values())
    for interaction in draft.closed:
        Interaction.objects.filter(pk=interaction.pk, state=InteractionState.PENDING).update(
            state=interaction.state, closed_seq=interaction.closed_seq
        )
    Attachment.objects.bulk_create(draft.attachments)


def _open_tail(session: Session) -> None:
    """The first write opens the segment: until then the session shows nothing of its own log."""
    position = Segment.objects.filter(session_id=session.pk).count()
    Segment.objects.create(
        session_id=session.pk, position=position, log_id=session.log_id, first_seq=session.log.first_seq
    )
