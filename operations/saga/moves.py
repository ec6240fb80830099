"""How an operation changes: one guarded update that counts its row, and one audit row, in the same transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import structlog
from django.db.models import F

from forkhost.kit import clock, wakeups
from forkhost.kit.returning import update_returning
from operations.choices import MOVES, Act, OperationStatus
from operations.models import Operation, OperationAudit
from operations.saga import notices
from sessions import payloads

log = structlog.get_logger(__name__)

WAKE_UP = "operations"

ACTOR_LIMIT = 200
ERROR_TEXT_LIMIT = 2000
FREE: Mapping[str, Any] = {"lease_owner": "", "lease_token": None, "lease_until": None}


class IllegalMove(Exception):
    """A transition that is not drawn; a mistake in forkhost, never in a request."""


class Lost(Exception):
    """The guarded update found no row: somebody else was first, or this worker does not own the operation any more.

    Raised inside a transaction, it takes back what was written beside the update.
    """


def act(
    operation_id: uuid.UUID,
    where: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    why: Act,
    actor: str,
    detail: Mapping[str, Any] | None = None,
    move: tuple[OperationStatus, OperationStatus] | None = None,
) -> None:
    """Change one operation and audit it; has to run inside a transaction. Raises :class:`Lost`.

    ``move`` is a change of state, from and to; without it the state stays. Who has to be told is written down too.
    """
    guard, changes = dict(where), dict(values)
    before, after = move or ("", "")
    if move is not None:
        if move[1] not in MOVES[move[0]]:
            raise IllegalMove(f"{before} -> {after}")
        guard["status"] = before
        changes["status"] = after
    asks = changes.get("needs_person") is True and not _needs_person(operation_id)
    rows = Operation.objects.filter(pk=operation_id, **guard)
    # The row is this transaction's until it ends, so the number cannot be taken by another.
    changed = update_returning(rows, ("version",), version=F("version") + 1, **changes)
    if changed is None:
        raise Lost(f"{operation_id}: {why.value}")
    version = changed.version
    write_audit(operation_id, version, before, after, why=why, actor=actor, detail=detail)
    settled = before == OperationStatus.UNKNOWN
    if asks:
        notices.tell_person_needed(operation_id, version, why)
    if settled:
        notices.tell_settled(operation_id, version, why)
    if asks or settled or _is_up_for_claim(guard, changes):
        wakeups.notify(WAKE_UP, str(operation_id))
    log.info("operation_act", operation_id=str(operation_id), act=why.value, before=before, after=after, actor=actor)


def _is_up_for_claim(guard: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether a worker may find new work: the row is due, and not the one worker's who holds it and goes on with it."""
    goes_on = "lease_token" in guard and "lease_token" not in changes
    return changes.get("next_run_at") is not None and not goes_on


def _needs_person(operation_id: uuid.UUID) -> bool:
    return Operation.objects.filter(pk=operation_id, needs_person=True).exists()


def write_audit(
    operation_id: uuid.UUID,
    sequence: int,
    before: str,
    after: str,
    *,
    why: Act,
    actor: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Append one audit row."""
    OperationAudit.objects.create(
        operation_id=operation_id,
        sequence=sequence,
        at=clock.now(),
        from_status=before,
        to_status=after,
        actor=payloads.clip(actor, ACTOR_LIMIT),
        reason=why,
        detail=payloads.plain_json(dict(detail or {})),
    )
