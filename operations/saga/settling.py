"""What an operator decides about a fork whose outcome is unknown. Never a second send.

Each act needs a reason (looking again alone needs none) and the version of the operation the operator looked at, so that
the second of two operators learns what the first one did. Each is audited; none touches a provider. A torn child is
removed by its runner, which proves once more that it may be.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction

from forkhost.kit import clock
from operations import handover
from operations.choices import Act, ErrorCode, EvidenceMethod, OperationStatus
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
        raise conflict(operation_id, expected_version) from None
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
        raise conflict(operation_id, expected_version) from None
    return _read(operation_id)


def keep_unknown(
    operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int, for_seconds: float = SNOOZE
) -> Operation:
    """Leave it unknown; it is looked up again, and asks for a person again, after ``for_seconds``. Raises Refused."""
    _unknown(operation_id, reason, expected_version)
    return _wait(operation_id, Act.KEPT_UNKNOWN, for_seconds, actor, reason, expected_version)


def look_again(operation_id: uuid.UUID, *, actor: str, expected_version: int, reason: str = "") -> Operation:
    """Have the runner look the child up now; read-only. Raises :class:`Refused`."""
    _unknown(operation_id, None, expected_version)
    return _wait(operation_id, Act.LOOK_AGAIN, 0, actor, reason, expected_version)


def assign(operation_id: uuid.UUID, user_id: int, *, actor: str, reason: str, expected_version: int) -> Operation:
    """The user looks after it from now on. Raises :class:`Refused`."""
    return _remark(operation_id, Act.ASSIGNED, actor, reason, expected_version, assigned_to_id=user_id)


def release(operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int) -> Operation:
    """Nobody looks after it any more. Raises :class:`Refused`."""
    return _remark(operation_id, Act.RELEASED, actor, reason, expected_version, assigned_to_id=None)


def add_note(operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int) -> Operation:
    """Keep ``reason`` with the operation. Raises :class:`Refused`."""
    return _remark(operation_id, Act.NOTED, actor, reason, expected_version)


def mark_seen(operation_id: uuid.UUID, *, actor: str, reason: str, expected_version: int) -> Operation:
    """A person has looked at what is not unknown and needed one; its state stays. Raises :class:`Refused`."""
    operation = _at_version(operation_id, reason, expected_version)
    if operation.status == OperationStatus.UNKNOWN or not operation.needs_person:
        raise conflict(operation_id, expected_version)
    return _remark(operation_id, Act.SEEN, actor, reason, expected_version, needs_person=False)


def ask_removal(
    operation_id: uuid.UUID,
    child_provider_session_id: str,
    path: str,
    *,
    actor: str,
    reason: str,
    expected_version: int,
) -> Operation:
    """Have the runner remove one torn child, named by id and file; it proves again that it may, tries once, and looks.

    Raises :class:`Refused`: as the others, and ``not_torn`` when the newest look-up does not show it as torn.
    """
    _unknown(operation_id, reason, expected_version)
    if (child_provider_session_id, path) not in torn_children(operation_id):
        raise Refused(
            "not_torn", 409, "The newest look does not show this child as torn; look again.", operation_id=operation_id
        )
    wish = {"child": child_provider_session_id, "path": path, "actor": actor}
    return _remark(
        operation_id,
        Act.TORN_REMOVAL_ASKED,
        actor,
        reason,
        expected_version,
        more=wish,
        **FREE,
        removal=wish,
        needs_person=False,
        next_run_at=clock.now(),
    )


def torn_children(operation_id: uuid.UUID) -> list[tuple[str, str]]:
    """Id and file of the torn children that the newest look-up saw."""
    looks = Evidence.objects.filter(operation_id=operation_id, method=EvidenceMethod.LOOKUP)
    newest = looks.order_by("-id").first()
    candidates = newest.candidates if newest is not None else []
    return [(each["providerSessionId"], each["path"]) for each in candidates if each.get("torn")]


def verified_child(operation_id: uuid.UUID, child_id: str) -> tuple[int, ForkAccepted] | None:
    """The newest evidence that verified this child, and what was verified."""
    for evidence_id, children in _verified(operation_id):
        if child_id in children:
            return evidence_id, handover.accepted_from_json(children[child_id])
    return None


def verified_children(operation_id: uuid.UUID) -> list[str]:
    """The children that an operator could adopt, those seen last first."""
    return list(dict.fromkeys(child for _, children in _verified(operation_id) for child in children))


def _verified(operation_id: uuid.UUID) -> Iterator[tuple[int, dict[str, Any]]]:
    """Evidence and the children it verified: by a look-up, or by the fork's own call that answered late."""
    operation = _read(operation_id)
    for evidence in Evidence.objects.filter(operation_id=operation_id).order_by("-id"):
        own_call = evidence.method == EvidenceMethod.LATE_ANSWER and evidence.dispatch_token == operation.dispatch_token
        if own_call and (accepted := evidence.detail.get("accepted")):
            yield evidence.pk, {accepted["child"]: accepted}
        yield evidence.pk, evidence.detail.get("verified", {})


def _wait(
    operation_id: uuid.UUID, why: Act, seconds: float, actor: str, reason: str, expected_version: int
) -> Operation:
    again = clock.now() + dt.timedelta(seconds=seconds)
    return _remark(operation_id, why, actor, reason, expected_version, **FREE, needs_person=False, next_run_at=again)


def _remark(
    operation_id: uuid.UUID,
    why: Act,
    actor: str,
    reason: str,
    expected_version: int,
    *,
    more: Mapping[str, Any] | None = None,
    **values: Any,
) -> Operation:
    """An act that leaves the state as it is."""
    operation = _at_version(operation_id, None if why == Act.LOOK_AGAIN else reason, expected_version)
    try:
        with transaction.atomic():
            act(
                operation_id,
                {"version": expected_version, "status": operation.status},
                values,
                why=why,
                actor=actor,
                detail={"reason": reason, **(more or {})},
            )
    except Lost:
        raise conflict(operation_id, expected_version) from None
    return _read(operation_id)


def _unknown(operation_id: uuid.UUID, reason: str | None, expected_version: int) -> Operation:
    operation = _at_version(operation_id, reason, expected_version)
    if operation.status != OperationStatus.UNKNOWN:
        raise conflict(operation_id, expected_version)
    return operation


def _at_version(operation_id: uuid.UUID, reason: str | None, expected_version: int) -> Operation:
    """The operation as the operator saw it; ``reason`` None: the act needs none."""
    if reason is not None and not reason.strip():
        raise Refused("reason_required", 400, "Say why, for those who read this later.", operation_id=operation_id)
    operation = _read(operation_id)
    if operation.version != expected_version:
        raise conflict(operation_id, expected_version)
    return operation


def conflict(operation_id: uuid.UUID, seen_version: int | None = None) -> Refused:
    """What somebody is told who comes too late: who did what since the version they saw, oldest first."""
    acts = OperationAudit.objects.filter(operation_id=operation_id).order_by("sequence")
    since = list(acts.filter(sequence__gt=seen_version)) if seen_version is not None else []
    told = "; ".join(f"{row.get_reason_display()} by {row.actor}" for row in (since or acts.reverse()[:1])[:5])
    return Refused(
        "version_conflict",
        409,
        f"The operation changed since you looked at it, and nothing was done. Since then: {told}.",
        operation_id=operation_id,
    )


def _read(operation_id: uuid.UUID) -> Operation:
    operation: Operation = Operation.objects.get(pk=operation_id)
    return operation
