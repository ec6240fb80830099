"""The transitions workers and recovery make. Each is one transaction; each raises :class:`Lost` when it comes too late.

Locks are taken in the order session, log, operation: a source is released before its operation is updated.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from forkhost.kit import clock, wakeups
from forkhost.kit.leases import Lease
from operations import handover
from operations.choices import Act, ErrorCode, OperationStatus
from operations.contracts import policy
from operations.models import Operation
from operations.saga.moves import ERROR_TEXT_LIMIT, FREE, WAKE_UP, Lost, act
from operations.schedule import first_look
from sessions import payloads, store
from sessions.models import Session
from sessions.providers.base import ForkAccepted, ProcessIdentity
from sessions.providers.crashpoints import CrashPoint, crash_point
from sessions.store import Snapshot

S = OperationStatus

# How long a look at a child's home is good for.
HOME_CHECK_SECONDS = 60.0


class ChildTaken(Exception):
    """The provider's answer names a child that belongs to another operation or session."""


def mark_dispatching(
    operation: Operation, lease: Lease, actor: str, *, proof: Mapping[str, Any] | None = None
) -> uuid.UUID:
    """prepared -> dispatching: from here on the fork counts as sent. Returns the permanent dispatch token.

    ``proof`` is what was proven right before, for those who read this later.
    """
    token = uuid.uuid4()
    with transaction.atomic():
        act(
            operation.pk,
            {"lease_token": lease.token, "dispatch_token__isnull": True},
            {"dispatch_token": token, "dispatched_at": clock.database_now(), "calls": 1},
            why=Act.DISPATCHING,
            actor=actor,
            detail=proof,
            move=(S.PREPARED, S.DISPATCHING),
        )
    crash_point(CrashPoint.AFTER_DISPATCH_MARK)
    return token


def record_process(operation_id: uuid.UUID, lease: Lease, dispatch_token: uuid.UUID, process: ProcessIdentity) -> bool:
    """Keep the identity of the process that makes the call. False: this worker may not make it."""
    return _note(operation_id, lease, dispatch_token, process=handover.process_to_json(process))


def record_announced(operation_id: uuid.UUID, lease: Lease, dispatch_token: uuid.UUID, child_id: str) -> bool:
    """Keep the child's id before its existence is certain. False: this worker may write nothing more."""
    return _note(operation_id, lease, dispatch_token, announced_child_id=child_id)


def _note(operation_id: uuid.UUID, lease: Lease, dispatch_token: uuid.UUID, **values: Any) -> bool:
    return bool(
        Operation.objects.filter(
            pk=operation_id, status=S.DISPATCHING, lease_token=lease.token, dispatch_token=dispatch_token
        ).update(**values)
    )


def accept(operation: Operation, lease: Lease, dispatch_token: uuid.UUID, accepted: ForkAccepted, actor: str) -> None:
    """dispatching -> provider_accepted; the lease goes on, and ``operation`` says so. Raises Lost, :class:`ChildTaken`."""
    _accept(
        operation,
        {"lease_token": lease.token, "dispatch_token": dispatch_token},
        {},
        accepted,
        why=Act.ACCEPTED,
        actor=actor,
        before=S.DISPATCHING,
    )
    operation.status = S.PROVIDER_ACCEPTED
    for name, value in handover.accepted_columns(accepted).items():
        setattr(operation, name, value)
    # The database's own time: read when somebody asks for it.
    del operation.accepted_at
    crash_point(CrashPoint.AFTER_ACCEPT)


def adopt(
    operation: Operation,
    where: Mapping[str, Any],
    accepted: ForkAccepted,
    *,
    why: Act,
    actor: str,
    detail: Mapping[str, Any],
) -> None:
    """unknown -> provider_accepted, on evidence. Raises Lost, :class:`ChildTaken`."""
    _accept(operation, where, dict(FREE), accepted, why=why, actor=actor, before=S.UNKNOWN, detail=detail)


