"""Appending to a session's open tail."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from sessions import titles
from sessions.choices import Activity, InteractionState, TurnPhase
from sessions.errors import SessionNotFound, TurnConflict
from sessions.models import Attachment, Interaction, Segment, Session, Turn
from sessions.store import guards
from sessions.store.drafts import Draft, Tail
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
    return _write(session, _drafted(session, entries))


class Appender:
    """Appends to one session again and again, and locks nothing while it works out what to write: for imports.

    Everything is decided in :meth:`draft`, outside of any transaction; :meth:`write` only writes, and proves by the
    row's version that the session is still what the draft was made from. What it wrote itself it does not read again.
    """

    def __init__(self, session_id: uuid.UUID) -> None:
        self._session_id = session_id
        self._session: Session | None = None
        self._tail: Tail | None = None

    def forget(self) -> None:
        """Read the session anew before the next draft: something else was written to it, or may have been."""
        self._session = self._tail = None

    def draft(self, entries: Sequence[Entry], *, expected_last_seq: int, expected_revision: int) -> Draft:
        """What appending ``entries`` writes; they may not be empty. Raises what :func:`append` raises."""
        if self._session is None:
            self._session = _read(self._session_id)
        guards.refuse_unwritable(
            self._session, expected_last_seq=expected_last_seq, expected_revision=expected_revision
        )
        return _drafted(self._session, entries, self._tail)

    def write(self, draft: Draft) -> Appended:
        """Write it; has to run inside a transaction, and on an error nothing of it may be kept.

        Raises :class:`StaleSession` when anybody wrote to the session since it was read: forget, and draft again.
        """
        appended = _write(draft.session, draft, unchanged=True)
        self._tail = draft.tail
        return appended


def _read(session_id: uuid.UUID) -> Session:
    session = Session.objects.select_related("log").defer("binding_map").filter(pk=session_id).first()
    if session is None:
        raise SessionNotFound(f"There is no session {session_id}.")
    found: Session = session
    return found


def _drafted(session: Session, entries: Sequence[Entry], tail: Tail | None = None) -> Draft:
    draft = Draft(session, tail)
    for entry in entries:
        draft.add(entry)
    draft.check()
    return draft


def _write(session: Session, draft: Draft, *, unchanged: bool = False) -> Appended:
    """Advance the row first, then write the rows; ``session`` is what the row holds afterwards."""
    first_seq, named = session.last_seq + 1, bool(session.title)
    changes = _session_changes(session, draft)
    guards.advance(session, unchanged=unchanged, **changes)
    _write_rows(session, draft)
    if "preview" in changes and not named:
        titles.name_family(session, changes["preview"])
    for name, value in changes.items():
        setattr(session, name, value)
    session.version += 1
    return Appended(first_seq, draft.last_seq, draft.turn_count)


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


def _write_rows(session: Session, draft: Draft) -> None:
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
