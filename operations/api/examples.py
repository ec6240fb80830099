"""What a fork looks like in each of its states, for OpenAPI."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample

from operations.choices import Phase, PointType, PublicStatus

_WORKSPACE = "0b9b4f0e-6a55-4a3c-9f5e-2f1c3d1e7a01"
_SOURCE = "3f6c2a1e-8f0b-4f57-9a53-8f3bb4a1c002"
_TARGET = "9d0f7c35-52b7-4c0a-b1f6-0f4e1f2b3003"
_TURN = "c1c8d9f2-70d6-5b0e-8a3c-5f9a1f7d4004"
_CHILD_TURN = "5a2b6e10-1d8f-5c44-9be7-3c6d2e8f5005"
_OPERATION = "7e5d3c1b-2a4f-4e6d-8c9b-1a2b3c4d6006"
_REQUEST = "ci-run-4711-fork-1"
_PREPARED_AT = 1_780_000_000_000

_POINT = {"type": PointType.THROUGH_TURN.value, "turnId": _TURN}

_LINEAGE = {
    "sourceAgentSessionId": _SOURCE,
    "sourceTurnId": _TURN,
    "targetTurnId": _CHILD_TURN,
    "operationId": _OPERATION,
    "forkedAtUnixMs": _PREPARED_AT + 2100,
}

_SESSION: dict[str, Any] = {
    "id": _TARGET,
    "workspaceId": _WORKSPACE,
    "provider": "codex",
    "providerSessionId": "019a2f0e-7155-7c90-b2d5-77f2e8c120c3",
    "runner": {"id": "2c4e6a80-1b3d-4f5a-8c7e-9d0b1a2c7007", "name": "laptop"},
    "kind": "root",
    "rootAgentSessionId": None,
    "parentAgentSessionId": None,
    "parentTurnId": None,
    "parentToolCallId": None,
    "title": "Parser clean-up (2)",
    "preview": "Split the parser in two",
    "cwd": "/home/ada/parser",
    "model": "gpt-5",
    "settings": {},
    "visibility": "workspace",
    "pin": False,
    "detached": False,
    "deletedAtUnixMs": None,
    "createdAtUnixMs": _PREPARED_AT,
    "updatedAtUnixMs": _PREPARED_AT,
    "turnCount": 3,
    "lastSeq": 24,
    "seedLength": 24,
    "historyRevision": 0,
    "activity": "idle",
    "lifecycleCapabilities": {"fork": True, "forkThroughTurn": True, "reason": None},
    "forkedFrom": _LINEAGE,
    "observedParent": None,
    "resumeCommand": "codex resume 019a2f0e-7155-7c90-b2d5-77f2e8c120c3",
}


def _operation(status: PublicStatus, phase: Phase, **members: Any) -> dict[str, Any]:
    return {
        "operationId": _OPERATION,
        "requestId": _REQUEST,
        "sourceAgentSessionId": _SOURCE,
        "targetAgentSessionId": _TARGET,
        "point": _POINT,
        "resolvedPoint": {"turnId": _TURN, "seq": 24},
        "status": status.value,
        "phase": phase.value,
        "session": None,
        "lineage": None,
        "error": None,
        "calls": 0,
        "preparedAtUnixMs": _PREPARED_AT,
        "dispatchedAtUnixMs": None,
        "acceptedAtUnixMs": None,
        "completedAtUnixMs": None,
        "observedAtUnixMs": None,
        "unknownSinceUnixMs": None,
        **members,
    }


ACCEPTED = _operation(PublicStatus.ACCEPTED, Phase.FROZEN)
COMMITTED = _operation(
    PublicStatus.COMMITTED,
    Phase.COMMITTED,
    session=_SESSION,
    lineage=_LINEAGE,
    calls=1,
    dispatchedAtUnixMs=_PREPARED_AT + 40,
    acceptedAtUnixMs=_PREPARED_AT + 2080,
    completedAtUnixMs=_PREPARED_AT + 2100,
)
FAILED = _operation(
    PublicStatus.FAILED,
    Phase.FAILED,
    error={"code": "home_missing", "message": "The agent's folder is gone from this machine."},
    completedAtUnixMs=_PREPARED_AT + 60,
)
UNKNOWN = _operation(
    PublicStatus.UNKNOWN,
    Phase.DELIVERY_UNKNOWN,
    error={
        "code": "worker_lost",
        "message": "The worker stopped while it waited for the answer. Nothing is sent again; evidence is looked for.",
    },
    calls=1,
    dispatchedAtUnixMs=_PREPARED_AT + 40,
    unknownSinceUnixMs=_PREPARED_AT + 60_000,
)

FORK_EXAMPLES = [
    OpenApiExample(
        name,
        {"requestId": _REQUEST, "targetAgentSessionId": _TARGET, "point": point},
        request_only=True,
    )
    for name, point in (
        ("Through a turn", _POINT),
        ("At a message", {"type": PointType.AT_SEQ.value, "seq": 17}),
        ("The whole conversation", {"type": PointType.LATEST_SETTLED.value}),
    )
]

ON_ITS_WAY = OpenApiExample("accepted", ACCEPTED, response_only=True, status_codes=["202", "200"])
OPERATION_EXAMPLES = [
    ON_ITS_WAY,
    OpenApiExample("committed", COMMITTED, response_only=True, status_codes=["200"]),
    OpenApiExample("failed", FAILED, response_only=True, status_codes=["200"]),
    OpenApiExample("unknown", UNKNOWN, response_only=True, status_codes=["200"]),
]
