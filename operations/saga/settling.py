"""What an operator decides about a fork whose outcome is unknown. Never a second send.

Each act needs a reason and the version of the operation the operator looked at, so that the second of two operators
learns what the first one did. Each is audited; none touches a provider.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django.db import transaction

from forkhost.kit import clock
from operations import handover
from operations.choices import Act, ErrorCode, OperationStatus
from operations.models import Evidence, Operation, OperationAudit
from operations.requests import Refused
from operations.saga import transitions
from operations.saga.moves import FREE, Lost, act
from operations.schedule import SNOOZE
from sessions.providers.base import ForkAccepted


def adopt(
    operation_id: uuid.UUID, child_provider_session_id: str, *, actor: str, reason: str, expected_version: int
) -> Operation:
    """unknown -> provider_accepted with a child that a look-up found and verified; local work goes on by itself.

    Raises :class:`Refused`: ``reason_required``, ``version_conflict``, ``evidence_missing`` (no look-up verified this
    child), ``child_taken``.
    """
    operation = _unknown(operation_id, reason, expected_version)
    found = verified_child(operation_id, child_provider_session_id)
    if found is None:
        raise Refused(
            "evidence_missing", 409, "No look-up has verified this child; look again first.", operation_id=operation_id
        )
    evidence_id, accepted = found
    try:
        transitions.adopt(
            operation,
            {"version": expected_version},
            accepted,
            why=Act.ADOPTED,
            actor=actor,
            detail={"reason": reason, "evidence": evidence_id},
        )
    except transitions.ChildTaken:
        raise Refused(
            "child_taken", 409, "This child belongs to another session or fork already.", operation_id=operation_id
        ) from None
    except Lost:
        raise _changed(operation_id) from None
    return _read(operation_id)


def confirm_not_created(operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int) -> Operation:
    """unknown -> failed: a person is sure that no child was made. Raises :class:`Refused`."""
    operation = _unknown(operation_id, reason, expected_version)
    try:
        transitions.fail(
            operation,
            OperationStatus.UNKNOWN,
            {"version": expected_version},
            code=ErrorCode.CONFIRMED_NOT_CREATED,
            text="An operator confirmed that the agent did not make the fork.",
            actor=actor,
            why=Act.CONFIRMED_NOT_CREATED,
            detail={"reason": reason},
        )
    except Lost:
        raise _changed(operation_id) from None
    return _read(operation_id)


def keep_unknown(
    operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int, for_seconds: float = SNOOZE
) -> Operation:
    """Leave it unknown; it is looked up again, and asks for a person again, after ``for_seconds``. Raises Refused."""
    return _wait(operation_id, Act.KEPT_UNKNOWN, for_seconds, actor, reason, expected_version)


def look_again(operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int) -> Operation:
    """Have the runner look the child up now; read-only. Raises :class:`Refused`."""
    return _wait(operation_id, Act.LOOK_AGAIN, 0, actor, reason, expected_version)


def verified_child(operation_id: uuid.UUID, child_id: str) -> tuple[int, ForkAccepted] | None:
    """The newest evidence that verified this child, and what was verified."""
    for evidence in Evidence.objects.filter(operation_id=operation_id).order_by("-id"):
        accepted = evidence.detail.get("verified", {}).get(child_id)
        if accepted is not None:
            return evidence.pk, handover.accepted_from_json(accepted)
    return None


def _wait(
    operation_id: uuid.UUID, why: Act, seconds: float, actor: str, reason: str, expected_version: int
) -> Operation:
    _unknown(operation_id, reason, expected_version)
    values: dict[str, Any] = {**FREE, "needs_person": False, "next_run_at": clock.now() + dt.timedelta(seconds=seconds)}
    try:
        with transaction.atomic():
            act(
                operation_id,
                {"version": expected_version, "status": OperationStatus.UNKNOWN},
                values,
                why=why,
                actor=actor,
                detail={"reason": reason},
            )
    except Lost:
        raise _changed(operation_id) from None
    return _read(operation_id)


def _unknown(operation_id: uuid.UUID, reason: str, expected_version: int) -> Operation:
    if not reason.strip():
        raise Refused("reason_required", 400, "Say why, for those who read this later.", operation_id=operation_id)
    operation = _read(operation_id)
    if operation.version != expected_version or operation.status != OperationStatus.UNKNOWN:
        raise _changed(operation_id)
    return operation


def _changed(operation_id: uuid.UUID) -> Refused:
    newest = OperationAudit.objects.filter(operation_id=operation_id).order_by("-sequence").first()
    who = f" Last: {newest.get_reason_display()} by {newest.actor}." if newest else ""
    return Refused(
        "version_conflict",
        409,
        f"The operation changed since you looked at it, and nothing was done.{who}",
        operation_id=operation_id,
    )


def _read(operation_id: uuid.UUID) -> Operation:
    operation: Operation = Operation.objects.get(pk=operation_id)
    return operation
