"""What a worker does with an operation it has claimed: send it once, then finish the local work."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import structlog
from django.db import DatabaseError, OperationalError, connection, connections

from forkhost.kit import alarms
from forkhost.kit.leases import Lease, LeaseKeeper
from operations import destinations, evidence, handover, materialising, outcomes, rebinding
from operations.choices import ErrorCode, OperationStatus
from operations.contracts import Policy, policy
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
    Json,
    PointSupport,
    ProcessIdentity,
    ProviderError,
)
from sessions.providers.crashpoints import CrashPoint, crash_point
from sessions.providers.registry import UnknownProvider
from sessions.store import Snapshot

log = structlog.get_logger(__name__)

S = OperationStatus

WRITE_PAUSES = (0.1, 0.5, 2.0, 5.0)
# Adapters end a call that takes too long themselves; one that does not is not waited for.
OVERDUE_SECONDS = 60.0

_NOT_OURS = "this worker does not own the operation any more"


class Reporter:
    """How an adapter's facts become durable: each is a guarded update, and one that finds no row stops the adapter."""

    def __init__(self, operation: Operation, lease: Lease, dispatch_token: uuid.UUID, actor: str) -> None:
        self._operation = operation
        self._lease = lease
        self._dispatch_token = dispatch_token
        self._actor = actor

    def process_started(self, process: ProcessIdentity) -> None:
        """Keep who makes the call. Raises Fenced."""
        if not _insist(
            lambda: transitions.record_process(self._operation.pk, self._lease, self._dispatch_token, process)
        ):
            raise Fenced(_NOT_OURS)

    def announce(self, child_provider_session_id: str) -> None:
        """Keep the child's id. Raises Fenced; the id is then evidence, because the child may exist already."""
        child_id = child_provider_session_id
        if not _insist(
            lambda: transitions.record_announced(self._operation.pk, self._lease, self._dispatch_token, child_id)
        ):
            late = Doubt(ErrorCode.WORKER_LOST, "The child was announced by a worker that had lost the fork.", child_id)
            evidence.leave_late_answer(self._operation, self._dispatch_token, late, self._actor)
            raise Fenced(_NOT_OURS)


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
    operation: Operation = lease.row
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
            elif operation.status == S.COMMITTED:
                rebinding.check(operation, lease, actor)
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
    token = transitions.mark_dispatching(operation, lease, actor, proof=_proof(request))
    operation.status, operation.dispatch_token, operation.calls = S.DISPATCHING, token, 1
    # The database's own time: read when somebody asks for it.
    del operation.dispatched_at
    _call(operation, lease, token, adapter, request, actor)


# --------------------------------------------------------------------------------------------------------------------
# Before the mark: nothing is sent, so everything that goes wrong is a failure


def _ready(operation: Operation, rules: Policy) -> tuple[Adapter, ForkRequest]:
    """Everything checked once more on the machine that will make the call. Raises :class:`_Stop`."""
    lapse = rules.lapse(operation, lambda: _incarnation(operation.runner_id))
    if lapse is not None:
        raise _Stop(*lapse)
    if attachments.missing(Snapshot.from_json(operation.snapshot)):
        raise _Stop(ErrorCode.ATTACHMENT_MISSING, "A file that this part of the session points to is not stored.")
    try:
        adapter = handover.adapter_of(operation)
        request = handover.fork_request(operation, _attested(operation, adapter), require_prefix=rules.require_prefix)
        if operation.frozen.get("sourceBoundBy"):
            rebinding.require(uuid.UUID(operation.frozen["sourceBoundBy"]))
        adapter.confirm_turn(request)
    except UnknownProvider as error:
        raise _Stop(ErrorCode.ADAPTER_MISSING, f"On this runner, {error}.") from error
    except materialising.BindingFailed as error:
        raise _Stop(ErrorCode.BINDING_FAILED, f"The session is not readable in its home: {error}") from error
    except ProviderError as error:
        raise _Stop(error.code, error.message) from error
    except (_Stop, DatabaseError):
        raise
    except Exception as error:
        log.exception("adapter_failed_before_dispatch")
        raise _Stop(ErrorCode.ADAPTER_FAILED, f"The adapter failed before it sent anything: {error}") from error
    return adapter, request


def _incarnation(runner_id: uuid.UUID | None) -> uuid.UUID | None:
    """The runner's, as it is now."""
    if runner_id is None:
        return None
    return Runner.objects.filter(pk=runner_id).values_list("incarnation", flat=True).first()


