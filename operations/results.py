"""The child's projection as it was when its fork was committed, told from the operation's row alone.

Most of it follows from what the row says anyway; only the rest is written down.
"""

from __future__ import annotations

from typing import Any

from operations.models import Operation
from sessions.choices import Activity, SessionKind
from sessions.store import Snapshot

Json = dict[str, Any]

_MADE_AT = "createdAtUnixMs"
_NOTHING = object()


def rest_of(operation: Operation, shown: Json) -> Json:
    """What ``result_session`` has to hold so that :func:`session_of` gives ``shown``, the projection of the new child."""
    followed = _followed(operation, shown[_MADE_AT])
    rest = {name: value for name, value in shown.items() if followed.get(name, _NOTHING) != value}
    return {_MADE_AT: shown[_MADE_AT], **rest}


def session_of(operation: Operation) -> Json | None:
    """The child as the API showed it when it was made, also after it is gone; None before the commit."""
    rest: Json | None = operation.result_session
    return None if rest is None else {**_followed(operation, rest[_MADE_AT]), **rest}


def lineage_of(operation: Operation) -> Json | None:
    """The lineage of a committed operation; None before the commit."""
    return None if operation.result_session is None else _lineage(operation, operation.result_session[_MADE_AT])


def _followed(operation: Operation, made_at_unix_ms: int) -> Json:
    """The projection as far as it follows from the row: a new root with the frozen history and nothing of its own."""
    snapshot = Snapshot.from_json(operation.snapshot)
    facts = snapshot.session
    return {
        "id": str(operation.target_session_id),
        "workspaceId": str(operation.workspace_id),
        "provider": operation.provider,
        "providerSessionId": operation.child_provider_session_id,
        "runner": None,
        "kind": SessionKind.ROOT.value,
        "rootAgentSessionId": None,
        "parentAgentSessionId": None,
        "parentTurnId": None,
        "parentToolCallId": None,
        "title": operation.title,
        "preview": facts["preview"],
        "cwd": facts["cwd"],
        "model": facts["model"],
        "settings": facts["settings"],
        "visibility": facts["visibility"],
        "pin": False,
        "detached": False,
        "deletedAtUnixMs": None,
        "createdAtUnixMs": made_at_unix_ms,
        "updatedAtUnixMs": made_at_unix_ms,
        "turnCount": snapshot.turn_count,
        "lastSeq": snapshot.boundary,
        "seedLength": snapshot.boundary,
        "historyRevision": 0,
        "activity": Activity.IDLE.value,
        "lifecycleCapabilities": {"fork": True, "forkThroughTurn": True, "reason": None},
        "forkedFrom": _lineage(operation, made_at_unix_ms),
        "observedParent": None,
        "resumeCommand": None,
    }


def _lineage(operation: Operation, made_at_unix_ms: int) -> Json:
    turn_id, target_id = operation.resolved_turn_id, operation.target_turn_id
    return {
        "sourceAgentSessionId": str(operation.source_session_id),
        "sourceTurnId": None if turn_id is None else str(turn_id),
        "targetTurnId": None if target_id is None else str(target_id),
        "operationId": str(operation.pk),
        "forkedAtUnixMs": made_at_unix_ms,
    }
