"""What a fork knows of its source's turns is what was frozen, whatever becomes of the source meanwhile."""

from __future__ import annotations

import pytest

from operations.choices import OperationStatus
from operations.models import Operation
from sessions import history, store
from sessions.models import Session
from tests.operations.support import World, through

pytestmark = pytest.mark.django_db

TURN_EVENTS = 4


@pytest.fixture
def owning(world: World) -> World:
    """The agent gives a child's turns ids of their own, so that each has to be tied to the right one."""
    world.agent.configure(kept=False, binding_mode="provider_owned")
    world.attest()
    return world


def ends(operation: Operation) -> list[str]:
    """The source's turn that each inherited turn of the child is tied to."""
    child = Session.objects.get(pk=operation.target_session_id)
    bound = history.bindings_through(child, child.turn_count)
    return [binding.provider_turn_id.rsplit("/")[-1] for binding in bound]


def test_a_source_that_is_rewound_before_the_fork_is_sent(owning: World) -> None:
    operation = owning.prepare(point=through(owning.source, 3))
    store.rewind(owning.source.pk, 2 * TURN_EVENTS)
    owning.work(operation)
    assert ends(operation) == ["turn-1", "turn-2", "turn-3"]


def test_a_source_that_is_purged_before_the_fork_is_found(owning: World) -> None:
    owning.agent.script("lose_answer")
    owning.agent.configure(process="dead")
    operation = owning.fork(point=through(owning.source, 3))
    assert operation.status == OperationStatus.UNKNOWN
    store.purge(owning.source.pk)
    for _ in range(2):
        Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
        owning.work(operation)
    assert operation.status == OperationStatus.COMMITTED
    assert ends(operation) == ["turn-1", "turn-2", "turn-3"]


def test_a_fork_of_a_fork_is_tied_through_what_its_source_inherited(owning: World) -> None:
    first = owning.fork(point=through(owning.source, 3))
    child = Session.objects.get(pk=first.target_session_id)
    second = owning.prepare(source_session_id=child.pk, point=through(child, 2))
    store.purge(owning.source.pk)
    owning.work(second)
    assert second.status == OperationStatus.COMMITTED
    assert ends(second) == ["turn-1", "turn-2"]
