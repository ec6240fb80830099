"""The write fence: a column of the session row, so that the guarded update of every history write meets it."""

from __future__ import annotations

import uuid

from django.db.models import F

from sessions.models import Session


def set_fence(session_id: uuid.UUID, operation_id: uuid.UUID) -> bool:
    """Forbid changes of the session's history for ``operation_id``. False: fenced already, tombstoned, or gone."""
    free = Session.objects.filter(pk=session_id, write_fence__isnull=True, tombstoned_at__isnull=True)
    return free.update(write_fence=operation_id, version=F("version") + 1) == 1


def release_fence(session_id: uuid.UUID, operation_id: uuid.UUID) -> bool:
    """Take the operation's own fence away. False: it was not there."""
    fenced = Session.objects.filter(pk=session_id, write_fence=operation_id)
    return fenced.update(write_fence=None, version=F("version") + 1) == 1
