"""Reading, never writing: what a provider shows about a fork whose outcome is unknown, and what follows from it.

Automatic settlement needs one exact, complete and verified child, or the proof that there is none. Everything else is
kept for a person, and so is proof in a workspace that is always asked.
"""

from __future__ import annotations

import uuid
from typing import Any

import structlog
from django.db import DatabaseError, transaction

from forkhost.kit import clock, processes
from forkhost.kit.leases import Lease
from operations import handover, materialising, outcomes
from operations.choices import Act, ErrorCode, EvidenceMethod, IdentityMode, OperationStatus
from operations.contracts import policy
from operations.models import Evidence, Operation, OperationAudit
from operations.outcomes import Made, NotMade, Outcome
from operations.saga import transitions
from operations.saga.moves import Lost
from operations.schedule import next_look
from sessions import payloads
from sessions.choices import Settlement
from sessions.models import Workspace
from sessions.providers.base import (
    Adapter,
    Candidate,
    ChildSearch,
    ForkAccepted,
    ForkRequest,
    Json,
    MatchStrength,
    ProviderError,
)
from sessions.providers.registry import UnknownProvider

log = structlog.get_logger(__name__)

# A provider's clock and the database's may differ a little; an older child is certainly not ours.
CLOCK_SLACK_MS = 5_000
VERIFY_AT_MOST = 5

IMPORTER = "importer"


# --------------------------------------------------------------------------------------------------------------------
# Late answers


def leave_late_answer(operation: Operation, dispatch_token: uuid.UUID, outcome: Outcome, actor: str) -> Evidence | None:
    """What a worker that lost its operation may still do: say what it saw, under the dispatch token it was given.

    Returns None when the token is not the operation's. On a failed operation a made child contradicts.
    """
    with transaction.atomic():
        # The lock keeps the state from changing between the look at it and the evidence.
        current = (
            Operation.objects.select_for_update(no_key=True)
            .filter(pk=operation.pk, dispatch_token=dispatch_token)
            .only("status")
            .first()
        )
        if current is None:
            return None
        contradicts = current.status == OperationStatus.FAILED and isinstance(outcome, Made)
        evidence = _keep(
            operation.pk,
            EvidenceMethod.LATE_ANSWER,
            dispatch_token=dispatch_token,
            contradicts=contradicts,
            candidates=[_late_candidate(outcome.accepted)] if isinstance(outcome, Made) else [],
            detail=outcomes.to_json(outcome),
        )
        if contradicts:
            transitions.contradict(operation.pk, actor=actor, evidence_id=evidence.pk)
    log.warning("late_answer_kept", operation_id=str(operation.pk), evidence=evidence.pk, contradicts=contradicts)
    return evidence


def settle_late_answer(operation: Operation, actor: str) -> bool:
    """Settle an unknown operation from what its own call answered too late; whether it was settled."""
    for evidence in Evidence.objects.filter(operation_id=operation.pk, method=EvidenceMethod.LATE_ANSWER):
        if evidence.dispatch_token != operation.dispatch_token:
            continue
        outcome = outcomes.from_json(evidence.detail)
        where = {"version": operation.version}
        try:
            if isinstance(outcome, Made | NotMade) and not settles_by_itself(operation):
                _let_proof_wait(operation, where, evidence, actor)
                continue
            if isinstance(outcome, Made):
                _adopt(operation, where, outcome.accepted, Act.LATE_ANSWER, actor, evidence.pk)
            elif isinstance(outcome, NotMade):
                transitions.fail(
                    operation,
                    OperationStatus.UNKNOWN,
                    where,
                    code=outcome.code,
                    text=outcome.text,
                    actor=actor,
                    why=Act.LATE_ANSWER,
                    detail={"evidence": evidence.pk},
                )
            else:
                continue
        except (Lost, transitions.ChildTaken) as error:
            log.warning("late_answer_not_settled", operation_id=str(operation.pk), error=str(error))
            continue
        return True
    return False


