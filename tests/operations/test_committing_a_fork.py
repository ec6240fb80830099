"""A fork from request to committed child."""

from __future__ import annotations

import pytest

from operations import saga
from operations.choices import OperationStatus
from operations.models import Evidence
from operations.projections import operation_json
from sessions import history
from sessions.models import Event, Lineage, Session
from tests.operations.support import World, acts, through

pytestmark = pytest.mark.django_db


def test_a_fork_becomes_a_child_that_ends_at_the_chosen_turn(world: World) -> None:
    events = Event.objects.count()
    operation = world.fork(point=through(world.source, 2))
    child = Session.objects.get(pk=operation.target_session_id)
    assert operation.status == OperationStatus.COMMITTED
    assert child.turn_count == 2
    assert child.provider_session_id == world.agent.children[0]["id"]
    assert [turn.binding.provider_turn_id for turn in history.turns(child) if turn.binding] == ["turn-1", "turn-2"]
    assert Event.objects.count() == events
    assert len(world.agent.calls) == 1
    assert world.agent.calls[0]["turn"] == "turn-2"
    assert acts(operation) == ["prepared", "dispatching", "accepted", "committed"]


def test_the_lineage_names_turns_of_source_and_child(world: World) -> None:
    operation = world.fork(point=through(world.source, 2))
    child = Session.objects.get(pk=operation.target_session_id)
    line = Lineage.objects.get(pk=child.pk)
    assert line.source_turn_id == history.turn_by_ordinal(world.source, 2).id
    assert line.target_turn_id == history.turn_by_ordinal(child, 2).id
    assert line.source_turn_id != line.target_turn_id
    assert line.operation_id == operation.pk


def test_the_public_operation_carries_session_and_lineage_from_its_own_record(world: World) -> None:
    operation = world.prepare(point=through(world.source, 2), title="A new way")
    before = operation_json(operation)
    assert (before["status"], before["phase"], before["session"], before["calls"]) == ("accepted", "frozen", None, 0)
    world.work(operation)
    Session.objects.filter(pk=operation.target_session_id).update(title="renamed later")
    shown = operation_json(operation)
    assert (shown["status"], shown["phase"], shown["calls"], shown["error"]) == ("committed", "committed", 1, None)
    assert shown["session"]["id"] == str(operation.target_session_id)
    assert shown["session"]["title"] == "A new way"
    assert shown["lineage"]["operationId"] == str(operation.pk)
    assert shown["lineage"] == shown["session"]["forkedFrom"]
    assert shown["resolvedPoint"]["turnId"] == shown["point"]["turnId"]


def test_a_fork_of_a_fork_at_an_inherited_turn_sends_the_id_that_is_valid_in_the_fork(world: World) -> None:
    world.agent.configure(kept=False, binding_mode="provider_owned")
    world.attest()
    first = world.fork()
    child = Session.objects.get(pk=first.target_session_id)
    second = world.fork(source_session_id=child.pk, point=through(child, 2))
    assert second.status == OperationStatus.COMMITTED
    assert world.agent.calls[1]["source"] == child.provider_session_id
    assert world.agent.calls[1]["turn"] == f"{child.provider_session_id}/turn-2"


def test_titles_count_through_the_family_and_a_given_title_takes_no_number(world: World) -> None:
    first = world.fork()
    child = Session.objects.get(pk=first.target_session_id)
    named = world.fork(title="  Mine  ")
    second = world.fork(source_session_id=child.pk)
    assert [first.title, named.title, second.title] == ["Fix login (2)", "Mine", "Fix login (3)"]
    assert world.agent.calls[0]["title"] == "Fix login (2)"


def test_acknowledging_is_for_committed_forks_and_idempotent(world: World) -> None:
    operation = world.prepare()
    with pytest.raises(saga.Refused) as refused:
        saga.acknowledge(operation.pk, "user:member")
    assert (refused.value.code, refused.value.status) == ("not_committed", 409)
    world.work(operation)
    once = saga.acknowledge(operation.pk, "user:member")
    again = saga.acknowledge(operation.pk, "user:member")
    assert once.observed_at is not None
    assert again.observed_at == once.observed_at
    assert acts(operation)[-2:] == ["committed", "acknowledged"]
    assert not Evidence.objects.exists()
