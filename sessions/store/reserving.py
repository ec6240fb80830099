"""Who may use a session id: an id is taken once, by a session or by the fork that will make one."""

from __future__ import annotations

import uuid

from django.db import IntegrityError, transaction

from sessions.errors import SessionAlreadyExists
from sessions.models import TakenId


def take_id(session_id: uuid.UUID, operation_id: uuid.UUID | None = None) -> None:
    """Take an id for a session that is being made, or reserve it for the fork ``operation_id``.

    Part of the caller's transaction, which has to end when this raises. Raises :class:`SessionAlreadyExists` when the
    id is, was, or is going to be another session's.
    """
    try:
        with transaction.atomic(savepoint=False):
            TakenId.objects.create(session_id=session_id, operation_id=operation_id)
    except IntegrityError as error:
        raise SessionAlreadyExists(f"The id {session_id} is taken.") from error


def hold_id(session_id: uuid.UUID, operation_id: uuid.UUID) -> None:
    """Take the id for the fork ``operation_id``, unless the fork reserved it before. Raises SessionAlreadyExists."""
    if not TakenId.objects.filter(session_id=session_id, operation_id=operation_id).exists():
        take_id(session_id, operation_id)


def release_id(session_id: uuid.UUID, operation_id: uuid.UUID) -> None:
    """Give back what a failed fork reserved. Part of the caller's transaction; idempotent."""
    TakenId.objects.filter(session_id=session_id, operation_id=operation_id).delete()
