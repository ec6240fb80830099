"""What a worker does with an operation it has claimed: send it once, then finish the local work."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import structlog
from django.db import DatabaseError, OperationalError, connection

from forkhost.kit.leases import Lease, LeaseKeeper
from operations import evidence, handover, materialising, outcomes
from operations.choices import ErrorCode, OperationStatus
from operations.contracts import Policy, policy
from operations.crashpoints import CrashPoint, crash_point
from operations.models import Operation
from operations.outcomes import Doubt, Made, NotMade, Outcome
from operations.saga import transitions
from operations.saga.moves import Lost
from sessions import attachments
from sessions.models import Runner
from sessions.providers.base import (
    Adapter,
    Attestation,
    Fenced,
    ForkRequest,
    PointSupport,
    ProcessIdentity,
    ProviderError,
)
from sessions.providers.registry import UnknownProvider
from sessions.store import Snapshot

log = structlog.get_logger(__name__)

S = OperationStatus

WRITE_PAUSES = (0.1, 0.5, 2.0, 5.0)


class Reporter:
    """How an adapter's facts become durable: each is a guarded update, and one that finds no row stops the adapter."""

    def __init__(self, operation_id: uuid.UUID, lease: Lease, dispatch_token: uuid.UUID) -> None:
        self._operation_id = operation_id
        self._lease = lease
        self._dispatch_token = dispatch_token

    def process_started(self, process: ProcessIdentity) -> None:
        """Keep who makes the call. Raises Fenced."""
        if not transitions.record_process(self._operation_id, self._lease, self._dispatch_token, process):
            raise Fenced("this worker does not own the operation any more")

    def announce(self, child_provider_session_id: str) -> None:
        """Keep the child's id. Raises Fenced."""
        if not transitions.record_announced(
            self._operation_id, self._lease, self._dispatch_token, child_provider_session_id
        ):
            raise Fenced("this worker does not own the operation any more")


