"""Prepare: one transaction that either answers with an operation that exists, refuses, or freezes a new one."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from django.db import IntegrityError, connection, transaction

from forkhost.kit import clock, wakeups
from forkhost.kit.rows import one
from operations import destinations, eligibility, handover
from operations.choices import Act, OperationStatus
from operations.contracts import Policy, fenced, policy
from operations.models import Operation, RequestAlias
from operations.points import BoundaryRefused, PointRefused, ResolvedPoint, resolve
from operations.requests import HASH_VERSION, Prepared, PrepareRequest, Refused, Wanted, normalise
from operations.saga.moves import WAKE_UP, Lost, act, log, write_audit
from sessions import identities, store, syncing, titles
from sessions.capabilities import Reason
from sessions.errors import SessionAlreadyExists
from sessions.models import Home, Session, Workspace
from sessions.providers.crashpoints import CrashPoint, crash_point
from sessions.querysets import SessionQuerySet
from sessions.store import Snapshot, freezing

# Each lost race leaves the winner's row behind, which the next look finds; a third loss in a row is a mistake of ours.
ATTEMPTS = 3


def prepare(request: PrepareRequest) -> Prepared:
    """Make a fork durable, or answer with the operation that stands for this request already.

    Order: replay or conflict on the request id (workspace rights alone) -> barrier -> eligibility and quiescence ->
    target id. An exact boundary (``throughSeq``) that is none is told after a taken target id, as the session store
    does. Nothing is sent here; a worker of the session's runner goes on. Raises :class:`Refused`, and then nothing was
    written.
    """
    wanted = normalise(request)
    workspace = one(Workspace.objects.visible_to(wanted.user).filter(pk=wanted.workspace_id))
    if workspace is None:
        raise Refused("workspace_not_found", 404, "There is no such workspace, or it is not yours to see.")
    for last in (False,) * (ATTEMPTS - 1) + (True,):
        try:
            with transaction.atomic():
                answer = _prepare_locked(wanted, workspace)
                crash_point(CrashPoint.BEFORE_PREPARE_COMMITS)
        except IntegrityError:
            # A unique index decided a race: the winner's row answers now.
            if last:
                raise
        except Refused as refusal:
            if refusal.code == Reason.NOT_IMPORTED:
                syncing.want(wanted.source_session_id)
            raise
        else:
            crash_point(CrashPoint.AFTER_PREPARE)
            return answer
    raise AssertionError("the last attempt returns or raises")


def _replay(wanted: Wanted) -> Prepared | None:
    alias = one(RequestAlias.objects.filter(workspace_id=wanted.workspace_id, request_id=wanted.request_id))
    if alias is None:
        return None
    if alias.request_hash != wanted.request_hash:
        raise Refused(
            "request_conflict",
            409,
            "This request id was used for a different fork.",
            field="/requestId",
            operation_id=alias.operation_id,
        )
    return Prepared(Operation.objects.get(pk=alias.operation_id), replayed=True)


def _prepare_locked(wanted: Wanted, workspace: Workspace) -> Prepared:
    _lock_source(wanted)
    # A request that runs beside this one was waited for; and a source that is gone replays as well.
    answer = _replay(wanted)
    if answer is not None:
        return answer
    source = _source(wanted)
    rules = policy(workspace.fork_contract)
    point = _resolve(source, wanted)
    if isinstance(point, ResolvedPoint):
        standing = rules.barrier(source, point)
        if standing is not None:
            return _alias(wanted, standing)
    if not workspace.forks_enabled:
        raise Refused("forks_disabled", 403, "New forks are switched off in this workspace.")
    if source.write_fence is not None:
        raise fenced(source.write_fence)
    capability = eligibility.check_session(source, wanted.point)
    if isinstance(point, BoundaryRefused):
        # As the store has it: an id that is taken is told before a boundary that is none. Nothing stays reserved.
        _reserve_target(wanted.target_session_id, uuid.uuid4())
    resolved = eligibility.check_point(source, capability, wanted.point, point)
    destination = destinations.destination(source)
    rules.check_source(source, resolved)
    operation_id = uuid.uuid4()
    _reserve_target(wanted.target_session_id, operation_id)
    return Prepared(_freeze(operation_id, wanted, source, resolved, destination, rules), replayed=False)


def _lock_source(wanted: Wanted) -> None:
    """Nothing that the source is judged by changes until the transaction ends."""
    # On SQLite the transaction holds the one write lock.
    if connection.features.has_select_for_update:
        # Locked by itself: a locking join loses the row when a rewind that was waited for gave it another log.
        one(_sources(wanted).select_for_update(no_key=True).values_list("pk", flat=True))


def _sources(wanted: Wanted) -> SessionQuerySet:
    rows: SessionQuerySet = Session.objects.filter(pk=wanted.source_session_id, workspace_id=wanted.workspace_id)
    return rows


def _source(wanted: Wanted) -> Session:
    source: Session | None = one(_sources(wanted).visible_to(wanted.user).select_related("home__runner", "sync"))
    if source is None:
        raise Refused("session_not_found", 404, "There is no such session, or it is not yours to see.")
    return source


def _resolve(source: Session, wanted: Wanted) -> ResolvedPoint | PointRefused:
    """The resolved point, or why there is none: what is wrong with the session itself is said first."""
    try:
        return resolve(source, wanted.point)
    except PointRefused as refusal:
        return refusal


def _alias(wanted: Wanted, standing: Operation) -> Prepared:
    """Answer with the operation behind the barrier, now and whenever this request id comes again."""
    _claim_request_id(wanted, standing.pk)
    act(
        standing.pk,
        {},
        {},
        why=Act.REPLAYED,
        actor=handover.actor(wanted.user),
        detail={"requestId": wanted.request_id},
    )
    return Prepared(Operation.objects.get(pk=standing.pk), replayed=True)


def _claim_request_id(wanted: Wanted, operation_id: uuid.UUID) -> None:
    RequestAlias.objects.create(
        workspace_id=wanted.workspace_id,
        request_id=wanted.request_id,
        request_hash=wanted.request_hash,
        operation_id=operation_id,
    )


def _reserve_target(target_id: uuid.UUID, operation_id: uuid.UUID) -> None:
    try:
        store.take_id(target_id, operation_id)
    except SessionAlreadyExists:
        raise Refused(
            "target_reserved",
            409,
            "This target id belongs, or belonged, to another session or fork.",
            field="/targetAgentSessionId",
        ) from None


def _freeze(
    operation_id: uuid.UUID,
    wanted: Wanted,
    source: Session,
    resolved: ResolvedPoint,
    destination: Home | None,
    rules: Policy,
) -> Operation:
    # The row was locked in this transaction already, and read after that.
    snapshot = freezing.take(source, freezing.checked_boundary(source, resolved.seq))
    rules.check_snapshot(snapshot)
    operation = Operation(
        id=operation_id,
        workspace_id=wanted.workspace_id,
        requested_by_id=wanted.user.pk,
        request_id=wanted.request_id,
        request_hash=wanted.request_hash,
        request_hash_version=HASH_VERSION,
        contract=rules.contract,
        source_session_id=source.pk,
        target_session_id=wanted.target_session_id,
        point_type=wanted.point.type,
        point=wanted.point.as_json(),
        resolved_seq=resolved.seq,
        title=wanted.title or titles.fork_title(source.family_id),
        family_id=source.family_id,
        prepared_at=clock.database_now(),
        next_run_at=clock.database_now(),
        version=1,
        **_snapshot_columns(snapshot),
        **_turn_columns(resolved),
        **handover.runtime_columns(source, resolved, destination),
    )
    if rules.dispatch_seconds is not None:
        operation.dispatch_by = clock.database_now(rules.dispatch_seconds)
    if resolved.turn is not None:
        operation.target_turn_id = identities.inherited_turn_id(operation.pk, resolved.turn.origin_id)
    rules.hold_source(source.pk, operation.pk)
    _insert(operation, wanted)
    # The database's own times, read when somebody asks for them; the first came back with the insert.
    del operation.next_run_at, operation.dispatch_by
    return operation


def _snapshot_columns(snapshot: Snapshot) -> dict[str, Any]:
    text = snapshot.to_json()
    return {"snapshot": text, "snapshot_hash": hashlib.sha256(text.encode("utf-8")).hexdigest()}


def _turn_columns(resolved: ResolvedPoint) -> dict[str, Any]:
    turn = resolved.turn
    if turn is None:
        return {}
    columns: dict[str, Any] = {"resolved_turn_id": turn.id, "resolved_ordinal": turn.ordinal}
    if turn.binding is not None:
        columns["source_provider_turn_id"] = turn.binding.provider_turn_id
        columns["binding"] = turn.binding.data
    return columns


def _insert(operation: Operation, wanted: Wanted) -> None:
    """The operation, its request id and its first audit row: the outbox, complete or not there at all."""
    actor = handover.actor(wanted.user)
    operation.save(force_insert=True)
    _claim_request_id(wanted, operation.pk)
    write_audit(
        operation.pk,
        1,
        "",
        OperationStatus.PREPARED,
        why=Act.PREPARED,
        actor=actor,
        detail={"point": operation.point, "contract": operation.contract},
    )
    wakeups.notify(WAKE_UP, operation.queue)
    log.info("operation_prepared", operation_id=str(operation.pk), queue=operation.queue, actor=actor)


def acknowledge(operation_id: uuid.UUID, actor: str) -> Operation:
    """The caller has taken in the committed result. Idempotent; under the strict contract it releases the barrier.

    Raises :class:`Refused` when the operation is not committed. Raises ``Operation.DoesNotExist``.
    """
    try:
        with transaction.atomic():
            act(
                operation_id,
                {"status": OperationStatus.COMMITTED, "observed_at__isnull": True},
                {"observed_at": clock.database_now()},
                why=Act.ACKNOWLEDGED,
                actor=actor,
            )
            crash_point(CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS)
    except Lost:
        operation: Operation = Operation.objects.get(pk=operation_id)
        if operation.status != OperationStatus.COMMITTED:
            raise Refused(
                "not_committed", 409, "Only a committed fork can be acknowledged.", operation_id=operation_id
            ) from None
        return operation
    found: Operation = Operation.objects.get(pk=operation_id)
    return found