def settles_by_itself(operation: Operation) -> bool:
    """Whether proof alone settles forks of this workspace."""
    settlement = Workspace.objects.filter(pk=operation.workspace_id).values_list("settlement", flat=True).first()
    return settlement == Settlement.AUTOMATIC


def _let_proof_wait(operation: Operation, where: dict[str, Any], evidence: Evidence, actor: str) -> None:
    """Ask for a person, once for each piece of evidence. Raises Lost."""
    asked = OperationAudit.objects.filter(operation_id=operation.pk, reason=Act.PROOF_WAITS)
    if any(row.detail.get("evidence") == evidence.pk for row in asked):
        return
    transitions.note_lookup(
        operation,
        where,
        {"next_run_at": None, "needs_person": True},
        actor=actor,
        evidence_id=evidence.pk,
        why=Act.PROOF_WAITS,
    )


def hand_over_finding(operation: Operation, child_id: str, reason: str) -> None:
    """The importer came across a session that may be the operation's child: keep that once, and have it looked at."""
    known = Evidence.objects.filter(operation_id=operation.pk, method=EvidenceMethod.IMPORTER)
    if any(row.detail.get("child") == child_id for row in known):
        return
    contradicts = operation.status == OperationStatus.FAILED
    evidence = _keep(
        operation.pk,
        EvidenceMethod.IMPORTER,
        dispatch_token=operation.dispatch_token,
        contradicts=contradicts,
        detail={"child": child_id, "reason": reason},
    )
    try:
        if contradicts:
            transitions.contradict(operation.pk, actor=IMPORTER, evidence_id=evidence.pk)
        elif operation.status == OperationStatus.UNKNOWN:
            transitions.look_now(operation.pk, actor=IMPORTER, evidence_id=evidence.pk)
    except Lost as lost:
        log.info("finding_came_too_late", operation_id=str(operation.pk), reason=str(lost))


def _late_candidate(accepted: ForkAccepted) -> Json:
    return {
        "providerSessionId": accepted.child_provider_session_id,
        "strength": MatchStrength.EXACT.value,
        "complete": True,
        "path": str(accepted.child_path or ""),
    }


# --------------------------------------------------------------------------------------------------------------------
# Look-ups


def look_up(operation: Operation, lease: Lease, actor: str) -> None:
    """One look at the provider for the child of an unknown operation, on its own runner. Raises Lost."""
    where = {"lease_token": lease.token}
    try:
        adapter = handover.adapter_of(operation)
        rules = policy(operation.contract)
        request = handover.fork_request(
            operation, materialising.attestation_of(operation, adapter), require_prefix=rules.require_prefix
        )
        # Asked before looking: a caller that makes the child after the look and then dies would prove a wrong absence.
        dead = caller_is_dead(operation)
        search = adapter.find_children(request, _since_ms(operation), operation.announced_child_id)
        if operation.removal is not None:
            search = _remove_torn(operation, where, adapter, request, search, dead, actor)
    except (ProviderError, UnknownProvider) as error:
        _stay(operation, where, _keep_failure(operation, str(error)), actor)
        return
    except (DatabaseError, Lost):
        raise
    except Exception as error:
        log.exception("look_up_failed")
        _stay(operation, where, _keep_failure(operation, f"{type(error).__name__}: {error}"), actor)
        return
    verified = _verify(operation, adapter, request, search)
    evidence = _keep(
        operation.pk,
        EvidenceMethod.LOOKUP,
        dispatch_token=operation.dispatch_token,
        candidates=[_candidate_json(candidate) for candidate in search.candidates],
        absence_proves=search.absence_proves and dead,
        detail={
            "method": search.method,
            "detail": search.detail,
            "processDead": dead,
            "verified": {child: handover.accepted_to_json(accepted) for child, accepted in verified.items()},
        },
    )
    _conclude(operation, where, search, verified, dead, evidence, actor)


