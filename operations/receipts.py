"""The receipt of an operation: what was asked, done, seen and decided, from its own rows alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.contrib.auth.models import User

from forkhost.kit import clock
from operations.choices import PHASE, PUBLIC_STATUS, SETTLEMENTS, Act, OperationStatus
from operations.models import Evidence, Operation, OperationAudit
from sessions.models import Runner


def receipt_json(operation: Operation) -> dict[str, Any]:
    """The whole receipt. Times are Unix milliseconds; what has not happened is null."""
    acts = list(OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence"))
    evidence = list(Evidence.objects.filter(operation_id=operation.pk).order_by("id"))
    status = OperationStatus(operation.status)
    failed = status in (OperationStatus.FAILED, OperationStatus.UNKNOWN)
    return {
        "operationId": str(operation.pk),
        "workspaceId": str(operation.workspace_id),
        "status": PUBLIC_STATUS[status].value,
        "phase": PHASE[status].value,
        "calls": operation.calls,
        "needsPerson": operation.needs_person,
        "nextLookAtUnixMs": _next_look(operation),
        "request": {
            "requestId": operation.request_id,
            "requestHash": operation.request_hash,
            "requestedBy": _username(operation.requested_by_id),
            "point": operation.point,
            "title": operation.title,
            "contract": operation.contract,
        },
        "source": {
            "agentSessionId": str(operation.source_session_id),
            "providerSessionId": operation.source_provider_session_id,
            "turnId": _id(operation.resolved_turn_id),
            "seq": operation.resolved_seq,
        },
        "target": {
            "agentSessionId": str(operation.target_session_id),
            "providerSessionId": operation.child_provider_session_id,
            "turnId": _id(operation.target_turn_id),
            "seq": operation.target_seq,
        },
        "agent": {
            "provider": operation.provider,
            "driver": operation.driver_kind,
            "version": operation.driver_version,
            "fingerprint": operation.fingerprint,
            "runner": _runner(operation),
        },
        "times": {
            "preparedAtUnixMs": _ms(operation.prepared_at),
            "dispatchedAtUnixMs": _ms(operation.dispatched_at),
            "acceptedAtUnixMs": _ms(operation.accepted_at),
            "completedAtUnixMs": _ms(operation.completed_at),
            "observedAtUnixMs": _ms(operation.observed_at),
            "unknownSinceUnixMs": _ms(operation.unknown_since),
        },
        "error": {"code": operation.error_code, "message": operation.error_text} if failed else None,
        "settlement": settlement_json(acts),
        "acts": [_act(row) for row in acts],
        "evidence": [_evidence(row) for row in evidence],
        "providerReceipt": operation.receipt,
    }


def settlement_json(acts: list[OperationAudit]) -> dict[str, Any] | None:
    """Who or what ended the uncertainty, and why; None when there was none, or it lasts."""
    for row in acts:
        if row.from_status == OperationStatus.UNKNOWN and row.reason in SETTLEMENTS:
            return {
                "kind": row.reason,
                "by": row.actor,
                "reason": row.detail.get("reason") or None,
                "evidenceId": row.detail.get("evidence"),
                "atUnixMs": _ms(row.at),
            }
    return None


def settlement_words(acts: list[OperationAudit]) -> str:
    """The settlement as a sentence, "" when there is none."""
    settled = settlement_json(acts)
    if settled is None:
        return ""
    person = settled["by"].removeprefix("user:") if settled["by"].startswith("user:") else ""
    sentence = {
        Act.LATE_ANSWER: "The agent's own answer arrived late and settled it.",
        Act.PROVEN_NOT_CREATED: "A look at the agent proved that nothing usable was made.",
        Act.CONFIRMED_NOT_CREATED: f"The operator {person} confirmed that nothing was made.",
        Act.ADOPTED: f"The operator {person} adopted the fork that a look at the agent had found and verified."
        if person
        else "A look at the agent found the fork and verified it.",
    }[Act(settled["kind"])]
    return f"{sentence} Reason given: {settled['reason']}" if settled["reason"] else sentence


def _act(row: OperationAudit) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "act": row.reason,
        "from": row.from_status or None,
        "to": row.to_status or None,
        "by": row.actor,
        "detail": row.detail,
        "atUnixMs": _ms(row.at),
    }


def _evidence(row: Evidence) -> dict[str, Any]:
    return {
        "id": row.pk,
        "method": row.method,
        "candidates": row.candidates,
        "absenceProves": row.absence_proves,
        "contradicts": row.contradicts,
        "detail": row.detail,
        "atUnixMs": _ms(row.at),
    }


def _next_look(operation: Operation) -> int | None:
    return _ms(operation.next_run_at) if operation.status == OperationStatus.UNKNOWN else None


def _runner(operation: Operation) -> str | None:
    if operation.runner_id is None:
        return None
    found: str | None = Runner.objects.filter(pk=operation.runner_id).values_list("name", flat=True).first()
    return found


def _username(user_id: int | None) -> str | None:
    if user_id is None:
        return None
    return User.objects.filter(pk=user_id).values_list("username", flat=True).first()


def _id(value: Any) -> str | None:
    return None if value is None else str(value)


def _ms(at: dt.datetime | None) -> int | None:
    return None if at is None else clock.to_ms(at)