class _Stop(Exception):
    """The operation fails before anything was sent."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def work(lease: Lease, *, actor: str, lease_seconds: float) -> None:
    """Take a claimed operation as far as it goes. Never raises for what an adapter does.

    A database error is raised on: the lease then runs out, and recovery decides from what was committed.
    """
    operation = Operation.objects.get(pk=lease.pk)
    with (
        structlog.contextvars.bound_contextvars(operation_id=str(operation.pk)),
        LeaseKeeper(Operation, lease, lease_seconds),
    ):
        try:
            if operation.status == S.PREPARED:
                _send(operation, lease, actor)
            elif operation.status == S.PROVIDER_ACCEPTED:
                materialising.finish(operation, lease, actor)
            elif operation.status == S.UNKNOWN:
                evidence.look_up(operation, lease, actor)
        except Lost as lost:
            log.warning("operation_lost", reason=str(lost))


def _send(operation: Operation, lease: Lease, actor: str) -> None:
    rules = policy(operation.contract)
    try:
        adapter, request = _ready(operation, rules)
    except _Stop as stop:
        transitions.fail(
            operation, S.PREPARED, {"lease_token": lease.token}, code=stop.code, text=stop.text, actor=actor
        )
        return
    token = transitions.mark_dispatching(operation, lease, actor)
    operation.refresh_from_db()
    _call(operation, lease, token, adapter, request, actor)


# --------------------------------------------------------------------------------------------------------------------
# Before the mark: nothing is sent, so everything that goes wrong is a failure


def _ready(operation: Operation, rules: Policy) -> tuple[Adapter, ForkRequest]:
    """Everything checked once more on the machine that will make the call. Raises :class:`_Stop`."""
    runner = Runner.objects.filter(pk=operation.runner_id).first() if operation.runner_id else None
    lapse = rules.lapse(operation, runner.incarnation if runner else None)
    if lapse is not None:
        raise _Stop(*lapse)
    if attachments.missing(Snapshot.from_json(operation.snapshot)):
        raise _Stop(ErrorCode.ATTACHMENT_MISSING, "A file that this part of the session points to is not stored.")
    try:
        adapter = handover.adapter_of(operation)
        request = handover.fork_request(operation, _attested(operation, adapter), require_prefix=rules.require_prefix)
        adapter.confirm_turn(request)
    except UnknownProvider as error:
        raise _Stop(ErrorCode.ADAPTER_MISSING, f"On this runner, {error}.") from error
    except ProviderError as error:
        raise _Stop(error.code, error.message) from error
    except (_Stop, DatabaseError):
        raise
    except Exception as error:
        log.exception("adapter_failed_before_dispatch")
        raise _Stop(ErrorCode.ADAPTER_FAILED, f"The adapter failed before it sent anything: {error}") from error
    return adapter, request


def _attested(operation: Operation, adapter: Adapter) -> Attestation:
    home = handover.home_of(operation)
    if not home.path.is_dir():
        raise _Stop(ErrorCode.HOME_MISSING, f"The folder {home.path} is not on this runner.")
    attestation = adapter.attest(home)
    if attestation.points is PointSupport.UNSUPPORTED:
        raise _Stop(attestation.reason or ErrorCode.RUNTIME_CHANGED, attestation.detail or "It cannot fork any more.")
    if attestation.fingerprint != operation.fingerprint:
        raise _Stop(
            ErrorCode.RUNTIME_CHANGED, "The agent on this machine is not the one the fork was prepared for; fork again."
        )
    return attestation


# --------------------------------------------------------------------------------------------------------------------
# After the mark: the call is made once, and what is not proven is unknown


def _call(
    operation: Operation, lease: Lease, token: uuid.UUID, adapter: Adapter, request: ForkRequest, actor: str
) -> None:
    outcome = _ask(operation, adapter, request, Reporter(operation.pk, lease, token))
    if outcome is None:
        return
    where = {"lease_token": lease.token, "dispatch_token": token}
    try:
        made = _insist(lambda: _write(operation, lease, token, where, outcome, actor))
    except Lost:
        evidence.leave_late_answer(operation, token, outcome, actor)
        raise
    if made:
        operation.refresh_from_db()
        materialising.finish(operation, lease, actor)


def _ask(operation: Operation, adapter: Adapter, request: ForkRequest, reporter: Reporter) -> Outcome | None:
    """The one native call and what it proved. None: this worker lost the operation before it made the call."""
    rules = policy(operation.contract)
    try:
        accepted = adapter.fork(request, reporter)
        crash_point(CrashPoint.AFTER_CALL)
    except Fenced:
        log.warning("adapter_fenced")
        return None
    # Every exception: after the mark, only a proven no may count as a no.
    except Exception as error:
        doubt = outcomes.of_error(error)
        log.warning("fork_not_accepted", code=doubt.code, exc_info=not isinstance(error, ProviderError))
        return doubt
    gap = rules.unproven(request, accepted)
    if gap:
        return Doubt(ErrorCode.WRONG_CHILD, gap, accepted.child_provider_session_id)
    if not rules.binds_before_acceptance:
        return Made(accepted)
    try:
        return Made(materialising.bound(operation, adapter, request, accepted))
    except materialising.BindingFailed as error:
        return Doubt(ErrorCode.BINDING_FAILED, str(error), accepted.child_provider_session_id)


def _write(
    operation: Operation, lease: Lease, token: uuid.UUID, where: dict[str, uuid.UUID], outcome: Outcome, actor: str
) -> bool:
    """The outcome in a commit of its own; whether a child was accepted. Raises Lost."""
    if isinstance(outcome, Made):
        try:
            transitions.accept(operation, lease, token, outcome.accepted, actor)
        except transitions.ChildTaken as taken:
            outcome = Doubt(
                ErrorCode.WRONG_CHILD, "The agent named a child that belongs to another session or fork.", str(taken)
            )
        else:
            return True
    if isinstance(outcome, NotMade):
        transitions.fail(operation, S.DISPATCHING, where, code=outcome.code, text=outcome.text, actor=actor)
    elif isinstance(outcome, Doubt):
        transitions.mark_unknown(
            operation, where, code=outcome.code, text=outcome.text, actor=actor, child_id=outcome.child_id
        )
    return False


def _insist(write: Callable[[], bool]) -> bool:
    """Write an answer that exists only here; a database that is away for a moment must not make it unknown."""
    for pause in WRITE_PAUSES:
        try:
            return write()
        except OperationalError as error:
            log.warning("outcome_not_written_yet", error=str(error))
            connection.close()
            time.sleep(pause)
    return write()