def caller_is_dead(operation: Operation) -> bool:
    """Whether nothing can make the child any more: the calling process is gone, or was never allowed to call.

    Without a recorded process the adapter was never let through to its call, and is not let through from unknown on.
    """
    if operation.process is None:
        return True
    return processes.is_dead(handover.process_from_json(operation.process), operation.process.get("namespace"))


def _remove_torn(
    operation: Operation,
    where: dict[str, Any],
    adapter: Adapter,
    request: ForkRequest,
    search: ChildSearch,
    dead: bool,
    actor: str,
) -> ChildSearch:
    """Try once what an operator asked for, keep what came of it, and look again. Raises Lost, ProviderError."""
    wish = operation.removal or {}
    found = [each for each in search.candidates if each.provider_session_id == wish["child"] and each.torn]
    removed: Json | None = None
    problem = ""
    if not dead:
        problem = "The process that made the call still runs, so the child may not be torn yet."
    elif len(found) != 1 or str(found[0].path or "") != wish["path"]:
        problem = "This child is not there, or is not torn any more."
    else:
        try:
            removed = adapter.remove_torn(request, found[0])
        except ProviderError as error:
            problem = error.message
    kept = _keep(
        operation.pk,
        EvidenceMethod.OPERATOR,
        dispatch_token=operation.dispatch_token,
        detail={"wish": wish, "removed": removed, "problem": problem},
    )
    transitions.end_removal(
        operation, where, removed=removed is not None, actor=actor, detail={"evidence": kept.pk, **wish}
    )
    log.warning("torn_child", operation_id=str(operation.pk), child=wish["child"], removed=removed, problem=problem)
    return adapter.find_children(request, _since_ms(operation), operation.announced_child_id)


def _removed_children(operation: Operation) -> set[str]:
    rows = Evidence.objects.filter(operation_id=operation.pk, method=EvidenceMethod.OPERATOR)
    return {row.detail["removed"]["childProviderSessionId"] for row in rows if row.detail.get("removed")}


def _conclude(
    operation: Operation,
    where: dict[str, Any],
    search: ChildSearch,
    verified: dict[str, ForkAccepted],
    dead: bool,
    evidence: Evidence,
    actor: str,
) -> None:
    child = _proven_child(operation, search, verified)
    removed = _removed_children(operation)
    absent = _proven_absent(operation, search, removed) and dead
    if (child or absent) and not settles_by_itself(operation):
        _stay(operation, where, evidence, actor, proof=True)
        return
    if child is not None:
        try:
            _adopt(operation, where, child, Act.ADOPTED, actor, evidence.pk)
        except transitions.ChildTaken:
            log.warning("found_child_taken", operation_id=str(operation.pk))
        else:
            return
    if absent:
        _fail_as_absent(operation, where, evidence, removed, actor)
        return
    _stay(operation, where, evidence, actor)


def _proven_child(operation: Operation, search: ChildSearch, verified: dict[str, ForkAccepted]) -> ForkAccepted | None:
    """The one exact, complete and verified child; None where there is none, or more than one."""
    exact = [candidate for candidate in search.candidates if candidate.strength is MatchStrength.EXACT]
    # A wrong child was seen and refused once; only a person may think otherwise.
    if operation.error_code == ErrorCode.WRONG_CHILD or len(exact) != 1 or not exact[0].complete:
        return None
    return verified.get(exact[0].provider_session_id)


def _proven_absent(operation: Operation, search: ChildSearch, removed: set[str]) -> bool:
    """Whether an announced or marked child would have been seen; a search by likeness proves nothing."""
    if operation.identity_mode == IdentityMode.SEARCH or not search.absence_proves:
        return False
    seen = [candidate for candidate in search.candidates if candidate.strength is not MatchStrength.NONE]
    return not seen and operation.child_provider_session_id in ("", *removed)


