"""A worker that lost its operation writes nothing but evidence, and evidence settles what it proves."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest
from django.db import connections

from forkhost.kit.leases import Lease
from operations import dispatch, evidence, recovery
from operations.choices import EvidenceMethod, OperationStatus
from operations.dispatch import Reporter
from operations.models import Evidence, Operation
from operations.outcomes import Disposition, Made, NotMade
from operations.saga import transitions
from sessions.models import Session
from sessions.providers.base import Fenced, ForkAccepted, TurnBinding, TurnMapping
from tests.agents.fake_provider import DEAD
from tests.operations.support import ACTOR, LEASE_SECONDS, World, acts

S = OperationStatus


def taken_away(operation: Operation) -> None:
    """Let the lease run out, and the sweep notice."""
    Operation.objects.filter(pk=operation.pk).update(lease_until=operation.prepared_at)
    assert recovery.sweep().lost == 1


class Sending:
    """A worker in a thread of its own, standing inside the provider's call."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            self._world.work()
        finally:
            connections.close_all()

    def __enter__(self) -> Sending:
        self._thread.start()
        self._world.agent.wait_for("inside")
        return self

    def __exit__(self, *error: object) -> None:
        self._world.agent.open("inside")
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.mark.django_db(transaction=True)
def test_a_late_acceptance_is_evidence_and_recovery_adopts_it(world: World) -> None:
    operation = world.prepare()
    world.agent.script({"do": "accept", "gate": "inside"})
    with Sending(world):
        operation.refresh_from_db()
        assert operation.status == S.DISPATCHING
        taken_away(operation)
    operation.refresh_from_db()
    assert (operation.status, operation.error_code) == (S.UNKNOWN, "worker_lost")
    found = Evidence.objects.get(operation_id=operation.pk)
    assert (found.method, found.dispatch_token) == (EvidenceMethod.LATE_ANSWER, operation.dispatch_token)
    assert recovery.sweep().settled == 1
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "unknown", "late_answer", "committed"]
    assert len(world.agent.calls) == 1
    assert recovery.sweep() == recovery.Swept()


@pytest.mark.django_db(transaction=True)
def test_a_late_refusal_settles_as_failed(world: World) -> None:
    operation = world.prepare()
    world.agent.script({"do": "reject", "gate": "inside"})
    with Sending(world):
        operation.refresh_from_db()
        taken_away(operation)
    assert recovery.sweep().settled == 1
    operation.refresh_from_db()
    assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, "turn_gone", 1)


@pytest.mark.django_db(transaction=True)
def test_a_late_doubt_settles_nothing(world: World) -> None:
    operation = world.prepare()
    world.agent.script({"do": "lose", "gate": "inside"})
    with Sending(world):
        operation.refresh_from_db()
        taken_away(operation)
    assert recovery.sweep().settled == 0
    operation.refresh_from_db()
    assert operation.status == S.UNKNOWN


@pytest.mark.django_db(transaction=True)
def test_a_call_that_does_not_come_back_is_unknown_and_its_late_answer_settles_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "OVERDUE_SECONDS", 0.2)
    world.agent.configure(longest=0.0)
    operation = world.prepare()
    world.agent.script({"do": "accept", "gate": "inside"})
    with Sending(world):
        deadline = time.monotonic() + 20
        while operation.status != S.UNKNOWN and time.monotonic() < deadline:
            time.sleep(0.01)
            operation.refresh_from_db()
        assert (operation.status, operation.error_code) == (S.UNKNOWN, "call_overdue")
    assert recovery.sweep().settled == 1
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert len(world.agent.calls) == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_lease_only_ran_out_still_owns_the_operation(world: World) -> None:
    operation = world.prepare()
    world.agent.script({"do": "accept", "gate": "inside"})
    with Sending(world):
        Operation.objects.update(lease_until=operation.prepared_at)
    operation.refresh_from_db()
    assert operation.status == S.COMMITTED
    assert not Evidence.objects.exists()


