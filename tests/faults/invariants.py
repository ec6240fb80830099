"""What has to hold once every operation has come to rest, whatever was killed on the way."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from operations import saga
from operations.choices import MOVES, SETTLEMENTS, OperationStatus
from operations.models import Evidence, Operation, OperationAudit
from sessions import history
from sessions.models import Lineage, Session
from tests.faults.deeds import request_of
from tests.faults.places import Place

S = OperationStatus


@dataclass
class Findings:
    """The figures of one batch, and a sentence for each thing that is wrong."""

    kills: int = 0
    operations: int = 0
    calls: int = 0
    children: int = 0
    unknowns: int = 0
    settled: int = 0
    committed: int = 0
    failed: int = 0
    waiting: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Add another batch's."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.wrong)


@dataclass(frozen=True)
class Before:
    """What was true of a place before anything was prepared."""

    source_bytes: str
    histories: dict[uuid.UUID, tuple[int, bytes]]

    @classmethod
    def of(cls, place: Place) -> Before:
        """Look now."""
        return cls(place.agent.digest(), {source.pk: _history(source.pk) for source in place.sources})


def _history(session_id: uuid.UUID) -> tuple[int, bytes]:
    session = Session.objects.get(pk=session_id)
    return session.last_seq, history.digest_at(session, session.last_seq)


def at_rest(operation: Operation) -> bool:
    """Whether nothing more happens to it by itself."""
    if operation.status == S.UNKNOWN:
        return operation.next_run_at is None
    return operation.status in (S.COMMITTED, S.FAILED) or operation.needs_person


def check(place: Place, asked: list[dict[str, Any]], before: Before) -> Findings:
    """Judge one place whose workers have stopped. ``asked`` are the requests whose operations have to exist."""
    found = Findings()
    operations = {str(row.request_id): row for row in Operation.objects.filter(workspace_id=place.workspace.pk)}
    for request in asked:
        operation = operations.get(request["request"])
        if operation is None or not at_rest(operation):
            state = "is gone" if operation is None else f"stays {operation.status}"
            found.lost.append(f"the operation of request {request['request']} {state}")
        elif saga.prepare(request_of(request)).operation.pk != operation.pk:
            found.lost.append(f"request {request['request']} is answered with another operation than {operation.pk}")
    for operation in operations.values():
        if not at_rest(operation) and str(operation.request_id) not in {request["request"] for request in asked}:
            found.wrong.append(f"{operation.pk}: {operation.status}, and nobody asked for it")
        _count(operation, found)
        _check_audit(operation, found)
        _check_session(place, operation, found)
    _check_agent(place, list(operations.values()), found)
    _check_sources(place, before, found)
    return found


def _count(operation: Operation, found: Findings) -> None:
    reasons = set(OperationAudit.objects.filter(operation_id=operation.pk).values_list("to_status", "reason"))
    found.operations += 1
    found.unknowns += any(after == S.UNKNOWN for after, _ in reasons)
    found.settled += any(reason in SETTLEMENTS for _, reason in reasons)
    found.committed += operation.status == S.COMMITTED
    found.failed += operation.status == S.FAILED
    found.waiting += operation.status not in (S.COMMITTED, S.FAILED)


def _check_audit(operation: Operation, found: Findings) -> None:
    rows = list(OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence"))
    if [row.sequence for row in rows] != list(range(1, operation.version + 1)):
        found.wrong.append(f"{operation.pk}: the audit has a gap")
    at = ""
    for row in rows:
        if row.to_status:
            if row.from_status != at or (at and row.to_status not in MOVES[S(at)]):
                found.wrong.append(f"{operation.pk}: {at or 'nothing'} -> {row.from_status} -> {row.to_status}")
            at = row.to_status
    if at != operation.status:
        found.wrong.append(f"{operation.pk}: is {operation.status}, and its audit ends at {at}")
    if sum(row.to_status == S.DISPATCHING for row in rows) > 1:
        found.doubled.append(f"{operation.pk}: marked for sending twice")
    if operation.status in (S.COMMITTED, S.FAILED) and (operation.lease_token or operation.next_run_at):
        found.wrong.append(f"{operation.pk}: is over and still queued")
    if operation.status == S.UNKNOWN and not operation.needs_person:
        found.wrong.append(f"{operation.pk}: unknown, and nobody is asked")


def _check_session(place: Place, operation: Operation, found: Findings) -> None:
    made = list(Session.objects.filter(fork_operation_id=operation.pk))
    lines = Lineage.objects.filter(operation_id=operation.pk).count()
    if operation.status != S.COMMITTED:
        if made or lines or Session.objects.filter(pk=operation.target_session_id).exists():
            found.wrong.append(f"{operation.pk}: {operation.status}, and has a session")
        return
    if len(made) != 1 or lines != 1:
        found.doubled.append(f"{operation.pk}: {len(made)} sessions, {lines} lines of descent")
        return
    child = made[0]
    whole = (child.pk, child.provider_session_id, child.seed_length)
    if whole != (operation.target_session_id, operation.child_provider_session_id, operation.resolved_seq):
        found.wrong.append(f"{operation.pk}: its session is not whole: {whole}")
    same = Session.objects.filter(home=place.home, provider_session_id=child.provider_session_id).count()
    if same != 1:
        found.doubled.append(f"{operation.pk}: {same} sessions show its child")


def _check_agent(place: Place, operations: list[Operation], found: Findings) -> None:
    """Calls and children as the agent itself has them, against what is claimed about them."""
    children = place.agent.children()
    by_operation = Counter(children.values())
    counted = place.agent.calls()
    calls = by_operation if counted is None else counted
    found.calls, found.children = sum(calls.values()), len(children)
    known = {str(operation.pk): operation for operation in operations}
    for name, times in (calls + by_operation).items():
        if name not in known:
            found.wrong.append(f"the agent was called for {name or 'nobody'}")
        elif calls[name] > 1 or by_operation[name] > 1:
            found.doubled.append(f"{name}: {calls[name]} calls, {by_operation[name]} children ({times})")
        elif calls[name] > known[name].calls:
            found.wrong.append(f"{name}: called without a mark")
    shown = {row.child_provider_session_id for row in operations if row.status == S.COMMITTED}
    shown |= {child for row in operations if not row.completed_at for child in _candidates(row)}
    if len(shown & set(children)) != len(children) or shown - set(children):
        unseen, unmade = set(children) - shown, shown - set(children)
        found.wrong.append(f"children nobody shows: {sorted(unseen)}; shown without being there: {sorted(unmade)}")


def _candidates(operation: Operation) -> set[str]:
    """The children that the newest look-up of an unknown operation lists for a person."""
    newest = Evidence.objects.filter(operation_id=operation.pk).exclude(candidates=[]).order_by("-pk").first()
    return {each["providerSessionId"] for each in newest.candidates} if newest is not None else set()


def _check_sources(place: Place, before: Before, found: Findings) -> None:
    if place.agent.digest() != before.source_bytes:
        found.wrong.append("the bytes of a source changed")
    for source_id, was in before.histories.items():
        if _history(source_id) != was:
            found.wrong.append(f"the history of source {source_id} changed")
        if Session.objects.filter(pk=source_id, write_fence__isnull=False).exists():
            found.wrong.append(f"source {source_id} stays fenced")
