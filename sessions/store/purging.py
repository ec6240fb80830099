"""Removing a session for good, and those parts of logs that nobody shows any more."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Coalesce

from sessions import attachments, retention, search_index
from sessions.choices import AuditAction
from sessions.errors import SessionFenced, SessionHeld, SessionNotFound
from sessions.models import Attachment, Event, EventLog, Interaction, Segment, Session, Turn
from sessions.store import guards
from sessions.store.facts import audit


@transaction.atomic(durable=True)
def purge(session_id: uuid.UUID, *, actor: str = "system", reason: str = "", deleted_only: bool = False) -> None:
    """Remove the session, its sub-agents' lanes, and what of their history no other session and no fork needs.

    Forks outlive it, byte for byte; lineage, operations and the audit keep its id, which is never used again.
    Provider files are never touched. With ``deleted_only``, a session that somebody restored is not found.

    Raises SessionNotFound, :class:`SessionFenced`, :class:`SessionHeld` (a fork under way needs it).
    """
    session = guards.lock(session_id, key=True)
    if deleted_only and session.tombstoned_at is None:
        raise SessionNotFound(f"There is no deleted session {session_id}.")
    lanes = Session.objects.filter(root_session_id=session_id).order_by("pk").values_list("pk", flat=True)
    for doomed in [*(guards.lock(lane, key=True) for lane in list(lanes)), session]:
        # The provider's transcript stays where it is; by these two the importer knows not to list it again.
        origin = {"homeId": str(doomed.home_id or ""), "providerSessionId": doomed.provider_session_id or ""}
        audit(doomed, AuditAction.PURGE, actor, reason, title=doomed.title, provider=doomed.provider, **origin)
        _purge_one(doomed)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a purge of a session would do, lanes included: how much goes for good, and how much others still need.

    ``held``: a fork under way needs the session, so that a purge would be refused now.
    """

    lanes: int
    records: int
    records_kept: int
    turns: int
    turns_kept: int
    held: bool


def foresee(session_id: uuid.UUID) -> Foreseen:
    """What :func:`purge` would do now; writes nothing. Its answer may be outdated a moment later."""
    doomed = list(Session.objects.filter(Q(pk=session_id) | Q(root_session_id=session_id)))
    shown = Segment.objects.filter(session__in=doomed).annotate(end=Coalesce("last_seq", "session__last_seq"))
    segments = list(shown.values_list("log_id", "first_seq", "end"))
    logs = {log_id for log_id, _, _ in segments}
    needed = _needed(logs, Segment.objects.exclude(session__in=doomed))
    records = records_kept = turns = turns_kept = 0
    for log_id, first, end in segments:
        # A segment begins where its log does, so what others need of it is a prefix, too.
        kept = min(end, needed.get(log_id, 0))
        records += end - first + 1
        records_kept += max(0, kept - first + 1)
        begun = Turn.objects.filter(log_id=log_id)
        turns += begun.filter(first_seq__lte=end).count()
        turns_kept += begun.filter(first_seq__lte=kept).count()
    return Foreseen(
        lanes=len(doomed) - 1,
        records=records - records_kept,
        records_kept=records_kept,
        turns=turns - turns_kept,
        turns_kept=turns_kept,
        held=any(each.write_fence is not None or retention.needs(each.pk, logs).session for each in doomed),
    )


def _purge_one(session: Session) -> None:
    if session.write_fence is not None:
        raise SessionFenced("A fork that is under way needs this session.")
    logs = _lock_logs(
        EventLog.objects.filter(Q(segments__session_id=session.pk) | Q(made_by=session.pk) | Q(pk=session.log_id))
    )
    if retention.needs(session.pk, logs).session:
        raise SessionHeld("A fork of this session is under way; it can be purged when that has ended.")
    Segment.objects.filter(session_id=session.pk).delete()
    made = EventLog.objects.filter(made_by=session.pk).values_list("pk", flat=True)
    search_index.forget_titles({session.log_id, *made})
    session.delete()
    _drop_hidden(logs)


@transaction.atomic
def sweep(log_ids: Collection[int]) -> None:
    """Remove what nobody needs any more of these logs: call it when an operation that held them has ended."""
    _drop_hidden(_lock_logs(EventLog.objects.filter(pk__in=list(log_ids), session__isnull=True)))


def _lock_logs(logs: QuerySet[EventLog]) -> list[int]:
    """The ids of ``logs``, locked in order, so that no fork can begin to show them meanwhile."""
    ids = set(logs.values_list("pk", flat=True))
    return list(EventLog.objects.filter(pk__in=ids).order_by("pk").select_for_update().values_list("pk", flat=True))


def _drop_hidden(log_ids: list[int]) -> None:
    """Cut each log behind the last seq that a session or an unfinished fork shows of it; empty logs go altogether."""
    needed = _needed(log_ids, Segment.objects.all())
    files: set[str] = set()
    for log_id in log_ids:
        through = needed.get(log_id, 0)
        hidden = Attachment.objects.filter(log_id=log_id, seq__gt=through)
        files.update(hidden.values_list("blob_id", flat=True))
        hidden.delete()
        Interaction.objects.filter(log_id=log_id, asked_seq__gt=through).delete()
        Turn.objects.filter(log_id=log_id, first_seq__gt=through).delete()
        Event.objects.filter(log_id=log_id, seq__gt=through).delete()
        search_index.forget_events(log_id, through)
        if not through and not Session.objects.filter(log_id=log_id).exists():
            EventLog.objects.filter(pk=log_id).delete()
    if files:
        transaction.on_commit(lambda: attachments.remove_unreferenced(files))


def _needed(log_ids: Collection[int], segments: QuerySet[Segment]) -> dict[int, int]:
    """The last seq of each log that one of ``segments`` or an unfinished fork shows; absent: none of it."""
    # Segments before operations: what a fork needs moves from its operation to its segments, never back.
    shown = segments.filter(log_id__in=log_ids).values_list("log_id")
    needed = dict(shown.annotate(through=Max(Coalesce("last_seq", "session__last_seq"))))
    for log_id, seq in retention.needs(None, log_ids).through.items():
        needed[log_id] = max(seq, needed.get(log_id, 0))
    return needed
