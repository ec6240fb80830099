"""The local half of a fork: the child becomes readable in its home, then a session. Only this half is ever repeated."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from forkhost.kit import clock
from forkhost.kit.leases import Lease
from forkhost.kit.rows import one
from operations import destinations, handover, hosted, results
from operations.choices import BindingMode, ErrorCode
from operations.models import Operation
from operations.saga import transitions
from operations.saga.moves import Lost
from operations.schedule import LOCAL_WORK_PATIENCE, local_work_again_in
from sessions import lineage, runners, store, syncing
from sessions.api.projections import session_json
from sessions.errors import StoreError
from sessions.models import Family, Home, Lineage, Session
from sessions.providers.base import Adapter, Attestation, ForkAccepted, ForkRequest, Json, ProviderError
from sessions.providers.crashpoints import CrashPoint, crash_point
from sessions.store import Snapshot

log = structlog.get_logger(__name__)

# Where the receipt keeps the binder's evidence.
BOUND = "bound"


class BindingFailed(Exception):
    """The child could not be made readable in its home, or proven to be."""


def bound(operation: Operation, adapter: Adapter, request: ForkRequest, accepted: ForkAccepted) -> ForkAccepted:
    """The acceptance with the binder's evidence in its receipt. Idempotent. Raises :class:`BindingFailed`."""
    if operation.binding_mode != BindingMode.HOST_COPY:
        return accepted
    try:
        proof = adapter.bind(request, accepted, destinations.child_home(operation))
    except ProviderError as error:
        raise BindingFailed(error.message) from error
    # An adapter's mistake after the call leaves the child as it is, whatever the mistake was.
    except Exception as error:
        raise BindingFailed(f"The adapter failed while it bound the child: {error}") from error
    return dataclasses.replace(accepted, receipt={**accepted.receipt, BOUND: proof})


def finish(operation: Operation, lease: Lease, actor: str, *, sent: tuple[Adapter, ForkRequest] | None = None) -> None:
    """provider_accepted -> committed. What goes wrong is tried again later, and never makes the fork unknown.

    ``sent`` is what the worker that made the call has at hand still. Raises :class:`Lost` when this worker does not own
    the operation any more.
    """
    try:
        receipt = _receipt(operation, sent)
        commit(operation, lease, receipt, actor)
    except (BindingFailed, StoreError, ProviderError) as error:
        code = ErrorCode.BINDING_FAILED if isinstance(error, BindingFailed) else getattr(error, "code", "")
        _postpone(operation, lease, str(code), str(error), actor)
    except (Lost, OperationalError, InterfaceError):
        # Without a database nothing can be written down; the lease runs out and the work is claimed again.
        raise
    except Exception as error:
        log.exception("local_work_failed")
        _postpone(operation, lease, ErrorCode.LOCAL_WORK_FAILED, f"{type(error).__name__}: {error}", actor)


def commit(operation: Operation, lease: Lease, receipt: Json, actor: str) -> None:
    """The child, its lineage and the committed operation in one transaction. Raises Lost, StoreError."""
    home_id = operation.target_home_id or operation.home_id
    home = Home.objects.select_related("runner").get(pk=home_id) if home_id is not None else None
    with transaction.atomic():
        at_unix_ms = clock.now_ms()
        child, line = _child(operation, receipt, home, at_unix_ms)
        crash_point(CrashPoint.DURING_MATERIALISE)
        shown = session_json(child, lineage=line)
        values = {
            "result_session": results.rest_of(operation, shown),
            "target_seq": operation.resolved_seq,
            "receipt": receipt,
        }
        transitions.commit(operation, lease, values, actor)
    crash_point(CrashPoint.AFTER_COMMIT)


def _child(operation: Operation, receipt: Json, home: Home | None, at_unix_ms: int) -> tuple[Session, Lineage]:
    snapshot = Snapshot.from_json(operation.snapshot)
    child = store.materialise(
        snapshot,
        operation.target_session_id,
        operation_id=operation.pk,
        title=operation.title,
        family_id=_family(operation),
        provider_session_id=operation.child_provider_session_id if operation.home_id else None,
        binding_map=handover.binding_map(operation),
        binding_kept=operation.bindings_kept,
        home_id=operation.target_home_id or operation.home_id,
        created_by_id=operation.requested_by_id,
        at_unix_ms=at_unix_ms,
    )
    if home is not None:
        # With what the child's projection asks for as well.
        child.home = home
    syncing.place_child(child, _child_path(receipt))
    line = lineage.record(
        child_session_id=child.pk,
        workspace_id=operation.workspace_id,
        source_session_id=operation.source_session_id,
        source_turn_id=operation.resolved_turn_id,
        source_seq=operation.resolved_seq,
        source_ordinal=operation.resolved_ordinal,
        target_turn_id=operation.target_turn_id,
        operation_id=operation.pk,
        forked_at_unix_ms=at_unix_ms,
    )
    return child, line


def _child_path(receipt: Json) -> str:
    """Where the child's transcript lies: where the binder found or brought it, else where the fork made it."""
    bound_to = receipt.get(BOUND)
    return str((bound_to.get("path") if isinstance(bound_to, dict) else "") or receipt.get("path") or "")


def _family(operation: Operation) -> uuid.UUID:
    """The family the source is in now: families may have been joined since the fork was prepared."""
    sources = Session.objects.filter(pk=operation.source_session_id)
    found: uuid.UUID | None = one(sources.values_list("family_id", flat=True))
    if found is not None:
        return found
    if operation.family_id is not None and Family.objects.filter(pk=operation.family_id).exists():
        return operation.family_id
    return Family.objects.create(title=operation.title).pk


def _receipt(operation: Operation, sent: tuple[Adapter, ForkRequest] | None) -> Json:
    receipt: dict[str, Any] = operation.receipt or {}
    # A child that evidence found was accepted without being bound, whatever the contract.
    if BOUND in receipt or operation.binding_mode != BindingMode.HOST_COPY:
        return receipt
    if sent is not None:
        adapter, request = sent
    else:
        adapter = handover.adapter_of(operation)
        request = handover.fork_request(operation, attestation_of(operation, adapter), require_prefix=False)
    accepted = bound(operation, adapter, request, handover.accepted_of(operation))
    return accepted.receipt


def attestation_of(operation: Operation, adapter: Adapter) -> Attestation:
    """What the operation's home last proved; local work and look-ups need no fresh proof."""
    if operation.home_id is None:
        return hosted.ATTESTATION
    stored = runners.stored_attestation(Home.objects.filter(pk=operation.home_id).first())
    return stored if stored is not None else adapter.attest(handover.home_of(operation))


def _postpone(operation: Operation, lease: Lease, code: str, text: str, actor: str) -> None:
    attempts = Operation.objects.values_list("attempts", flat=True).get(pk=operation.pk)
    log.warning("local_work_postponed", code=code, error=text, attempts=attempts)
    transitions.postpone_local_work(
        operation,
        lease,
        code=code,
        text=text,
        again_in=local_work_again_in(attempts),
        needs_person=attempts >= LOCAL_WORK_PATIENCE,
        actor=actor,
    )
