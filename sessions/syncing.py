"""The queue of transcripts to read: the :class:`SessionSync` rows, who takes which first, and how a row is given back.

``next_run_at`` orders the queue. What somebody waits for gets a head start: it looks as if it had been due for years.
"""

from __future__ import annotations

import enum
import uuid
from typing import Any

from django.db.models import Case, DateTimeField, F, QuerySet, Value, When

from forkhost.kit import clock, wakeups
from forkhost.kit.leases import Lease, claim
from sessions.choices import SyncState
from sessions.models import Session, SessionSync

WAKE_UP = "sync"
LEASE_SECONDS = 30.0


class Hurry(enum.IntEnum):
    """Why a transcript is read: in the background, because a session known here went on, because a page is open."""

    BACKLOG = 0
    LIVE = 1
    WANTED = 2


_DAY = 24 * 3600.0
HEAD_START: dict[Hurry, float] = {Hurry.BACKLOG: 0.0, Hurry.LIVE: 3650 * _DAY, Hurry.WANTED: 7300 * _DAY}
# Between backlog and live: what has been due for longer than this has a head start.
_HURRIED_AFTER = HEAD_START[Hurry.LIVE] / 2


def place_child(child: Session, path: str) -> None:
    """Say where the transcript of a fork lies, as its receipt names it: it can be forked again before discovery sees it.

    Part of the caller's transaction. Nothing is due yet; discovery queues what the child adds to the frozen history.
    """
    if child.home is not None:
        SessionSync.objects.create(session=child, queue=str(child.home.runner_id), path=path, state=SyncState.IMPORTED)


def note_home(session_id: uuid.UUID, code: str, text: str) -> None:
    """Say what keeps the session from being continued in its home; with "" that nothing does any more."""
    rows = SessionSync.objects.filter(session_id=session_id).exclude(state__in=(SyncState.FAILED, SyncState.MISSING))
    rows.exclude(problem_code=code).update(problem_code=code, problem_text=text)


def want(session_id: uuid.UUID) -> bool:
    """Somebody opened the session: read its transcript before everything else. False: there is nothing left to read.

    Cheap enough for a page: one guarded update, and none when the history is complete or already wanted.
    """
    waiting = SessionSync.objects.filter(
        session_id=session_id, wanted_at__isnull=True, next_run_at__isnull=False
    ).exclude(stamp_seen=F("stamp_imported"))
    if not waiting.exists():
        return False
    now = clock.database_now()
    changed = waiting.update(wanted_at=now, next_run_at=clock.database_now(-HEAD_START[Hurry.WANTED]))
    wakeups.notify(WAKE_UP)
    return bool(changed)


def claim_next(runner_id: uuid.UUID, owner: str, *, hurried: bool) -> Lease | None:
    """Claim the next transcript of the runner to read; with ``hurried`` only one that somebody waits for."""
    queue: QuerySet[SessionSync] = SessionSync.objects.filter(queue=str(runner_id))
    if hurried:
        queue = queue.filter(next_run_at__lt=clock.database_now(-_HURRIED_AFTER))
    return claim(queue, owner, LEASE_SECONDS)


def give_back(
    lease: Lease,
    *,
    again_in: float | None = None,
    hurry: Hurry = Hurry.BACKLOG,
    unless_seen: str | None = None,
    **changes: Any,
) -> bool:
    """Write ``changes`` and give the row back; False when the lease was lost and nothing was written.

    It is due again ``again_in`` seconds from now, and rests when that is None. With ``unless_seen`` it rests only while
    that stamp is the last one seen: discovery may have seen the transcript change while it was being read.
    """
    due: Any = None if again_in is None else clock.database_now(again_in - HEAD_START[hurry])
    if unless_seen is not None:
        due = Case(
            When(stamp_seen=unless_seen, then=Value(None, output_field=DateTimeField())),
            default=clock.database_now(-HEAD_START[Hurry.LIVE]),
            output_field=DateTimeField(),
        )
    held = SessionSync.objects.filter(pk=lease.pk, lease_token=lease.token)
    return bool(held.update(lease_owner="", lease_token=None, lease_until=None, next_run_at=due, **changes))


def transcript_missing() -> dict[str, Any]:
    """What a sync row says when the provider's transcript is gone; the session itself stays readable."""
    return {
        "state": SyncState.MISSING,
        "problem_code": "source_transcript_missing",
        "problem_text": "The agent's transcript is gone; what was imported before stays readable.",
        "wanted_at": None,
    }
