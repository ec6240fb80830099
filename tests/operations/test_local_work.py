"""After acceptance only local work is left, and only that is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from forkhost.kit.clock import HeldClock
from operations import materialising
from operations.choices import OperationStatus
from operations.schedule import LOCAL_WORK_PATIENCE
from sessions.models import Lineage, Session
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


def test_a_failing_binder_leaves_the_fork_accepted_and_is_tried_again(world: World, held_clock: HeldClock) -> None:
    world.agent.configure(bind="home_full")
    operation = world.fork()
    assert (operation.status, operation.error_code) == (S.PROVIDER_ACCEPTED, "binding_failed")
    assert not operation.needs_person
    assert world.claim() is None
    world.agent.configure(bind="")
    held_clock.advance(1)
    world.work(operation)
    assert (operation.status, operation.error_code, operation.calls) == (S.COMMITTED, "", 1)
    assert operation.receipt["bound"] == {"home": str(world.agent.folder)}
    assert len(world.agent.calls) == 1


def test_local_work_that_never_works_asks_for_a_person_and_stays_accepted(world: World, held_clock: HeldClock) -> None:
    world.agent.configure(bind="home_full")
    operation = world.fork()
    for _ in range(LOCAL_WORK_PATIENCE):
        held_clock.advance(3600)
        world.work(operation)
    assert (operation.status, operation.needs_person) == (S.PROVIDER_ACCEPTED, True)
    world.agent.configure(bind="")
    held_clock.advance(3600)
    world.work(operation)
    assert (operation.status, operation.needs_person) == (S.COMMITTED, False)
    assert len(world.agent.calls) == 1


@pytest.mark.django_db(transaction=True)
def test_a_child_is_there_whole_or_not_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(child: Session) -> dict[str, Any]:
        raise RuntimeError("half way")

    with monkeypatch.context() as patch:
        patch.setattr(materialising, "session_json", fail)
        operation = world.fork()
    assert (operation.status, operation.error_code) == (S.PROVIDER_ACCEPTED, "local_work_failed")
    assert not Session.objects.filter(pk=operation.target_session_id).exists()
    assert not Lineage.objects.exists()
    operation.next_run_at = operation.prepared_at
    operation.save()
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "accepted", "local_work_failed", "committed"]


def test_the_child_joins_the_family_its_source_is_in_by_then(world: World) -> None:
    from sessions import families

    other = world.new_source()
    operation = world.prepare()
    families.link(world.source.pk, other.pk)
    world.work(operation)
    child = Session.objects.get(pk=operation.target_session_id)
    assert child.family_id == Session.objects.get(pk=other.pk).family_id
