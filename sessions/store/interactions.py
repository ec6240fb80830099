"""Questions, approvals and plans of hosted sessions: events of the log with a row that says how they stand."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from forkhost.kit import clock
from sessions.choices import EventKind, InteractionKind, InteractionState
from sessions.errors import InteractionConflict
from sessions.models import Interaction
from sessions.store import guards
from sessions.store.appending import append
from sessions.store.entries import NewEvent


@transaction.atomic
def ask_interaction(
    session_id: uuid.UUID,
    kind: InteractionKind | str,
    payload: dict[str, Any] | None = None,
    *,
    key: str = "",
    at_unix_ms: int | None = None,
) -> Interaction:
    """Ask for a person. ``key`` is the agent's own id of the interaction (default: a new one).

    Raises as :func:`append`; a key that was asked before is :class:`UnknownReference`.
    """
    key = key or uuid.uuid4().hex
    event = {**(payload or {}), "interactionId": key, "kind": InteractionKind(kind).value}
    append(session_id, [NewEvent(EventKind.INTERACTION_ASKED, _time(at_unix_ms), event)])
    asked: Interaction = Interaction.objects.get(log__session__pk=session_id, key=key)
    return asked


@transaction.atomic
def answer_interaction(
    session_id: uuid.UUID,
    interaction_id: uuid.UUID,
    payload: dict[str, Any] | None = None,
    *,
    at_unix_ms: int | None = None,
) -> Interaction:
    """Answer a pending interaction. Raises as :func:`append`, and :class:`InteractionConflict` when none waits."""
    return _close(session_id, interaction_id, EventKind.INTERACTION_ANSWERED, payload, at_unix_ms)


@transaction.atomic
def supersede_interaction(
    session_id: uuid.UUID,
    interaction_id: uuid.UUID,
    payload: dict[str, Any] | None = None,
    *,
    at_unix_ms: int | None = None,
) -> Interaction:
    """Close a pending interaction without an answer. Raises as :func:`answer_interaction`."""
    return _close(session_id, interaction_id, EventKind.INTERACTION_SUPERSEDED, payload, at_unix_ms)


def _close(
    session_id: uuid.UUID,
    interaction_id: uuid.UUID,
    kind: EventKind,
    payload: dict[str, Any] | None,
    at_unix_ms: int | None,
) -> Interaction:
    session = guards.writable(session_id)
    interaction = Interaction.objects.filter(pk=interaction_id, log_id=session.log_id).first()
    if interaction is None or interaction.state != InteractionState.PENDING:
        raise InteractionConflict("The interaction is not waiting for an answer in this session.")
    event = {**(payload or {}), "interactionId": interaction.key, "kind": interaction.kind}
    append(session_id, [NewEvent(kind, _time(at_unix_ms), event)])
    interaction.refresh_from_db()
    closed: Interaction = interaction
    return closed


def _time(at_unix_ms: int | None) -> int:
    return clock.now_ms() if at_unix_ms is None else at_unix_ms
