"""The evidence card: all there is to know about one fork before somebody decides about it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from forkhost.kit import clock
from forkhost.kit.read_only import pretty
from operations import receipts, saga
from operations.choices import Act, EvidenceMethod, OperationStatus
from operations.console.rights import may_settle
from operations.console.verbs import offered
from operations.models import Evidence, Operation, OperationAudit
from sessions.models import Home, Runner, Session

if TYPE_CHECKING:
    from sessions.providers.base import Json

REASONS = {
    "exact": "carries this fork's own mark or id",
    "likely": "looks like it, and something else may have made it",
    "none": "does not look like it",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A candidate as the newest look saw it. ``why`` says what speaks for it and ``problem`` what against it."""

    id: str
    path: str
    strength: str
    why: str
    problem: str
    complete: bool
    torn: bool
    verified: bool
    made_at: dt.datetime | None
    facts: Json


def context(operation: Operation, user: User) -> dict[str, Any]:
    """Everything the card's template shows."""
    evidence = list(Evidence.objects.filter(operation_id=operation.pk).order_by("-id"))
    acts = list(OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence"))
    dispatched = next((row for row in acts if row.reason == Act.DISPATCHING), None)
    visible = Session.objects.visible_to(user)
    return {
        "operation": operation,
        "verbs": offered(operation, user) if may_settle(user, operation) else [],
        "assigned_to": _row(User.objects.all(), operation.assigned_to_id),
        "asked_by": _row(User.objects.all(), operation.requested_by_id),
        "runner": _row(Runner.objects.all(), operation.runner_id),
        "home": _row(Home.objects.all(), operation.home_id),
        "proof": dispatched.detail.get("proof") if dispatched is not None else None,
        "evidence": evidence,
        "candidates": candidates(operation, evidence),
        "source": visible.filter(pk=operation.source_session_id).first(),
        "target": visible.filter(pk=operation.target_session_id).first(),
        "acts": acts,
        "settlement": receipts.settlement_words(acts),
        "next_look": operation.next_run_at if operation.status == OperationStatus.UNKNOWN else None,
        "record": pretty(receipts.receipt_json(operation)),
    }


def _row(rows: QuerySet[Any], key: Any) -> Any:
    return rows.filter(pk=key).first() if key is not None else None


def candidates(operation: Operation, evidence: list[Evidence]) -> list[Seen]:
    """What the newest look found, and children that earlier evidence verified; ``evidence`` newest first."""
    verified = set(saga.verified_children(operation.pk))
    seen: dict[str, Seen] = {}
    looks = [row for row in evidence if row.method == EvidenceMethod.LOOKUP and "failed" not in row.detail]
    late = [row for row in evidence if row.method == EvidenceMethod.LATE_ANSWER]
    for row in [*looks[:1], *late]:
        for each in row.candidates:
            seen.setdefault(each["providerSessionId"], _seen(each, verified))
    return list(seen.values())


def _seen(stored: Json, verified: set[str]) -> Seen:
    made = stored.get("createdAtUnixMs")
    facts = dict(stored.get("facts") or {})
    return Seen(
        id=stored["providerSessionId"],
        path=stored.get("path") or "",
        strength=stored["strength"],
        why=REASONS[stored["strength"]],
        problem=str(facts.pop("problem", "") or ""),
        complete=bool(stored["complete"]),
        torn=bool(stored.get("torn")),
        verified=stored["providerSessionId"] in verified,
        made_at=clock.from_ms(made) if made else None,
        facts=facts,
    )
