"""What an operator may decide about an unknown fork: reasoned, audited, once, and never a second send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from forkhost.kit.clock import HeldClock
from operations import saga
from operations.choices import OperationStatus
from operations.models import Evidence, Operation, OperationAudit
from sessions.models import Session
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.fixture
def unknown(world: World, held_clock: HeldClock) -> Operation:
    """An unknown fork, looked up once: its child was made, and is only likely to be its own."""
    world.agent.configure(identity_mode="search")
    world.attest()
    world.agent.script("lose_answer")
    operation = world.fork()
    held_clock.advance(60)
    world.work(operation)
    assert operation.status == S.UNKNOWN
    return operation


def adopt(operation: Operation, child: str, **changes: Any) -> Operation:
    """Adopt with a reason and the version that was looked at."""
    values = {"actor": "user:operator", "reason": "Same second, same cut.", "expected_version": operation.version}
    return saga.adopt(operation.pk, child, **{**values, **changes})


VERBS: dict[str, Callable[..., Operation]] = {
    "adopt": lambda pk, **rest: saga.adopt(pk, "child", **rest),
    "confirm_not_created": saga.confirm_not_created,
    "keep_unknown": saga.keep_unknown,
    "look_again": saga.look_again,
}


def test_looking_again_needs_no_reason(unknown: Operation) -> None:
    looked = saga.look_again(unknown.pk, actor="user:operator", expected_version=unknown.version)
    assert (looked.status, looked.version) == (S.UNKNOWN, unknown.version + 1)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "look_again"])
def test_every_verb_needs_a_reason_and_the_newest_version(unknown: Operation, verb: str) -> None:
    for reason, version, code in [
        ("  ", unknown.version, "reason_required"),
        ("Why", unknown.version - 1, "version_conflict"),
    ]:
        with pytest.raises(saga.Refused) as refused:
            VERBS[verb](unknown.pk, actor="user:operator", reason=reason, expected_version=version)
        assert refused.value.code == code
    before = Operation.objects.filter(pk=unknown.pk).values().get()
    unknown.refresh_from_db()
    assert before["version"] == unknown.version


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_touches_what_is_not_unknown(world: World, verb: str) -> None:
    committed = world.fork()
    with pytest.raises(saga.Refused) as refused:
        VERBS[verb](committed.pk, actor="user:operator", reason="Why", expected_version=committed.version)
    assert refused.value.code == "version_conflict"
    assert "Committed by worker:test" in refused.value.sentence


def test_a_verified_child_is_adopted_and_the_reason_stays(world: World, unknown: Operation) -> None:
    child = world.agent.children[0]["id"]
    adopted = adopt(unknown, child)
    assert (adopted.status, adopted.child_provider_session_id) == (S.PROVIDER_ACCEPTED, child)
    audit = OperationAudit.objects.filter(operation_id=unknown.pk).latest("sequence")
    assert (audit.actor, audit.reason) == ("user:operator", "adopted")
    assert audit.detail["reason"] == "Same second, same cut."
    assert Evidence.objects.filter(pk=audit.detail["evidence"], operation_id=unknown.pk).exists()
    world.work(unknown)
    assert unknown.status == S.COMMITTED
    assert len(world.agent.calls) == 1


def test_a_child_that_no_look_up_verified_is_not_adopted(unknown: Operation) -> None:
    with pytest.raises(saga.Refused) as refused:
        adopt(unknown, "child-of-somebody")
    assert refused.value.code == "evidence_missing"


def test_a_child_that_became_a_session_meanwhile_is_not_adopted(world: World, unknown: Operation) -> None:
    child = world.agent.children[0]["id"]
    source = world.new_source()
    Session.objects.filter(pk=source.pk).update(provider_session_id=child)
    with pytest.raises(saga.Refused) as refused:
        adopt(unknown, child)
    assert refused.value.code == "child_taken"
    unknown.refresh_from_db()
    assert unknown.status == S.UNKNOWN


def test_the_second_of_two_operators_learns_who_was_first(unknown: Operation) -> None:
    seen = unknown.version
    saga.confirm_not_created(unknown.pk, actor="user:first", reason="Not in the folder.", expected_version=seen)
    with pytest.raises(saga.Refused) as refused:
        saga.keep_unknown(unknown.pk, actor="user:second", reason="Not sure.", expected_version=seen)
    assert refused.value.status == 409
    assert "user:first" in refused.value.sentence


def test_confirmed_not_created_is_failed_and_frees_the_target(world: World, unknown: Operation) -> None:
    failed = saga.confirm_not_created(
        unknown.pk, actor="user:operator", reason="Not there.", expected_version=unknown.version
    )
    assert (failed.status, failed.error_code, failed.unknown_since) == (S.FAILED, "confirmed_not_created", None)
    assert world.prepare(target_session_id=failed.target_session_id).status == S.PREPARED


def test_kept_unknown_comes_back_by_itself(world: World, unknown: Operation, held_clock: HeldClock) -> None:
    held_clock.advance(25 * 3600)
    world.work(unknown)
    assert (unknown.needs_person, unknown.next_run_at) == (True, None)
    kept = saga.keep_unknown(unknown.pk, actor="user:operator", reason="Waiting.", expected_version=unknown.version)
    assert (kept.status, kept.needs_person) == (S.UNKNOWN, False)
    assert world.claim() is None
    held_clock.advance(24 * 3600)
    world.work(unknown)
    assert (unknown.status, unknown.needs_person) == (S.UNKNOWN, True)


def test_look_again_looks_at_once(world: World, unknown: Operation) -> None:
    looks = unknown.looks
    saga.look_again(unknown.pk, actor="user:operator", reason="Disk is back.", expected_version=unknown.version)
    world.work(unknown)
    assert unknown.looks == looks + 1
    assert acts(unknown)[-2:] == ["look_again", "looked_up"]


def test_settling_one_leaves_every_other_row_as_it_was(world: World, unknown: Operation) -> None:
    world.agent.script("lose")
    world.fork()
    others = list(Operation.objects.exclude(pk=unknown.pk).order_by("pk").values())
    saga.confirm_not_created(unknown.pk, actor="user:operator", reason="Gone.", expected_version=unknown.version)
    assert list(Operation.objects.exclude(pk=unknown.pk).order_by("pk").values()) == others
