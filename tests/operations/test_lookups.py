"""Unknown forks are looked up by a schedule; only proof settles them, and nothing is ever sent."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from forkhost.kit import processes
from forkhost.kit.clock import HeldClock
from operations import saga
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from operations.schedule import LOOKUPS
from sessions import store
from sessions.models import Event, Session
from sessions.providers.base import ChildSearch, ForkRequest
from tests.agents.fake_provider import FakeAdapter
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


def unknown(world: World, step: str = "lose", **config: Any) -> Operation:
    """A fork whose outcome is not known."""
    world.agent.configure(**config)
    world.agent.script(step)
    operation = world.fork()
    assert operation.status == S.UNKNOWN
    return operation


def test_look_ups_follow_the_schedule_from_dispatch_and_then_a_person_is_needed(
    world: World, held_clock: HeldClock
) -> None:
    operation = unknown(world, absence_proves=False)
    assert operation.dispatched_at is not None
    for number, seconds in enumerate(LOOKUPS, start=1):
        due = operation.dispatched_at + dt.timedelta(seconds=seconds)
        assert (operation.next_run_at, operation.needs_person) == (due, False)
        held_clock.advance((due - held_clock.at).total_seconds() - 0.01)
        assert world.claim() is None
        held_clock.advance(0.01)
        world.work(operation)
        assert (operation.status, operation.looks) == (S.UNKNOWN, number)
    assert (operation.next_run_at, operation.needs_person) == (None, True)
    assert Evidence.objects.filter(operation_id=operation.pk).count() == len(LOOKUPS)
    assert len(world.agent.calls) == 1


def test_one_exact_complete_child_is_adopted_and_becomes_the_session(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "lose_answer")
    held_clock.advance(60)
    world.work(operation)
    assert (operation.status, operation.error_code, operation.unknown_since) == (S.PROVIDER_ACCEPTED, "", None)
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert Session.objects.get(pk=operation.target_session_id).provider_session_id == world.agent.children[0]["id"]
    assert acts(operation) == ["prepared", "dispatching", "unknown", "adopted", "committed"]
    assert len(world.agent.calls) == 1


def test_two_exact_children_are_for_a_person(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "lose_answer")
    first = world.agent.children[0]
    world.agent.add_child(source=first["source"], turn=first["turn"], marker=first["marker"])
    held_clock.advance(60)
    world.work(operation)
    assert (operation.status, operation.looks) == (S.UNKNOWN, 1)
    evidence = Evidence.objects.get(operation_id=operation.pk)
    assert len(evidence.candidates) == 2
    assert set(evidence.detail["verified"]) == {child["id"] for child in world.agent.children}


def test_a_likely_child_is_for_a_person(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "lose_answer", identity_mode="search")
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.UNKNOWN
    candidate = Evidence.objects.get(operation_id=operation.pk).candidates[0]
    assert candidate["strength"] == "likely"
    chosen = saga.adopt(
        operation.pk,
        candidate["providerSessionId"],
        actor="user:operator",
        reason="Made at that second.",
        expected_version=operation.version,
    )
    assert chosen.status == S.PROVIDER_ACCEPTED
    world.work(operation)
    assert operation.status == S.COMMITTED


def test_a_torn_child_is_not_adopted(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "torn")
    held_clock.advance(60)
    world.work(operation)
    assert (operation.status, operation.looks) == (S.UNKNOWN, 1)
    assert Evidence.objects.get(operation_id=operation.pk).detail["verified"] == {}


@pytest.mark.parametrize(
    ("process", "status", "code"),
    [
        ("dead", S.FAILED, "proven_not_created"),
        ("none", S.FAILED, "proven_not_created"),
        ("self", S.UNKNOWN, "no_answer"),
    ],
)
def test_absence_proves_failure_only_when_the_caller_is_dead_or_never_called(
    world: World, held_clock: HeldClock, process: str, status: S, code: str
) -> None:
    operation = unknown(world, "lose", process=process)
    held_clock.advance(60)
    world.work(operation)
    assert (operation.status, operation.error_code) == (status, code)
    assert (acts(operation)[-1] == "proven_not_created") == (status == S.FAILED)
    assert len(world.agent.calls) == 1


def test_a_caller_in_another_container_is_not_proven_dead(
    world: World, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = unknown(world, "lose", process="self")
    Operation.objects.filter(pk=operation.pk).update(process={**(operation.process or {}), "started_at": "1"})
    here = processes.pid_namespace()
    monkeypatch.setattr(processes, "pid_namespace", lambda: "pid:[1]")
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.UNKNOWN
    monkeypatch.setattr(processes, "pid_namespace", lambda: here)
    held_clock.advance(240)
    world.work(operation)
    assert operation.status == S.FAILED


def test_a_caller_that_dies_after_the_look_proves_no_absence(
    world: World, held_clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = unknown(world, "lose", process="self")
    caller = [False]
    look = FakeAdapter.find_children

    def look_then_die(self: FakeAdapter, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        seen = look(self, request, since_ms, announced_id)
        world.agent.add_child(source=request.source.provider_session_id, marker=request.marker, turn="turn-3")
        caller[0] = True
        return seen

    monkeypatch.setattr(FakeAdapter, "find_children", look_then_die)
    monkeypatch.setattr(processes, "is_dead", lambda identity, namespace: caller[0])
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.UNKNOWN
    monkeypatch.setattr(FakeAdapter, "find_children", look)
    held_clock.advance(240)
    world.work(operation)
    world.work(operation)
    assert operation.status == S.COMMITTED


def test_what_a_failed_fork_kept_of_a_purged_source_goes(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "lose", process="dead")
    store.tombstone(world.source.pk, actor="user:member")
    store.purge(world.source.pk, actor="user:member")
    assert Event.objects.exists()
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.FAILED
    assert not Event.objects.exists()


@pytest.mark.parametrize("config", [{"absence_proves": False}, {"confirm": "away"}])
def test_absence_that_proves_nothing_keeps_it_unknown(
    world: World, held_clock: HeldClock, config: dict[str, Any]
) -> None:
    operation = unknown(world, "lose", process="dead")
    world.agent.configure(**config)
    held_clock.advance(60)
    world.work(operation)
    assert (operation.status, operation.looks) == (S.UNKNOWN, 1)


def test_an_announced_child_is_found_by_its_id_alone(world: World, held_clock: HeldClock) -> None:
    world.agent.configure(identity_mode="announced")
    world.attest()
    operation = unknown(world, {"do": "lose_answer", "announce": True})  # type: ignore[arg-type]
    assert operation.announced_child_id == world.agent.children[0]["id"]
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.PROVIDER_ACCEPTED


def test_a_fork_is_adopted_after_its_source_was_purged(world: World, held_clock: HeldClock) -> None:
    operation = unknown(world, "lose_answer")
    store.tombstone(world.source.pk, actor="user:member")
    store.purge(world.source.pk, actor="user:member")
    held_clock.advance(60)
    world.work(operation)
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert Session.objects.get(pk=operation.target_session_id).turn_count == 3
