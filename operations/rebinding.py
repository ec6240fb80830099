"""Looks again whether a child that was bound into another home is still readable there, before somebody goes on in it.

That is so when its page is opened, which shows how to resume it, and before it is forked further. The binder does the
same as the first time: what a crash cut off is repaired, what was continued is kept, and no fork is ever sent again.
"""

from __future__ import annotations

import uuid

from forkhost.kit.leases import Lease
from operations import handover, materialising
from operations.choices import ErrorCode
from operations.materialising import BOUND, BindingFailed
from operations.models import Operation
from operations.saga import transitions
from operations.saga.moves import Lost
from sessions import syncing
from sessions.models import Session
from sessions.providers.base import Json
from sessions.providers.registry import UnknownProvider


def want(session: Session) -> None:
    """Have the session's runner look, unless it did a moment ago; nothing for a session that was not bound."""
    if session.home_id is not None and session.seed_length:
        transitions.want_home_check(session.home_id, session.pk)


def check(operation: Operation, lease: Lease, actor: str) -> None:
    """Look on the runner and give the row back. What stands in the way is shown on the child's page. Raises Lost."""
    if operation.lease_token != lease.token:
        # A worker that stood still since the fork was on its way: nobody asked it to look.
        raise Lost(f"{operation.pk}: home check")
    try:
        proof, problem = _bind(operation), ""
    except BindingFailed as error:
        proof, problem = {}, str(error)
    syncing.note_home(operation.target_session_id, ErrorCode.BINDING_FAILED if problem else "", problem)
    transitions.end_home_check(operation, lease, problem=problem, repaired=list(proof.get("copied") or []), actor=actor)


def require(operation_id: uuid.UUID) -> None:
    """Make sure of the child of a committed fork before it is forked itself. Raises :class:`BindingFailed`."""
    operation = Operation.objects.filter(pk=operation_id).first()
    if operation is not None:
        _bind(operation)


def _bind(operation: Operation) -> Json:
    try:
        adapter = handover.adapter_of(operation)
    except UnknownProvider as error:
        raise BindingFailed(str(error)) from error
    attestation = materialising.attestation_of(operation, adapter)
    request = handover.fork_request(operation, attestation, require_prefix=False)
    accepted = materialising.bound(operation, adapter, request, handover.accepted_of(operation))
    proof: Json = accepted.receipt[BOUND]
    return proof