def _accept(
    operation: Operation,
    where: Mapping[str, Any],
    values: Mapping[str, Any],
    accepted: ForkAccepted,
    *,
    why: Act,
    actor: str,
    before: OperationStatus,
    detail: Mapping[str, Any] | None = None,
) -> None:
    if handover.child_is_taken(operation, accepted.child_provider_session_id):
        raise ChildTaken(accepted.child_provider_session_id)
    changes: dict[str, Any] = {
        **values,
        **handover.accepted_columns(accepted),
        "accepted_at": clock.database_now(),
        "next_run_at": clock.database_now(),
        "attempts": 0,
        "error_code": "",
        "error_text": "",
        "unknown_since": None,
        "needs_person": False,
        "removal": None,
    }
    try:
        with transaction.atomic():
            act(
                operation.pk,
                where,
                changes,
                why=why,
                actor=actor,
                detail={"child": accepted.child_provider_session_id, **(detail or {})},
                move=(before, S.PROVIDER_ACCEPTED),
            )
    except IntegrityError as error:
        # The one unique index this update can meet: a child belongs to one operation.
        raise ChildTaken(accepted.child_provider_session_id) from error


def fail(
    operation: Operation,
    before: OperationStatus,
    where: Mapping[str, Any],
    *,
    code: str,
    text: str,
    actor: str,
    why: Act = Act.FAILED,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """prepared, dispatching or unknown -> failed: nothing was made. Releases the source, and history kept for the fork."""
    with transaction.atomic():
        policy(operation.contract).release_source(operation.source_session_id, operation.pk)
        store.release_id(operation.target_session_id, operation.pk)
        act(
            operation.pk,
            where,
            {
                **FREE,
                **_error(code, text),
                "completed_at": clock.database_now(),
                "next_run_at": None,
                "unknown_since": None,
                "needs_person": False,
                "removal": None,
            },
            why=why,
            actor=actor,
            detail={"code": code, **(detail or {})},
            move=(before, S.FAILED),
        )
    if not Session.objects.filter(pk=operation.source_session_id).exists():
        store.sweep(Snapshot.from_json(operation.snapshot).shown)


def mark_unknown(
    operation: Operation, where: Mapping[str, Any], *, code: str, text: str, actor: str, child_id: str = ""
) -> None:
    """dispatching -> unknown: the call may have made a child. Releases the source and begins the look-ups."""
    with transaction.atomic():
        policy(operation.contract).release_source(operation.source_session_id, operation.pk)
        values: dict[str, Any] = {
            **FREE,
            **_error(code, text),
            "unknown_since": clock.database_now(),
            "next_run_at": first_look(operation.dispatched_at),
            "attempts": 0,
        }
        if child_id:
            values["child_provider_session_id"] = payloads.plain(child_id)
        act(
            operation.pk,
            where,
            values,
            why=Act.UNKNOWN,
            actor=actor,
            detail={"code": code, "child": child_id},
            move=(S.DISPATCHING, S.UNKNOWN),
        )


def commit(operation: Operation, lease: Lease, values: Mapping[str, Any], actor: str) -> None:
    """provider_accepted -> committed, inside the transaction that made the child. Raises Lost."""
    policy(operation.contract).release_source(operation.source_session_id, operation.pk)
    act(
        operation.pk,
        {"lease_token": lease.token},
        {
            **FREE,
            **values,
            "completed_at": clock.database_now(),
            "home_bound_at": clock.database_now(),
            "next_run_at": None,
            "attempts": 0,
            "error_code": "",
            "error_text": "",
            "needs_person": False,
        },
        why=Act.COMMITTED,
        actor=actor,
        move=(S.PROVIDER_ACCEPTED, S.COMMITTED),
    )


def postpone_local_work(
    operation: Operation, lease: Lease, *, code: str, text: str, again_in: float, needs_person: bool, actor: str
) -> None:
    """Stay provider_accepted and try the local work again later; only local work is ever repeated."""
    with transaction.atomic():
        act(
            operation.pk,
            {"lease_token": lease.token, "status": S.PROVIDER_ACCEPTED},
            {**FREE, **_error(code, text), "next_run_at": clock.database_now(again_in), "needs_person": needs_person},
            why=Act.LOCAL_WORK_FAILED,
            actor=actor,
            detail={"code": code, "text": payloads.clip(text, ERROR_TEXT_LIMIT)},
        )


def note_lookup(
    operation: Operation,
    where: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    actor: str,
    evidence_id: int,
    why: Act = Act.LOOKED_UP,
) -> None:
    """Stay unknown after a look-up, with the time of the next one; or, as ``proof_waits``, with proof for a person."""
    with transaction.atomic():
        act(
            operation.pk,
            {**where, "status": S.UNKNOWN},
            {**FREE, **values},
            why=why,
            actor=actor,
            detail={"evidence": evidence_id},
        )


def want_home_check(target_home_id: uuid.UUID, target_session_id: uuid.UUID) -> bool:
    """Queue the committed fork whose child was bound into that home: its runner looks at it again. False: none is due."""
    rows = Operation.objects.filter(
        target_home_id=target_home_id,
        target_session_id=target_session_id,
        status=S.COMMITTED,
        next_run_at__isnull=True,
        home_bound_at__lt=clock.database_now(-HOME_CHECK_SECONDS),
    )
    queue = rows.values_list("queue", flat=True).first()
    if queue is None or not rows.update(next_run_at=clock.database_now()):
        return False
    wakeups.notify(WAKE_UP, queue)
    return True


def end_home_check(operation: Operation, lease: Lease, *, problem: str, repaired: Sequence[str], actor: str) -> None:
    """Stay committed; only what was repaired or stands in the way is worth a row in the ledger. Raises Lost."""
    where = {"lease_token": lease.token, "status": S.COMMITTED}
    values = {**FREE, "next_run_at": None, "attempts": 0, "home_bound_at": clock.database_now()}
    with transaction.atomic():
        if problem or repaired:
            detail = {"text": payloads.clip(problem, ERROR_TEXT_LIMIT)} if problem else {"copied": list(repaired)}
            why = Act.HOME_NOT_READABLE if problem else Act.HOME_REPAIRED
            act(operation.pk, where, values, why=why, actor=actor, detail=detail)
        elif not Operation.objects.filter(pk=operation.pk, **where).update(**values):
            raise Lost(f"{operation.pk}: home check")


def end_removal(
    operation: Operation, where: Mapping[str, Any], *, removed: bool, actor: str, detail: Mapping[str, Any]
) -> None:
    """An operator's wish to remove a torn child was tried; it is tried once. Raises Lost."""
    with transaction.atomic():
        act(
            operation.pk,
            {**where, "status": S.UNKNOWN, "removal__isnull": False},
            {"removal": None},
            why=Act.TORN_REMOVED if removed else Act.TORN_NOT_REMOVED,
            actor=actor,
            detail=detail,
        )


def look_now(operation_id: uuid.UUID, *, actor: str, evidence_id: int) -> None:
    """Bring the next look-up forward: something was found. Raises Lost."""
    with transaction.atomic():
        act(
            operation_id,
            {"status": S.UNKNOWN},
            {"next_run_at": clock.database_now()},
            why=Act.LOOK_AGAIN,
            actor=actor,
            detail={"evidence": evidence_id},
        )


def requeue(operation_id: uuid.UUID, lease_token: uuid.UUID | None) -> bool:
    """Take a dead worker's lease off a row that is on its way, so that the next claim finds it."""
    return bool(
        Operation.objects.filter(
            pk=operation_id, lease_token=lease_token, status__in=(S.PREPARED, S.PROVIDER_ACCEPTED)
        ).update(**FREE, next_run_at=clock.database_now())
    )


def contradict(operation_id: uuid.UUID, *, actor: str, evidence_id: int) -> None:
    """Raise a failed operation that evidence contradicts; its state stays. Raises Lost."""
    with transaction.atomic():
        act(
            operation_id,
            {"status": S.FAILED},
            {"needs_person": True},
            why=Act.CONTRADICTED,
            actor=actor,
            detail={"evidence": evidence_id},
        )


def _error(code: str, text: str) -> dict[str, str]:
    return {
        "error_code": payloads.clip(code or ErrorCode.ADAPTER_FAILED, 64),
        "error_text": payloads.clip(text, ERROR_TEXT_LIMIT),
    }


__all__ = [
    "ChildTaken",
    "Lost",
    "accept",
    "adopt",
    "commit",
    "contradict",
    "end_home_check",
    "end_removal",
    "fail",
    "look_now",
    "mark_dispatching",
    "mark_unknown",
    "note_lookup",
    "postpone_local_work",
    "record_announced",
    "record_process",
    "requeue",
    "want_home_check",
]
