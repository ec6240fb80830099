"""An operation as the API shows it, from its own row alone: also when source and child are gone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from forkhost.kit import clock
from operations import results
from operations.choices import PHASE, PUBLIC_STATUS, OperationStatus
from operations.models import Operation


def operation_json(operation: Operation) -> dict[str, Any]:
    """The public operation. ``session`` and ``lineage`` belong to a committed one, ``error`` to failed and unknown."""
    status = OperationStatus(operation.status)
    committed = status == OperationStatus.COMMITTED
    return {
        "operationId": str(operation.pk),
        "requestId": operation.request_id,
        "sourceAgentSessionId": str(operation.source_session_id),
        "targetAgentSessionId": str(operation.target_session_id),
        "point": operation.point,
        "resolvedPoint": {"turnId": _id(operation.resolved_turn_id), "seq": operation.resolved_seq},
        "status": PUBLIC_STATUS[status].value,
        "phase": PHASE[status].value,
        "session": results.session_of(operation) if committed else None,
        "lineage": results.lineage_of(operation) if committed else None,
        "error": _error(operation, status),
        "calls": operation.calls,
        "preparedAtUnixMs": clock.to_ms(operation.prepared_at),
        "dispatchedAtUnixMs": _ms(operation.dispatched_at),
        "acceptedAtUnixMs": _ms(operation.accepted_at),
        "completedAtUnixMs": _ms(operation.completed_at),
        "observedAtUnixMs": _ms(operation.observed_at),
        "unknownSinceUnixMs": _ms(operation.unknown_since),
    }


def _error(operation: Operation, status: OperationStatus) -> dict[str, str] | None:
    if status not in (OperationStatus.FAILED, OperationStatus.UNKNOWN):
        return None
    return {"code": operation.error_code, "message": operation.error_text}


def _id(value: Any) -> str | None:
    return None if value is None else str(value)


def _ms(at: dt.datetime | None) -> int | None:
    return None if at is None else clock.to_ms(at)
