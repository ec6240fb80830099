"""What forks that are not settled yet hold: provider sessions the importer finds, and histories somebody would purge.

Sessions ask through hooks, because they stand below operations.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Q

from forkhost.kit import clock, ids
from operations import evidence
from operations.choices import OPEN_STATUSES, IdentityMode, OperationStatus
from operations.handover import MARKER_PREFIX
from operations.models import Operation
from sessions.holdings import Held
from sessions.models import Session
from sessions.providers.base import DiscoveredSession
from sessions.retention import Needs
from sessions.store import Snapshot

# From here on a child may exist that is not a session yet.
_SENT = (OperationStatus.DISPATCHING, OperationStatus.PROVIDER_ACCEPTED, OperationStatus.UNKNOWN)
# Those have not ended, which their index knows; it does not know states.
_UNSETTLED = Q(completed_at__isnull=True, status__in=_SENT)


def waits(home_id: uuid.UUID) -> bool:
    """Whether a child may turn up in this home that must not become a session, or not yet.

    So it is while a fork was sent and is not settled, and where forks live in another home.
    """
    here = Q(home_id=home_id) | Q(target_home_id=home_id)
    return (
        Operation.objects.filter(target_home_id=home_id).exists()
        or Operation.objects.filter(home_id=home_id, target_home_id__isnull=False).exists()
        or Operation.objects.filter(here, _UNSETTLED).exists()
    )


def answer(home_id: uuid.UUID, discovered: DiscoveredSession) -> Held | None:
    """The operation that keeps the found session from becoming one; findings about unsettled ones go to evidence."""
    found = _by_marker(home_id, discovered) or _by_id(home_id, discovered)
    if found is not None:
        operation, reason = found
        evidence.hand_over_finding(operation, discovered.ref.provider_session_id, reason)
        return Held(operation.pk, reason) if operation.status in _SENT else None
    copied = _lives_elsewhere(home_id, discovered) or _brought_along(home_id, discovered)
    if copied is not None:
        return copied
    waiting = _searched(home_id, discovered)
    return None if waiting is None else Held(waiting.pk, "child_of_fork_in_search")


def _by_marker(home_id: uuid.UUID, discovered: DiscoveredSession) -> tuple[Operation, str] | None:
    try:
        operation_id = ids.parse_id(discovered.fork_operation_id.removeprefix(MARKER_PREFIX))
    except ValueError:
        return None
    here = Q(home_id=home_id) | Q(target_home_id=home_id)
    operation = Operation.objects.filter(here, pk=operation_id).first()
    if operation is None or operation.status in (OperationStatus.PREPARED, OperationStatus.COMMITTED):
        return None
    return operation, "marked_by_fork"


def _by_id(home_id: uuid.UUID, discovered: DiscoveredSession) -> tuple[Operation, str] | None:
    child_id = discovered.ref.provider_session_id
    rows = Operation.objects.filter(Q(home_id=home_id) | Q(target_home_id=home_id), _UNSETTLED)
    for column in ("announced_child_id", "child_provider_session_id"):
        operation = rows.filter(**{column: child_id}).first()
        if operation is not None:
            return operation, "announced_by_fork"
    return None


def _lives_elsewhere(home_id: uuid.UUID, discovered: DiscoveredSession) -> Held | None:
    """The record of a committed child in the home where the fork made it: the session is the one in the other home."""
    rows = Operation.objects.filter(
        home_id=home_id,
        target_home_id__isnull=False,
        status=OperationStatus.COMMITTED,
        child_provider_session_id=discovered.ref.provider_session_id,
    )
    operation_id = rows.values_list("pk", flat=True).first()
    return None if operation_id is None else Held(operation_id, "lives_in_another_home", lasting=True)


def _brought_along(home_id: uuid.UUID, discovered: DiscoveredSession) -> Held | None:
    """The record of a session that a child inherits from, brought here with the child: it is that session's copy."""
    rows = Operation.objects.filter(target_home_id=home_id)
    origins = list(rows.values_list("home_id", flat=True).distinct())
    if not origins:
        return None
    provider_id = discovered.ref.provider_session_id
    known = Session.objects.filter(home_id__in=origins, provider_session_id=provider_id)
    origin = known.values_list("home_id", flat=True).first()
    # A source that was purged since is known by the forks that were made of it.
    told_by = rows.filter(home_id=origin) if origin is not None else rows.filter(source_provider_session_id=provider_id)
    operation_id = told_by.values_list("pk", flat=True).first()
    return None if operation_id is None else Held(operation_id, "brought_along_by_fork", lasting=True)


def _searched(home_id: uuid.UUID, discovered: DiscoveredSession) -> Operation | None:
    """An unsettled fork whose child carries no mark: a new session that may be it has to wait."""
    rows = Operation.objects.filter(_UNSETTLED, home_id=home_id, identity_mode=IdentityMode.SEARCH)
    operation: Operation
    for operation in rows.defer("snapshot", "result_session"):
        sent = operation.dispatched_at or operation.prepared_at
        if discovered.updated_at_ms < clock.to_ms(sent) - evidence.CLOCK_SLACK_MS:
            continue
        if _may_descend(operation, discovered):
            return operation
    return None


def _may_descend(operation: Operation, discovered: DiscoveredSession) -> bool:
    if discovered.observed_parent_id:
        return discovered.observed_parent_id == operation.source_provider_session_id
    # A fork begins with its source's first prompt, in the same folder.
    preview = Session.objects.filter(pk=operation.source_session_id).values_list("preview", flat=True).first()
    return discovered.ref.cwd == operation.frozen["cwd"] and (preview is None or discovered.preview == preview)


def keep(session_id: uuid.UUID | None, log_ids: Collection[int]) -> Needs:
    """What unsettled forks need of what somebody wants to purge.

    A fork on its way needs its source; an unknown one needs the frozen history alone, for the day it is adopted.
    """
    wanted = set(log_ids)
    through: dict[int, int] = {}
    session = False
    rows = Operation.objects.filter(Q(next_run_at__isnull=False) | Q(unknown_since__isnull=False))
    unsettled = rows.filter(status__in=(*OPEN_STATUSES, OperationStatus.UNKNOWN))
    for source_id, status, text in unsettled.values_list("source_session_id", "status", "snapshot"):
        session = session or (source_id == session_id and status in OPEN_STATUSES)
        for log_id, seq in Snapshot.from_json(text).shown.items():
            if log_id in wanted:
                through[log_id] = max(seq, through.get(log_id, 0))
    return Needs(session=session, through=through)
