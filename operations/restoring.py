"""After a backup was put back: forks that it knows as waiting may have been sent since, so none of them is sent now."""

from __future__ import annotations

from forkhost.kit.leases import claim
from operations.choices import ErrorCode, OperationStatus
from operations.models import Operation
from operations.saga import transitions

ACTOR = "command:after_restore"
TEXT = "The database was put back from a backup; whether the fork was sent since then is not known."
LEASE_SECONDS = 60.0


def hold_back() -> int:
    """Make every fork that waits, or was being sent, unknown: evidence settles it. How many; no worker may run."""
    held = 0
    for row in Operation.objects.filter(status=OperationStatus.DISPATCHING):
        transitions.mark_unknown(row, {"lease_token": row.lease_token}, code=ErrorCode.RESTORED, text=TEXT, actor=ACTOR)
        held += 1
    waiting = Operation.objects.filter(status=OperationStatus.PREPARED)
    for row in waiting.filter(lease_token__isnull=False):
        transitions.requeue(row.pk, row.lease_token)
    while (lease := claim(waiting, ACTOR, LEASE_SECONDS)) is not None:
        operation: Operation = lease.row
        transitions.mark_dispatching(operation, lease, ACTOR)
        operation.refresh_from_db()
        where = {"lease_token": lease.token}
        transitions.mark_unknown(operation, where, code=ErrorCode.RESTORED, text=TEXT, actor=ACTOR)
        held += 1
    return held
