"""Optimistic: bound after acceptance, a failure stays accepted. Strict: bound while it is sent, a failure is unknown."""

from __future__ import annotations

import pytest

from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from sessions.choices import ForkContract
from sessions.models import Home, Session
from tests.agents.fake_provider import FakeProvider
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


def strict(world: World) -> None:
    world.workspace.fork_contract = ForkContract.STRICT
    world.workspace.save()


def test_optimistic_a_failing_binder_stays_accepted_and_is_tried_again(
    world: World, other: Home, there: FakeProvider, held_clock: HeldClock
) -> None:
    there.configure(bind="home_full")
    operation = world.fork()
    assert (operation.status, operation.error_code) == (S.PROVIDER_ACCEPTED, "binding_failed")
    assert not Session.objects.filter(pk=operation.target_session_id).exists()
    there.configure(bind="")
    held_clock.advance(1)
    world.work(operation)
    assert (operation.status, operation.calls, len(world.agent.calls)) == (S.COMMITTED, 1, 1)
    assert Session.objects.get(pk=operation.target_session_id).home_id == other.pk


def test_strict_the_child_is_bound_before_it_is_accepted(world: World, other: Home, there: FakeProvider) -> None:
    strict(world)
    operation = world.fork()
    assert operation.status == S.COMMITTED
    assert operation.receipt["bound"] == {"home": str(there.folder)}
    assert acts(operation) == ["prepared", "dispatching", "accepted", "committed"]


def test_strict_a_failing_binder_is_unknown_and_the_adopted_child_is_bound_before_it_becomes_a_session(
    world: World, other: Home, there: FakeProvider, held_clock: HeldClock
) -> None:
    strict(world)
    there.configure(bind="home_full")
    operation = world.fork()
    assert (operation.status, operation.error_code) == (S.UNKNOWN, "binding_failed")
    held_clock.advance(3600)
    world.work(operation)
    assert operation.status == S.UNKNOWN, "a child that cannot be bound is not adopted"
    assert not Session.objects.filter(pk=operation.target_session_id).exists()

    there.configure(bind="")
    held_clock.advance(24 * 3600)
    world.work(operation)
    world.work(operation)
    assert (operation.status, len(world.agent.calls)) == (S.COMMITTED, 1)
    assert Session.objects.get(pk=operation.target_session_id).home_id == other.pk
