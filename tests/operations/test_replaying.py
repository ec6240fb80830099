"""One request id stands for one fork, for ever."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from operations.points import parse_point
from sessions import store
from tests.conftest import People
from tests.operations.support import World, through

pytestmark = pytest.mark.django_db


def test_the_same_request_answers_with_the_same_operation_in_its_current_state(world: World) -> None:
    request = world.request()
    first = saga.prepare(request)
    assert not first.replayed
    world.work()
    again = saga.prepare(request)
    assert again.replayed
    assert (again.operation.pk, again.operation.status) == (first.operation.pk, OperationStatus.COMMITTED)
    assert len(world.agent.calls) == 1


def test_ids_shaped_like_uuids_compare_in_any_case_and_others_byte_for_byte(world: World) -> None:
    shaped = str(uuid.uuid4())
    target = uuid.uuid4()
    first = world.prepare(request_id=shaped, target_session_id=target)
    same = world.prepare(request_id=shaped.upper(), target_session_id=str(target).upper())
    assert same.pk == first.pk
    free = world.prepare(request_id="Retry-A")
    assert world.prepare(request_id="retry-a").pk != free.pk


@pytest.mark.parametrize(
    "change",
    [
        {"target_session_id": uuid.uuid4()},
        {"title": "Another"},
        {"point": parse_point({"type": "atSeq"})},
    ],
)
def test_the_same_id_for_another_fork_conflicts(world: World, change: dict[str, Any]) -> None:
    request = world.request()
    first = saga.prepare(request).operation
    same = {"request_id": request.request_id, "target_session_id": request.target_session_id}
    with pytest.raises(saga.Refused) as refused:
        world.prepare(**{**same, **change})
    assert (refused.value.code, refused.value.status, refused.value.field) == ("request_conflict", 409, "/requestId")
    assert refused.value.operation_id == first.pk


def test_the_same_id_for_another_source_conflicts(world: World) -> None:
    request = world.request()
    saga.prepare(request)
    other = world.new_source()
    with pytest.raises(saga.Refused) as refused:
        world.prepare(
            request_id=request.request_id, target_session_id=request.target_session_id, source_session_id=other.pk
        )
    assert refused.value.code == "request_conflict"


def test_the_point_is_compared_as_it_was_asked_for(world: World) -> None:
    """``latestSettled`` resolves to another turn later; the replay still answers with the first fork."""
    request = world.request()
    first = saga.prepare(request).operation
    from tests.operations.support import turn

    store.append(world.source.pk, turn(4))
    assert saga.prepare(request).operation.pk == first.pk
    assert world.prepare(point=through(world.source, 3)).pk != first.pk


def test_a_title_is_compared_as_it_is_kept(world: World) -> None:
    request = world.request(title=" Mine ")
    first = saga.prepare(request).operation
    replay = world.request(request_id=request.request_id, target_session_id=request.target_session_id, title="Mine")
    assert saga.prepare(replay).operation.pk == first.pk


def test_a_replay_needs_the_workspace_and_nothing_else(world: World, people: People) -> None:
    request = world.request()
    first = saga.prepare(request).operation
    store.tombstone(world.source.pk, actor="user:member")
    assert saga.prepare(request).operation.pk == first.pk
    with pytest.raises(saga.Refused) as refused:
        saga.prepare(world.request(request_id=request.request_id, user=people.stranger))
    assert refused.value.status == 404


def test_the_same_id_in_another_workspace_is_another_request(world: World, people: People) -> None:
    request = world.request()
    saga.prepare(request)
    hosted = store.create(workspace=people.other_workspace, provider="hosted")
    store.append(hosted.pk, [store.TurnStart(1), store.TurnEnd(2, "completed")])
    elsewhere = world.prepare(
        request_id=request.request_id,
        workspace_id=people.other_workspace.pk,
        user=people.stranger,
        source_session_id=hosted.pk,
    )
    assert Operation.objects.count() == 2
    assert elsewhere.workspace_id == people.other_workspace.pk
