"""The sweep: what workers left behind is put where the next one finds it. It queues, and never makes a provider call.

Safe from any number of workers at once: each row is taken by a guarded update. It covers every runner, because a machine
that is away cannot report the death of its own worker.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from django.db.models import Exists, OuterRef, Q, QuerySet

from forkhost.kit import clock
from operations import evidence
from operations.choices import ErrorCode, EvidenceMethod, OperationStatus
from operations.contracts import policy
from operations.models import Evidence, Operation
from operations.saga import transitions
from operations.saga.moves import Lost
from sessions.models import Runner

log = structlog.get_logger(__name__)

ACTOR = "recovery"
SWEEP_SECONDS = 5.0
PAGE = 200

_NEVER = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows one sweep moved."""

    requeued: int = 0
    lapsed: int = 0
    lost: int = 0
    settled: int = 0


def sweep() -> Swept:
    """Look once through everything that is on its way or unknown."""
    swept = Swept(requeued=_requeue(), lapsed=_lapse(), lost=_mark_lost(), settled=_settle())
    if swept != Swept():
        log.info("swept", requeued=swept.requeued, lapsed=swept.lapsed, lost=swept.lost, settled=swept.settled)
    return swept


def _pages(rows: QuerySet[Operation]) -> Iterator[Operation]:
    """The rows in bounded memory, by primary key, so that rows that leave the set while it is read skip nobody."""
    after = _NEVER
    while True:
        page = list(rows.filter(pk__gt=after).order_by("pk")[:PAGE])
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].pk


def _queued(*statuses: OperationStatus) -> QuerySet[Operation]:
    # What is on its way is always queued; saying so lets both databases use the queue's partial index.
    rows: QuerySet[Operation] = Operation.objects.filter(next_run_at__isnull=False, status__in=statuses)
    return rows.defer("snapshot", "result_session")


def _dead() -> Q:
    return Q(lease_token__isnull=False) & Q(lease_until__lte=clock.database_now())


def _requeue() -> int:
    """prepared, provider_accepted under a dead lease: free for the next claim, the dead worker's token void."""
    rows = _queued(OperationStatus.PREPARED, OperationStatus.PROVIDER_ACCEPTED).filter(_dead())
    return sum(transitions.requeue(row.pk, row.lease_token) for row in _pages(rows))


def _lapse() -> int:
    """prepared, and its contract does not let it be sent any more: failed, nothing was sent."""
    count = 0
    incarnations: dict[uuid.UUID | None, uuid.UUID | None] = dict(Runner.objects.values_list("pk", "incarnation"))
    rows = _queued(OperationStatus.PREPARED).filter(lease_token__isnull=True, dispatch_by__isnull=False)
    for row in _pages(rows):
        lapse = policy(row.contract).lapse(row, functools.partial(incarnations.get, row.runner_id))
        if lapse is None:
            continue
        try:
            transitions.fail(
                row, OperationStatus.PREPARED, {"lease_token__isnull": True}, code=lapse[0], text=lapse[1], actor=ACTOR
            )
            count += 1
        except Lost:
            continue
    return count


def _mark_lost() -> int:
    """dispatching under a dead lease: the call may have been made, so nobody knows; no call."""
    count = 0
    for row in _pages(_queued(OperationStatus.DISPATCHING).filter(_dead())):
        try:
            transitions.mark_unknown(
                row,
                {"lease_token": row.lease_token, "lease_until": row.lease_until},
                code=ErrorCode.WORKER_LOST,
                text="The worker that sent the fork was lost before it could say what came of it.",
                actor=ACTOR,
            )
            count += 1
        except Lost:
            continue
    return count


def _settle() -> int:
    """unknown, and its own call answered after all."""
    answered = Evidence.objects.filter(operation_id=OuterRef("pk"), method=EvidenceMethod.LATE_ANSWER)
    rows = Operation.objects.filter(Exists(answered), unknown_since__isnull=False, status=OperationStatus.UNKNOWN)
    return sum(evidence.settle_late_answer(row, ACTOR) for row in _pages(rows.defer("snapshot", "result_session")))
