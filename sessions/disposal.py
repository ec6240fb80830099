"""What happens to deleted sessions: whose they are to restore or purge, and which have lain in the bin long enough.

Deleting hides and restoring undoes it. A purge removes what no other session and no fork under way shows
(``sessions.store.purging``); sessions forked from it outlive it byte for byte. An agent's own files are never touched.
"""

from __future__ import annotations

import datetime as dt
import uuid

import structlog
from django.conf import settings
from django.contrib.auth.models import User

from forkhost.kit import clock
from sessions import store
from sessions.choices import MemberRole
from sessions.errors import SessionFenced, SessionHeld, SessionNotFound
from sessions.models import Membership, Session
from sessions.querysets import SessionQuerySet

log = structlog.get_logger(__name__)

ACTOR = "retention"
PURGES_A_SWEEP = 50


def bin_of(user: User) -> SessionQuerySet:
    """The deleted sessions that ``user`` may see and restore."""
    deleted: SessionQuerySet = Session.objects.visible_to(user).roots().filter(tombstoned_at__isnull=False)
    return deleted


def may_purge(user: User, session: Session) -> bool:
    """Whether ``user`` may remove the session for good: who made it, and the operators of its workspace."""
    if session.created_by_id is not None and session.created_by_id == user.pk:
        return True
    return operates(user, session.workspace_id)


def operates(user: User, workspace_id: uuid.UUID) -> bool:
    """Whether ``user`` is an operator of the workspace."""
    operators = Membership.objects.filter(workspace_id=workspace_id, role=MemberRole.OPERATOR)
    return operators.filter(user_id=user.pk).exists()


def expired(days: float) -> SessionQuerySet:
    """The sessions that have lain in the bin for ``days``, the longest first."""
    before = clock.now() - dt.timedelta(days=days)
    rows: SessionQuerySet = Session.objects.roots().filter(tombstoned_at__isnull=False, tombstoned_at__lte=before)
    return rows.order_by("tombstoned_at", "pk")


def purge_expired(days: float, *, actor: str = ACTOR, most: int = PURGES_A_SWEEP) -> list[uuid.UUID]:
    """Purge those, at most ``most``; which. What a fork under way needs, or somebody restored meanwhile, is left alone."""
    purged: list[uuid.UUID] = []
    for session_id in expired(days).values_list("pk", flat=True).iterator():
        if len(purged) == most:
            break
        try:
            store.purge(session_id, actor=actor, deleted_only=True)
        except SessionHeld as error:
            log.info("purge_waits", session=str(session_id), reason=error.message)
        except (SessionFenced, SessionNotFound):
            continue
        else:
            purged.append(session_id)
    return purged


def sweep() -> int:
    """What a worker does now and then: purge as ``FORKHOST_PURGE_AFTER_DAYS`` says; how many. 0 days: never."""
    days: float = settings.FORKHOST_PURGE_AFTER_DAYS
    return len(purge_expired(days)) if days else 0