@pytest.mark.django_db
class TestTheGuards:
    """Each write names the lease, and what was lost stays lost."""

    @pytest.fixture
    def sent(self, world: World) -> tuple[Operation, Lease, uuid.UUID]:
        """An operation that is being sent."""
        operation = world.prepare()
        lease = world.claim()
        assert lease is not None
        token = transitions.mark_dispatching(operation, lease, ACTOR)
        operation.refresh_from_db()
        return operation, lease, token

    @staticmethod
    def acceptance(child: str = "child-late") -> ForkAccepted:
        """What the fake agent would have answered."""
        turn = TurnBinding("turn-3")
        return ForkAccepted(child, [TurnMapping("turn-3", turn)], True, {"childProviderSessionId": child}, None)

    def test_the_mark_is_set_once(self, sent: tuple[Operation, Lease, uuid.UUID]) -> None:
        operation, lease, token = sent
        with pytest.raises(transitions.Lost):
            transitions.mark_dispatching(operation, lease, ACTOR)
        operation.refresh_from_db()
        assert (operation.dispatch_token, operation.calls) == (token, 1)

    def test_a_reporter_stops_an_adapter_whose_worker_lost_the_operation(
        self, sent: tuple[Operation, Lease, uuid.UUID]
    ) -> None:
        operation, lease, token = sent
        reporter = Reporter(operation, lease, token, ACTOR)
        reporter.announce("child-1")
        taken_away(operation)
        with pytest.raises(Fenced):
            reporter.process_started(DEAD)
        with pytest.raises(Fenced):
            reporter.announce("child-2")
        operation.refresh_from_db()
        assert (operation.process, operation.announced_child_id) == (None, "child-1")
        late = Evidence.objects.get(operation_id=operation.pk)
        assert late.detail["child"] == "child-2"
        assert recovery.sweep().settled == 0

    def test_a_fenced_adapter_makes_no_call_and_leaves_no_trace(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        operation = world.prepare()
        mark = transitions.mark_dispatching

        def mark_and_lose(operation: Operation, lease: Lease, actor: str, **proof: Any) -> uuid.UUID:
            token = mark(operation, lease, actor, **proof)
            operation.refresh_from_db()
            taken_away(operation)
            return token

        monkeypatch.setattr(transitions, "mark_dispatching", mark_and_lose)
        world.work(operation)
        assert operation.status == S.UNKNOWN
        assert world.agent.calls == []
        assert not Evidence.objects.exists()

    def test_a_made_child_contradicts_a_failed_operation_and_flips_nothing(
        self, sent: tuple[Operation, Lease, uuid.UUID]
    ) -> None:
        operation, lease, token = sent
        transitions.fail(
            operation, S.DISPATCHING, {"lease_token": lease.token}, code="turn_gone", text="Gone.", actor=ACTOR
        )
        found = evidence.leave_late_answer(operation, token, Made(self.acceptance()), ACTOR)
        assert found is not None
        assert found.contradicts
        recovery.sweep()
        operation.refresh_from_db()
        assert (operation.status, operation.needs_person) == (S.FAILED, True)
        assert acts(operation)[-1] == "contradicted"

    def test_evidence_needs_the_dispatch_token(self, sent: tuple[Operation, Lease, uuid.UUID]) -> None:
        operation, _, _ = sent
        assert evidence.leave_late_answer(operation, uuid.uuid4(), Made(self.acceptance()), ACTOR) is None
        assert not Evidence.objects.exists()

    def test_a_late_child_that_is_taken_meanwhile_is_not_adopted(
        self, world: World, sent: tuple[Operation, Lease, uuid.UUID]
    ) -> None:
        operation, _, token = sent
        taken = world.new_source().provider_session_id
        assert taken is not None
        taken_away(operation)
        evidence.leave_late_answer(operation, token, Made(self.acceptance(taken)), ACTOR)
        assert recovery.sweep().settled == 0
        operation.refresh_from_db()
        assert operation.status == S.UNKNOWN

    def test_of_two_late_answers_the_first_that_proves_something_counts(
        self, sent: tuple[Operation, Lease, uuid.UUID]
    ) -> None:
        operation, _, token = sent
        taken_away(operation)
        evidence.leave_late_answer(operation, token, NotMade(Disposition.NOT_STARTED, "no_runtime", "None."), ACTOR)
        evidence.leave_late_answer(operation, token, Made(self.acceptance()), ACTOR)
        recovery.sweep()
        recovery.sweep()
        operation.refresh_from_db()
        assert (operation.status, operation.error_code) == (S.FAILED, "no_runtime")

    def test_two_workers_with_one_accepted_operation_make_one_child(self, world: World) -> None:
        world.agent.configure(bind="home_full")
        operation = world.fork()
        world.agent.configure(bind="")
        Operation.objects.update(next_run_at=operation.prepared_at)
        first = world.claim()
        assert first is not None
        Operation.objects.update(lease_until=operation.prepared_at)
        second = world.claim()
        assert second is not None
        dispatch.work(second, actor=ACTOR, lease_seconds=LEASE_SECONDS)
        dispatch.work(first, actor=ACTOR, lease_seconds=LEASE_SECONDS)
        operation.refresh_from_db()
        assert operation.status == S.COMMITTED
        assert Session.objects.filter(fork_operation_id=operation.pk).count() == 1