def _fail_as_absent(
    operation: Operation, where: dict[str, Any], evidence: Evidence, removed: set[str], actor: str
) -> None:
    code, text = ErrorCode.PROVEN_NOT_CREATED, "The agent's own records prove that it did not make the fork."
    if removed:
        code, text = (
            ErrorCode.TORN_CHILD_REMOVED,
            "The agent left a broken-off fork behind, which an operator had removed; nothing else was made.",
        )
    transitions.fail(
        operation,
        OperationStatus.UNKNOWN,
        where,
        code=code,
        text=text,
        actor=actor,
        why=Act.PROVEN_NOT_CREATED,
        detail={"evidence": evidence.pk},
    )


def _stay(operation: Operation, where: dict[str, Any], evidence: Evidence, actor: str, *, proof: bool = False) -> None:
    again = None if proof else next_look(operation.dispatched_at)
    transitions.note_lookup(
        operation,
        where,
        {"looks": operation.looks + 1, "next_run_at": again, "needs_person": again is None, "attempts": 0},
        actor=actor,
        evidence_id=evidence.pk,
        why=Act.PROOF_WAITS if proof else Act.LOOKED_UP,
    )


def _adopt(
    operation: Operation, where: dict[str, Any], accepted: ForkAccepted, why: Act, actor: str, evidence_id: int
) -> None:
    transitions.adopt(operation, where, accepted, why=why, actor=actor, detail={"evidence": evidence_id})
    log.info("unknown_settled", operation_id=str(operation.pk), child=accepted.child_provider_session_id)


def _verify(
    operation: Operation, adapter: Adapter, request: ForkRequest, search: ChildSearch
) -> dict[str, ForkAccepted]:
    """What can be proven about the candidates, so that a person elsewhere can adopt without the provider's files."""
    rules = policy(operation.contract)
    verified: dict[str, ForkAccepted] = {}
    likely_first = sorted(search.candidates, key=lambda candidate: candidate.strength is not MatchStrength.EXACT)
    for candidate in likely_first[:VERIFY_AT_MOST]:
        if candidate.strength is MatchStrength.NONE or not candidate.complete:
            continue
        child_id = candidate.provider_session_id
        try:
            accepted = adapter.verify(request, child_id)
            gap = rules.unproven(request, accepted)
            if not gap and rules.binds_before_acceptance:
                accepted = materialising.bound(operation, adapter, request, accepted)
        except (ProviderError, materialising.BindingFailed) as error:
            gap = str(error)
        if gap:
            log.info("candidate_not_verified", child=child_id, reason=gap)
        else:
            verified[child_id] = accepted
    return verified


def _since_ms(operation: Operation) -> int:
    at = operation.dispatched_at or operation.prepared_at
    return clock.to_ms(at) - CLOCK_SLACK_MS


def _keep_failure(operation: Operation, text: str) -> Evidence:
    return _keep(
        operation.pk,
        EvidenceMethod.LOOKUP,
        dispatch_token=operation.dispatch_token,
        detail={"failed": payloads.clip(text, 2000)},
    )


def _candidate_json(candidate: Candidate) -> Json:
    return {
        "providerSessionId": candidate.provider_session_id,
        "strength": candidate.strength.value,
        "complete": candidate.complete,
        "createdAtUnixMs": candidate.created_at_ms,
        "path": str(candidate.path or ""),
        "torn": candidate.torn,
        "facts": candidate.facts,
    }


def _keep(
    operation_id: uuid.UUID,
    method: EvidenceMethod,
    *,
    dispatch_token: uuid.UUID | None,
    candidates: list[Json] | None = None,
    absence_proves: bool = False,
    contradicts: bool = False,
    detail: Json,
) -> Evidence:
    kept: Evidence = Evidence.objects.create(
        operation_id=operation_id,
        dispatch_token=dispatch_token,
        at=clock.now(),
        method=method,
        candidates=[payloads.plain_json(candidate) for candidate in candidates or []],
        absence_proves=absence_proves,
        contradicts=contradicts,
        detail=payloads.plain_json(detail),
    )
    return kept
