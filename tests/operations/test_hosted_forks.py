"""Hosted sessions fork through the same saga, without a provider."""

from __future__ import annotations

import pytest

from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from operations.points import parse_point
from sessions import history, store
from sessions.choices import ForkContract
from sessions.models import Session
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.fixture
def hosted(world: World) -> Session:
    """Two turns without bindings, and a note behind them."""
    session = store.create(workspace=world.workspace, provider="mine", title="Notes")
    for number in (1, 2):
        store.append(
            session.pk,
            [
                TurnStart(number, f"Prompt {number}"),
                NewEvent("message.assistant", number, {"text": "Yes."}),
                TurnEnd(number, "completed"),
            ],
        )
    store.append(session.pk, [NewEvent("context", 9, {"text": "a note"})])
    session.refresh_from_db()
    return session


@pytest.mark.parametrize("contract", ForkContract.values)
def test_a_hosted_session_forks_at_a_turn(world: World, hosted: Session, contract: str) -> None:
    world.workspace.fork_contract = contract
    world.workspace.save()
    operation = world.fork(source_session_id=hosted.pk)
    child = Session.objects.get(pk=operation.target_session_id)
    assert operation.status == S.COMMITTED
    assert (child.turn_count, child.last_seq, child.provider_session_id, child.home_id) == (2, 6, None, None)
    assert acts(operation) == ["prepared", "dispatching", "accepted", "committed"]
    assert world.agent.calls == []


def test_a_hosted_session_forks_behind_a_standalone_event(world: World, hosted: Session) -> None:
    operation = world.fork(source_session_id=hosted.pk, point=parse_point({"type": "throughSeq", "seq": 7}))
    child = Session.objects.get(pk=operation.target_session_id)
    assert (operation.status, child.last_seq, child.turn_count) == (S.COMMITTED, 7, 2)
    assert operation.resolved_turn_id is None
    assert history.digest_at(child, 7) == history.digest_at(hosted, 7)


def test_a_hosted_fork_whose_worker_was_lost_is_proven_not_made(world: World, hosted: Session) -> None:
    from operations import recovery
    from operations.saga import transitions

    operation = world.prepare(source_session_id=hosted.pk)
    lease = world.claim()
    assert lease is not None
    transitions.mark_dispatching(operation, lease, "worker:test")
    Operation.objects.update(lease_until=operation.prepared_at)
    recovery.sweep()
    Operation.objects.update(next_run_at=operation.prepared_at)
    world.work(operation)
    assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    again = world.prepare(source_session_id=hosted.pk, target_session_id=operation.target_session_id)
    world.work(again)
    assert again.status == S.COMMITTED


def test_a_session_with_nothing_in_it_has_no_point_to_fork_at(world: World) -> None:
    empty = store.create(workspace=world.workspace, provider="mine")
    with pytest.raises(saga.Refused) as refused:
        world.prepare(source_session_id=empty.pk)
    assert refused.value.code == "no_settled_turn"
