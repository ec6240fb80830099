"""Each difference between the two contracts, seen under both: swap the policies, and every row fails."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from operations import contracts, recovery, saga
from operations.choices import OperationStatus
from operations.models import Operation, RequestAlias
from sessions import attachments, runners, store
from sessions.choices import ForkContract, InteractionKind, SessionKind
from sessions.errors import SessionFenced
from sessions.models import Session
from sessions.providers.base import TurnBinding
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.operations.support import World, acts, through, turn

pytestmark = pytest.mark.django_db

S = OperationStatus
OPTIMISTIC, STRICT = ForkContract.OPTIMISTIC, ForkContract.STRICT
BOTH = pytest.mark.parametrize("contract", [OPTIMISTIC, STRICT])


def follow(world: World, contract: str) -> World:
    """Switch the workspace to the contract."""
    world.workspace.fork_contract = contract
    world.workspace.save()
    return world


def code_of(world: World, **changes: Any) -> str:
    """What prepare says; "" when it prepares."""
    try:
        world.prepare(**changes)
    except saga.Refused as refused:
        return refused.code if refused.status == 409 else f"{refused.status} {refused.code}"
    return ""


def test_an_operation_keeps_the_contract_it_was_prepared_under(world: World) -> None:
    first = world.prepare()
    second = follow(world, STRICT).prepare(source_session_id=world.new_source().pk)
    assert (first.contract, second.contract) == (OPTIMISTIC, STRICT)
    assert list(Session.objects.exclude(write_fence=None).values_list("pk", flat=True)) == [second.source_session_id]
    world.work()
    world.work()
    assert set(Operation.objects.values_list("status", flat=True)) == {S.COMMITTED}


# The source while a fork runs -------------------------------------------------------------------------------------------


@BOTH
def test_writing_to_the_source_while_a_fork_runs(world: World, contract: str) -> None:
    operation = follow(world, contract).prepare()
    writes = [
        lambda: store.append(world.source.pk, turn(4)),
        lambda: store.update_facts(world.source.pk, settings={"permission_mode": "plan"}),
        lambda: store.open_claim(world.source.pk, "submit"),
    ]
    for write in writes:
        if contract == STRICT:
            with pytest.raises(SessionFenced):
                write()
        else:
            write()
    store.rename(world.source.pk, "Renamed")
    store.set_pinned(world.source.pk, True)
    world.work(operation)
    assert operation.status == S.COMMITTED
    store.append(world.source.pk, turn(5))


@BOTH
def test_another_fork_of_the_source_while_one_runs(world: World, contract: str) -> None:
    follow(world, contract).prepare()
    assert code_of(world, point=through(world.source, 1)) == ("session_fenced" if contract == STRICT else "")


@BOTH
def test_deleting_the_source_while_a_fork_runs(world: World, contract: str) -> None:
    operation = follow(world, contract).prepare()
    if contract == STRICT:
        with pytest.raises(SessionFenced):
            store.tombstone(world.source.pk, actor="user:member")
    else:
        store.tombstone(world.source.pk, actor="user:member")
    world.work(operation)
    assert operation.status == S.COMMITTED


@pytest.mark.parametrize("step", ["accept", "reject", "lose"])
def test_the_fence_falls_with_every_end(world: World, step: str) -> None:
    world.agent.script(step)
    operation = follow(world, STRICT).prepare()
    assert Session.objects.get(pk=world.source.pk).write_fence == operation.pk
    world.work(operation)
    assert Session.objects.get(pk=world.source.pk).write_fence is None


def test_an_optimistic_fork_waits_for_a_fence_as_well(world: World) -> None:
    operation = follow(world, STRICT).prepare()
    follow(world, OPTIMISTIC)
    with pytest.raises(saga.Refused) as refused:
        world.prepare()
    assert (refused.value.code, refused.value.operation_id) == ("session_fenced", operation.pk)


# The source at prepare --------------------------------------------------------------------------------------------------


@BOTH
def test_an_active_turn(world: World, contract: str) -> None:
    store.append(world.source.pk, [TurnStart(9000, "running", TurnBinding("turn-4"))])
    assert code_of(follow(world, contract)) == ("active_turn" if contract == STRICT else "")


@BOTH
def test_a_pending_interaction(world: World, contract: str) -> None:
    store.ask_interaction(world.source.pk, key="q", kind=InteractionKind.QUESTION, payload={"text": "Which?"})
    assert code_of(follow(world, contract)) == ("pending_interaction" if contract == STRICT else "")


@BOTH
def test_an_unfinished_claim(world: World, contract: str) -> None:
    claim = store.open_claim(world.source.pk, "submit")
    assert code_of(follow(world, contract)) == ("unfinished_claim" if contract == STRICT else "")
    store.settle_claim(world.source.pk, claim.pk)
    assert code_of(world) == ""


@BOTH
def test_another_unfinished_fork(world: World, contract: str) -> None:
    world.prepare(point=through(world.source, 1))
    assert code_of(follow(world, contract)) == ("fork_in_progress" if contract == STRICT else "")


@BOTH
def test_a_turn_of_the_prefix_that_is_not_bound(world: World, contract: str) -> None:
    source = world.new_source(turns=1)
    store.append(source.pk, [TurnStart(5000, "no id"), TurnEnd(5001, "completed")])
    store.append(source.pk, turn(3))
    code = code_of(follow(world, contract), source_session_id=source.pk)
    assert code == ("turn_sequence_incomplete" if contract == STRICT else "")


@BOTH
@pytest.mark.parametrize(("ordinal", "hit"), [(2, True), (1, False)])
def test_a_sub_agents_lane_in_the_prefix(world: World, contract: str, ordinal: int, hit: bool) -> None:
    from sessions import history

    lane_turn = history.turn_by_ordinal(world.source, 2)
    assert lane_turn is not None
    world.new_source(
        turns=0,
        kind=SessionKind.CHILD,
        root_session_id=world.source.pk,
        parent_session_id=world.source.pk,
        parent_turn_id=lane_turn.id,
    )
    code = code_of(follow(world, contract), point=through(world.source, ordinal))
    assert code == ("lane_in_prefix" if contract == STRICT and hit else "")


@BOTH
def test_a_sub_agents_lane_in_an_inherited_prefix(world: World, contract: str) -> None:
    child = Session.objects.get(pk=world.fork().target_session_id)
    world.new_source(
        turns=0, kind=SessionKind.CHILD, root_session_id=world.source.pk, parent_session_id=world.source.pk
    )
    code = code_of(follow(world, contract), source_session_id=child.pk)
    assert code == ("lane_in_prefix" if contract == STRICT else "")


@BOTH
@pytest.mark.parametrize(("ordinal", "hit"), [(4, True), (3, False)])
def test_a_local_attachment_in_the_prefix(
    world: World, contract: str, ordinal: int, hit: bool, settings: Any, tmp_path: Any
) -> None:
    settings.FORKHOST_DATA = tmp_path
    digest = attachments.store_bytes(b"a picture")
    images = [{"mediaType": "image/png", "sha256": digest}]
    store.append(
        world.source.pk,
        [
            TurnStart(9000, "look", TurnBinding("turn-4")),
            NewEvent("message.user", 9001, {"text": "look", "images": images}),
            TurnEnd(9002, "completed"),
        ],
    )
    world.source.refresh_from_db()
    code = code_of(follow(world, contract), point=through(world.source, ordinal))
    assert code == ("attachment_in_prefix" if contract == STRICT and hit else "")


# The provider's history -------------------------------------------------------------------------------------------------


@BOTH
def test_what_the_provider_has_to_prove(world: World, contract: str) -> None:
    follow(world, contract).fork(point=through(world.source, 2))
    assert world.agent.calls[0]["prefix"] == (["turn-1", "turn-2"] if contract == STRICT else None)


@BOTH
def test_a_mapping_that_leaves_out_a_turn(world: World, contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.agents import fake_provider

    world.agent.configure(kept=False, binding_mode="provider_owned")
    world.attest()
    accepted = fake_provider._accepted

    def forgetful(*arguments: Any) -> Any:
        whole = accepted(*arguments)
        return type(whole)(whole.child_provider_session_id, whole.mapping[1:], False, whole.receipt, None)

    monkeypatch.setattr(fake_provider, "_accepted", forgetful)
    operation = follow(world, contract).fork()
    assert (operation.status, operation.error_code) == (
        (S.UNKNOWN, "wrong_child") if contract == STRICT else (S.COMMITTED, "")
    )


# The same point again ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("ends", ["accept", "lose"])
def test_the_same_point_again(world: World, contract: str, ends: str) -> None:
    world.agent.script(ends)
    first = follow(world, contract).fork()
    request = world.request()
    again = saga.prepare(request)
    same = contract == STRICT
    assert (again.operation.pk == first.pk, again.replayed) == (same, same)
    assert saga.prepare(request).operation.pk == again.operation.pk
    assert RequestAlias.objects.filter(operation_id=first.pk).count() == (2 if same else 1)
    assert saga.prepare(world.request(point=through(world.source, 1))).operation.pk != first.pk


def test_a_second_request_id_replays_for_ever_and_conflicts_as_any_other(world: World) -> None:
    first = follow(world, STRICT).fork()
    second = world.request()
    assert saga.prepare(second).operation.pk == first.pk
    saga.acknowledge(first.pk, "user:member")
    assert saga.prepare(second).operation.pk == first.pk
    with pytest.raises(saga.Refused) as refused:
        saga.prepare(world.request(request_id=second.request_id))
    assert refused.value.code == "request_conflict"


@pytest.mark.parametrize(("step", "held"), [("accept", True), ("lose", True), ("reject", False)])
def test_the_barrier_stands_until_it_is_acknowledged_or_failed(world: World, step: str, held: bool) -> None:
    world.agent.script(step)
    first = follow(world, STRICT).fork()
    assert (world.prepare().pk == first.pk) == held


def test_acknowledging_releases_the_barrier_and_an_unknown_takes_no_acknowledgement(world: World) -> None:
    world.agent.script("accept", "lose")
    committed = follow(world, STRICT).fork()
    unknown = world.fork(point=through(world.source, 1))
    saga.acknowledge(committed.pk, "user:member")
    with pytest.raises(saga.Refused) as refused:
        saga.acknowledge(unknown.pk, "user:member")
    assert refused.value.code == "not_committed"
    assert world.prepare(point=through(world.source, 1)).pk == unknown.pk
    assert world.prepare().pk != committed.pk


def test_deleting_the_child_does_not_release_the_barrier(world: World) -> None:
    first = follow(world, STRICT).fork()
    store.tombstone(first.target_session_id, actor="user:member")
    assert world.prepare().pk == first.pk


# Binding in the home ----------------------------------------------------------------------------------------------------


@BOTH
def test_a_binder_that_fails(world: World, contract: str) -> None:
    world.agent.configure(bind="home_full")
    operation = follow(world, contract).fork()
    assert operation.status == (S.UNKNOWN if contract == STRICT else S.PROVIDER_ACCEPTED)
    assert operation.error_code == "binding_failed"
    assert len(world.agent.calls) == 1


def test_a_strict_fork_that_could_not_be_bound_is_adopted_once_it_can(world: World) -> None:
    world.agent.configure(bind="home_full", process="dead")
    operation = follow(world, STRICT).fork()
    for able, status in ((False, S.UNKNOWN), (True, S.COMMITTED)):
        world.agent.configure(bind="" if able else "home_full")
        Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
        world.work(operation)
        world.work(operation)
        assert operation.status == status
    assert "bound" in operation.receipt


# Prepared after a restart -----------------------------------------------------------------------------------------------


@BOTH
def test_a_prepared_fork_after_its_runner_was_started_anew(world: World, contract: str) -> None:
    operation = follow(world, contract).prepare()
    world.runner = runners.start(world.workspace, world.runner.name)
    recovery.sweep()
    world.work(operation)
    if contract == STRICT:
        assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, "runner_replaced", 0)
        assert Session.objects.get(pk=world.source.pk).write_fence is None
    else:
        assert (operation.status, operation.calls) == (S.COMMITTED, 1)


@BOTH
def test_a_prepared_fork_that_nobody_came_for(world: World, contract: str, held_clock: Any) -> None:
    operation = follow(world, contract).prepare()
    held_clock.advance(contracts.STRICT_DISPATCH_SECONDS + 1)
    assert recovery.sweep().lapsed == (1 if contract == STRICT else 0)
    world.work(operation)
    expected = (S.FAILED, "dispatch_overdue") if contract == STRICT else (S.COMMITTED, "")
    assert (operation.status, operation.error_code) == expected


@BOTH
def test_a_worker_checks_again_before_it_sends(world: World, contract: str) -> None:
    operation = follow(world, contract).prepare()
    world.runner = runners.start(world.workspace, world.runner.name)
    world.work(operation)
    assert operation.status == (S.FAILED if contract == STRICT else S.COMMITTED)


def test_a_strict_fork_in_time_goes_through_every_state(world: World) -> None:
    operation = follow(world, STRICT).fork()
    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "accepted", "committed"]
    assert uuid.UUID(str(operation.runner_incarnation)) == world.runner.incarnation
