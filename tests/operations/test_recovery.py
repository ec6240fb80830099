"""The sweep puts what was left behind where the next worker finds it, from any number of workers, and calls nobody."""

from __future__ import annotations

from functools import partial

import pytest

from operations import recovery
from operations.choices import OperationStatus
from operations.models import Operation
from operations.recovery import Swept
from operations.saga import transitions
from tests.operations.support import ACTOR, World, acts
from tests.threads import together

S = OperationStatus


def abandon(operation: Operation) -> None:
    """The worker that holds it is dead."""
    Operation.objects.filter(pk=operation.pk).update(lease_until=operation.prepared_at)


@pytest.mark.django_db
class TestOneSweep:
    """What becomes of each state."""

    def test_a_prepared_operation_of_a_dead_worker_goes_on(self, world: World) -> None:
        operation = world.prepare()
        lease = world.claim()
        assert lease is not None
        assert world.claim() is None
        abandon(operation)
        assert recovery.sweep() == Swept(requeued=1)
        with pytest.raises(transitions.Lost):
            transitions.mark_dispatching(operation, lease, ACTOR)
        world.work(operation)
        assert operation.status == S.COMMITTED

    def test_a_dispatching_operation_of_a_dead_worker_is_unknown_and_not_sent_again(self, world: World) -> None:
        operation = world.prepare()
        lease = world.claim()
        assert lease is not None
        transitions.mark_dispatching(operation, lease, ACTOR)
        assert recovery.sweep() == Swept()
        abandon(operation)
        assert recovery.sweep() == Swept(lost=1)
        operation.refresh_from_db()
        assert (operation.status, operation.error_code, operation.calls) == (S.UNKNOWN, "worker_lost", 1)
        assert operation.unknown_since is not None
        assert world.agent.calls == []
        assert acts(operation) == ["prepared", "dispatching", "unknown"]

    def test_an_accepted_operation_of_a_dead_worker_goes_on_locally(self, world: World) -> None:
        world.agent.configure(bind="home_full")
        operation = world.fork()
        Operation.objects.update(next_run_at=operation.prepared_at)
        assert world.claim() is not None
        abandon(operation)
        assert recovery.sweep() == Swept(requeued=1)
        world.agent.configure(bind="")
        world.work(operation)
        assert operation.status == S.COMMITTED
        assert len(world.agent.calls) == 1

    def test_what_is_terminal_or_held_is_left_alone(self, world: World) -> None:
        world.agent.script("accept", "reject", "lose")
        for _ in range(3):
            world.fork()
        world.prepare()
        assert world.claim() is not None
        before = list(Operation.objects.order_by("pk").values())
        assert recovery.sweep() == Swept()
        assert list(Operation.objects.order_by("pk").values()) == before

    def test_another_runners_dead_worker_is_noticed_too(self, world: World) -> None:
        from sessions import runners

        operation = world.prepare()
        lease = world.claim()
        assert lease is not None
        transitions.mark_dispatching(operation, lease, ACTOR)
        abandon(operation)
        runners.start(world.workspace, "elsewhere")
        assert recovery.sweep() == Swept(lost=1)

    def test_more_than_a_page_is_swept_at_once(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recovery, "PAGE", 2)
        operations = [world.prepare() for _ in range(5)]
        for _ in operations:
            lease = world.claim()
            assert lease is not None
            transitions.mark_dispatching(Operation.objects.get(pk=lease.pk), lease, ACTOR)
        for operation in operations:
            abandon(operation)
        assert recovery.sweep() == Swept(lost=5)


@pytest.mark.django_db(transaction=True)
def test_many_sweeps_at_once_move_each_row_once(world: World) -> None:
    operations = [world.prepare() for _ in range(6)]
    for _ in operations:
        lease = world.claim()
        assert lease is not None
        transitions.mark_dispatching(Operation.objects.get(pk=lease.pk), lease, ACTOR)
    for operation in operations:
        abandon(operation)
    swept = together([partial(recovery.sweep) for _ in range(4)])
    assert sum(one.lost for one in swept) == 6
    for operation in operations:
        assert acts(operation) == ["prepared", "dispatching", "unknown"]
