"""Prepare refuses in one order, and what it refuses leaves no trace."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from operations import saga
from operations.models import Operation, OperationAudit, RequestAlias
from operations.points import parse_point
from sessions import store
from sessions.choices import SessionKind, SyncState
from sessions.models import Family, Session, SessionSync
from sessions.providers.base import TurnBinding
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.conftest import People
from tests.operations.support import World, through, turn

pytestmark = pytest.mark.django_db


def refusal(world: World, **changes: Any) -> saga.Refused:
    """What prepare says, having written nothing."""
    rows = (Operation.objects.count(), RequestAlias.objects.count(), OperationAudit.objects.count())
    numbers = list(Family.objects.order_by("pk").values_list("next_number", flat=True))
    with pytest.raises(saga.Refused) as caught:
        world.prepare(**changes)
    assert rows == (Operation.objects.count(), RequestAlias.objects.count(), OperationAudit.objects.count())
    assert numbers == list(Family.objects.order_by("pk").values_list("next_number", flat=True))
    assert caught.value.sentence.endswith(".")
    return caught.value


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"request_id": ""}, "/requestId"),
        ({"request_id": "x" * 256}, "/requestId"),
        ({"request_id": "a\nb"}, "/requestId"),
        ({"request_id": str(uuid.UUID(int=0))}, "/requestId"),
        ({"target_session_id": str(uuid.UUID(int=0))}, "/targetAgentSessionId"),
        ({"target_session_id": "child"}, "/targetAgentSessionId"),
        ({"title": "x" * 301}, "/title"),
    ],
)
def test_a_malformed_request_names_its_field(world: World, changes: dict[str, Any], field: str) -> None:
    refused = refusal(world, **changes)
    assert (refused.code, refused.status, refused.field) == ("invalid_request", 400, field)


def test_the_source_cannot_be_its_own_target(world: World) -> None:
    assert refusal(world, target_session_id=world.source.pk).field == "/targetAgentSessionId"


def test_another_tenant_finds_neither_workspace_nor_session(world: World, people: People) -> None:
    assert refusal(world, user=people.stranger).code == "workspace_not_found"
    there = {"workspace_id": people.other_workspace.pk, "user": people.stranger}
    assert (refusal(world, **there).code, refusal(world, **there).status) == ("session_not_found", 404)


def test_a_private_session_of_somebody_else_is_not_found(world: World, people: People) -> None:
    store.set_visibility(world.source.pk, "private")
    assert refusal(world, user=people.second_member).code == "session_not_found"


def test_a_switched_off_workspace_refuses_new_forks_but_replays_old_ones(world: World) -> None:
    request = world.request()
    first = saga.prepare(request)
    world.workspace.forks_enabled = False
    world.workspace.save()
    assert (refusal(world).code, refusal(world).status) == ("forks_disabled", 403)
    assert saga.prepare(request).operation.pk == first.operation.pk
    world.work(first.operation)
    assert saga.acknowledge(first.operation.pk, "user:member").observed_at is not None


def test_a_session_that_is_not_imported_is_wanted_and_refused_for_now(world: World) -> None:
    listed = world.new_source(turns=0)
    SessionSync.objects.create(session=listed, queue=world.home.queue, stamp_seen="1", next_run_at=world.due_now())
    refused = refusal(world, source_session_id=listed.pk)
    assert (refused.code, refused.status, refused.retry_after) == ("history_not_imported", 409, 2)
    assert SessionSync.objects.get(pk=listed.pk).wanted_at is not None


def test_the_latest_turn_is_not_guessed_while_a_newer_one_may_be_unread(world: World) -> None:
    SessionSync.objects.create(
        session=world.source,
        queue=world.home.queue,
        state=SyncState.IMPORTED,
        stamp_seen="2",
        stamp_imported="1",
        next_run_at=world.due_now(),
    )
    assert refusal(world).code == "history_not_imported"
    assert world.prepare(point=through(world.source, 3)).resolved_ordinal == 3
    store.append(world.source.pk, [TurnStart(9000, "running", TurnBinding("turn-4"))])
    assert world.prepare().resolved_ordinal == 3


def test_reasons_of_the_session_come_before_reasons_of_the_point(world: World) -> None:
    lane = world.new_source(
        turns=0, kind=SessionKind.CHILD, root_session_id=world.source.pk, parent_session_id=world.source.pk
    )
    unknown_turn = parse_point({"type": "throughTurn", "turnId": str(uuid.uuid4())})
    assert refusal(world, source_session_id=lane.pk, point=unknown_turn).code == "source_not_root"
    isolated = world.new_source(worktree_isolated=True)
    assert refusal(world, source_session_id=isolated.pk).code == "worktree_isolated"
    store.tombstone(world.source.pk, actor="user:member")
    assert refusal(world).code == "session_tombstoned"


def test_points_that_cannot_be_forked_at_say_why(world: World) -> None:
    other = world.new_source()
    assert refusal(world, point=through(other, 1)).code == "turn_not_found"
    empty = world.new_source(turns=0)
    assert (refusal(world, source_session_id=empty.pk).code, refusal(world, source_session_id=empty.pk).status) == (
        "no_settled_turn",
        409,
    )
    store.append(world.source.pk, [TurnStart(9000, "running", TurnBinding("turn-4"))])
    world.source.refresh_from_db()
    assert refusal(world, point=through(world.source, 4)).code == "turn_not_settled"
    anchor = parse_point({"type": "atSeq", "seq": world.source.last_seq})
    assert refusal(world, point=anchor).code == "fork-unavailable"


def test_an_unbound_turn_and_one_the_adapter_refuses_are_not_forked(world: World) -> None:
    store.append(world.source.pk, [TurnStart(9000, "no id"), TurnEnd(9001, "completed")])
    store.append(world.source.pk, turn(5, refuse="turn_compacted"))
    world.source.refresh_from_db()
    assert refusal(world, point=through(world.source, 4)).code == "turn_unbound"
    refused = refusal(world, point=through(world.source, 5))
    assert (refused.code, refused.sentence) == ("turn_compacted", "The fake agent says turn_compacted.")


def test_a_runtime_that_cannot_fork_is_refused_with_its_own_reason(world: World) -> None:
    world.agent.configure(points="unsupported")
    world.attest()
    refused = refusal(world)
    assert (refused.code, refused.sentence) == ("too_old", "This version cannot fork.")


def test_a_target_of_another_session_or_fork_is_reserved(world: World) -> None:
    first = world.prepare()
    for taken in (first.target_session_id, world.new_source().pk):
        refused = refusal(world, target_session_id=taken)
        assert (refused.code, refused.status, refused.field) == ("target_reserved", 409, "/targetAgentSessionId")


def test_the_target_of_a_failed_fork_is_free_again(world: World) -> None:
    world.agent.script("reject")
    failed = world.fork()
    again = world.fork(target_session_id=failed.target_session_id)
    assert Session.objects.get(pk=again.target_session_id).fork_operation_id == again.pk


def test_prepare_freezes_what_it_saw(world: World) -> None:
    operation = world.prepare()
    store.append(world.source.pk, [NewEvent("context", 9000, {"text": "later"}), *turn(4)])
    world.work(operation)
    child = Session.objects.get(pk=operation.target_session_id)
    assert (child.turn_count, child.last_seq) == (3, operation.resolved_seq)
    assert world.agent.calls[0]["turn"] == "turn-3"
