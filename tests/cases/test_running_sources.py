"""A source that is at work: what is settled can be forked, what runs is in no fork."""

from __future__ import annotations

import uuid

import pytest

from operations import saga
from operations.choices import OperationStatus
from operations.requests import Refused
from sessions import history, store
from sessions.models import Session
from sessions.providers.base import TurnBinding
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.operations.support import World, through


@pytest.fixture
def running(world: World) -> Session:
    """Three settled turns, and a fourth that runs."""
    entries = [
        TurnStart(9_000, "Prompt 4", TurnBinding("turn-4")),
        NewEvent("message.user", 9_001, {"text": "Prompt 4"}),
        NewEvent("message.assistant", 9_002, {"text": "So far"}),
    ]
    store.append(world.source.pk, entries)
    world.source.refresh_from_db()
    return world.source


def test_a_fork_at_the_last_settled_turn_holds_no_row_of_the_running_one(world: World, running: Session) -> None:
    operation = world.prepare(point=through(running, 3))
    store.append(running.pk, [NewEvent("message.assistant", 9_003, {"text": "More"}), TurnEnd(9_004, "completed")])
    world.work(operation)
    assert operation.status == OperationStatus.COMMITTED
    child = Session.objects.get(pk=operation.target_session_id)
    assert (child.turn_count, child.seed_length, child.activity) == (3, 12, "idle")
    assert "So far" not in [event.payload.get("text") for event in history.events(child)]
    assert [call["turn"] for call in world.agent.calls] == ["turn-3"]


def test_the_running_turn_is_refused_and_nothing_is_sent(world: World, running: Session) -> None:
    with pytest.raises(Refused) as refused:
        world.prepare(point=through(running, 4))
    assert (refused.value.code, refused.value.status) == ("turn_not_settled", 409)
    assert world.agent.calls == []


def test_what_is_said_in_the_source_while_a_fork_is_made_stays_in_the_source(world: World) -> None:
    operation = world.prepare()
    store.append(world.source.pk, [TurnStart(9_000, "Only here"), TurnEnd(9_001, "completed")])
    world.work(operation)
    prompts = [turn.prompt for turn in history.turns(Session.objects.get(pk=operation.target_session_id))]
    assert "Only here" not in prompts
    assert len(prompts) == 3


def test_forks_go_on_apart_and_leave_their_siblings_as_they_are(world: World) -> None:
    first, second = world.fork(), world.fork()
    before = Session.objects.values().get(pk=second.target_session_id)
    store.append(first.target_session_id, [TurnStart(9_000, "Only in the first"), TurnEnd(9_001, "completed")])
    assert Session.objects.values().get(pk=second.target_session_id) == before


def test_an_inherited_turn_without_an_id_valid_in_the_fork_is_refused_there(world: World) -> None:
    world.agent.configure(kept=False)
    child = Session.objects.get(pk=world.fork().target_session_id)
    mapped = child.binding_map
    Session.objects.filter(pk=child.pk).update(binding_map={key: mapped[key] for key in mapped if key != "1"})
    child.refresh_from_db()
    with pytest.raises(Refused) as refused:
        world.prepare(source_session_id=child.pk, point=through(child, 1))
    assert refused.value.code == "inherited_unmapped"
    assert len(world.agent.calls) == 1


def test_the_same_prompt_twice_is_told_apart_by_id(world: World) -> None:
    again = [TurnStart(9_000, "Prompt 1", TurnBinding("turn-4")), TurnEnd(9_001, "completed")]
    store.append(world.source.pk, again)
    world.source.refresh_from_db()
    for ordinal in (1, 4):
        world.fork(point=through(world.source, ordinal))
    assert [call["turn"] for call in world.agent.calls] == ["turn-1", "turn-4"]


def test_two_turns_of_one_source_are_forked_at_once_as_two_operations(world: World) -> None:
    operations = [world.prepare(point=through(world.source, ordinal)) for ordinal in (2, 3)]
    for _ in operations:
        world.work()
    for operation, turns in zip(operations, (2, 3), strict=True):
        operation.refresh_from_db()
        assert Session.objects.get(pk=operation.target_session_id).turn_count == turns
    assert len({operation.title for operation in operations}) == 2


def test_a_child_the_agent_names_while_it_fails_is_adopted_once_it_is_verified(world: World) -> None:
    child = f"child-{uuid.uuid4()}"
    world.agent.script({"do": "lose_answer", "announce": True, "child": child})
    operation = world.fork()
    assert operation.status == OperationStatus.UNKNOWN
    saga.look_again(operation.pk, actor="user:operator", expected_version=operation.version)
    for _ in range(2):
        world.work(operation)
    assert (operation.status, operation.child_provider_session_id) == (OperationStatus.COMMITTED, child)
    assert len(world.agent.calls) == len(world.agent.children) == 1