def _proof(request: ForkRequest) -> Json:
    """What was proven about runtime and turn before the mark, as the audit keeps it."""
    attestation = request.attestation
    return {
        "proof": {
            "driver": f"{attestation.driver_kind} {attestation.driver_version}".strip(),
            "executable": attestation.executable,
            "fingerprint": attestation.fingerprint,
            "turnConfirmed": request.turn.binding.provider_turn_id,
        }
    }


def _attested(operation: Operation, adapter: Adapter) -> Attestation:
    home = handover.home_of(operation)
    if not home.path.is_dir():
        raise _Stop(ErrorCode.HOME_MISSING, f"The folder {home.path} is not on this runner.")
    _require_folder(operation)
    _require_destination(operation)
    attestation = adapter.attest(home)
    if attestation.points is PointSupport.UNSUPPORTED:
        raise _Stop(attestation.reason or ErrorCode.RUNTIME_CHANGED, attestation.detail or "It cannot fork any more.")
    if attestation.fingerprint != operation.fingerprint:
        raise _Stop(
            ErrorCode.RUNTIME_CHANGED, "The agent on this machine is not the one the fork was prepared for; fork again."
        )
    return attestation


def _require_folder(operation: Operation) -> None:
    """A fork lives in its source's folder; without it the agent could not go on there."""
    folder = operation.frozen["cwd"]
    if operation.frozen["home"] and folder and not Path(folder).is_dir():
        raise _Stop(
            ErrorCode.FOLDER_MISSING,
            f"The folder {folder}, where this session ran, is not on this runner. Make or restore it, and fork again.",
        )


def _require_destination(operation: Operation) -> None:
    """A child that has to live in another home needs that home to be there before anything is sent."""
    if operation.target_home_id is None:
        return
    home = destinations.child_home(operation)
    if not home.path.is_dir():
        raise _Stop(
            ErrorCode.HOME_MISSING, f"The folder {home.path}, where the fork is to live, is not on this runner."
        )


# --------------------------------------------------------------------------------------------------------------------
# After the mark: the call is made once, and what is not proven is unknown


def _call(
    operation: Operation, lease: Lease, token: uuid.UUID, adapter: Adapter, request: ForkRequest, actor: str
) -> None:
    where = {"lease_token": lease.token, "dispatch_token": token}
    with _Watch(operation, where, request.attestation.longest_fork_seconds + OVERDUE_SECONDS, actor):
        outcome = _ask(operation, adapter, request, Reporter(operation, lease, token, actor))
    if outcome is None:
        return
    try:
        made = _insist(lambda: _write(operation, lease, token, where, outcome, actor))
    except Lost:
        evidence.leave_late_answer(operation, token, outcome, actor)
        raise
    if made:
        materialising.finish(operation, lease, actor, sent=(adapter, request))


class _Watch:
    """Calls the fork unknown when its call does not come back; an answer after that is evidence."""

    def __init__(self, operation: Operation, where: dict[str, uuid.UUID], seconds: float, actor: str) -> None:
        self._operation = operation
        self._where = where
        self._actor = actor
        self._seconds = seconds

    def __enter__(self) -> None:
        thread = threading.Thread(target=self._ring, name=f"overdue-{self._operation.pk}", daemon=True)
        self._alarm = alarms.ring(self._seconds, thread.start)

    def __exit__(self, *error: object) -> None:
        self._alarm.call_off()

    def _ring(self) -> None:
        try:
            transitions.mark_unknown(
                self._operation,
                self._where,
                code=ErrorCode.CALL_OVERDUE,
                text="The agent did not answer in the time that its longest fork takes.",
                actor=self._actor,
            )
        except (Lost, DatabaseError) as error:
            log.warning("overdue_call_not_marked", operation_id=str(self._operation.pk), reason=str(error))
        finally:
            connections.close_all()


def _ask(operation: Operation, adapter: Adapter, request: ForkRequest, reporter: Reporter) -> Outcome | None:
    """The one native call and what it proved. None: the adapter stopped because this worker lost the operation."""
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
    """Write what is known only here; a database that is away for a moment must not make a fork unknown."""
    for pause in WRITE_PAUSES:
        try:
            return write()
        except OperationalError as error:
            log.warning("not_written_yet", error=str(error))
            connection.close()
            time.sleep(pause)
    return write()
