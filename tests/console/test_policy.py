"""What settles by itself, what waits for a person, and the one deletion there is."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from forkhost.kit.clock import HeldClock
from operations import evidence, recovery, saga
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from operations.outcomes import Made
from sessions import switches
from sessions.choices import Settlement
from sessions.providers.base import ForkAccepted, TurnBinding, TurnMapping
from tests.console.support import REASON, card, press, unknown_fork
from tests.operations.support import World, acts
from tests.pages.support import words

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.fixture
def always_ask(world: World) -> None:
    assert switches.switch_settlement(world.workspace, Settlement.ASK, actor="user:operator", reason="Audited here.")


def lost(world: World, step: Any, **config: Any) -> Operation:
    world.agent.configure(**config)
    world.attest()
    world.agent.script(step)
    return world.fork()


class TestAWorkspaceThatIsAlwaysAsked:
    def test_proof_of_a_child_waits_for_a_person_who_adopts_it(
        self, always_ask: None, world: World, held_clock: HeldClock, console: Client
    ) -> None:
        operation = lost(world, "lose_answer")
        held_clock.advance(60)
        world.work(operation)
        assert (operation.status, operation.needs_person, operation.next_run_at) == (S.UNKNOWN, True, None)
        assert acts(operation)[-1] == "proof_waits"
        press(console, operation, "adopt", child=world.agent.children[0]["id"])
        world.work(operation)
        assert operation.status == S.COMMITTED

    def test_proof_of_absence_waits_for_a_person(self, always_ask: None, world: World, held_clock: HeldClock) -> None:
        operation = lost(world, "lose", process="dead")
        held_clock.advance(60)
        world.work(operation)
        assert (operation.status, operation.needs_person) == (S.UNKNOWN, True)

    def test_a_late_answer_waits_too_is_asked_about_once_and_can_be_adopted(
        self, always_ask: None, world: World, console: Client
    ) -> None:
        operation = lost(world, "lose_answer")
        child, token = world.agent.children[0]["id"], operation.dispatch_token
        turn = TurnBinding(operation.source_provider_turn_id)
        late = ForkAccepted(child, [TurnMapping(turn.provider_turn_id, turn)], True, {"path": ""}, None)
        assert token is not None
        evidence.leave_late_answer(operation, token, Made(late), "worker:late")
        recovery.sweep()
        recovery.sweep()
        operation.refresh_from_db()
        assert (operation.status, operation.needs_person) == (S.UNKNOWN, True)
        assert acts(operation).count("proof_waits") == 1
        press(console, operation, "adopt", child=child)
        operation.refresh_from_db()
        assert (operation.status, operation.child_provider_session_id) == (S.PROVIDER_ACCEPTED, child)

    def test_the_switch_counts_from_the_next_look_on(
        self, always_ask: None, world: World, held_clock: HeldClock
    ) -> None:
        operation = lost(world, "lose_answer")
        held_clock.advance(60)
        world.work(operation)
        switches.switch_settlement(world.workspace, Settlement.AUTOMATIC, actor="user:operator", reason="Enough.")
        saga.look_again(operation.pk, actor="user:operator", expected_version=operation.version)
        world.work(operation)
        assert operation.status == S.PROVIDER_ACCEPTED


class TestASearch:
    """A provider whose children carry neither id nor mark."""

    @pytest.mark.parametrize(
        "difference", [{"source": "another"}, {"createdAt": 1}, {"turn": "turn-1"}, {"content": "other"}]
    )
    def test_a_session_that_differs_in_parent_time_cut_or_content_is_no_candidate(
        self, world: World, held_clock: HeldClock, difference: dict[str, Any]
    ) -> None:
        operation = lost(world, "lose", identity_mode="search", process="dead")
        like = {"source": operation.source_provider_session_id, "turn": operation.source_provider_turn_id}
        world.agent.add_child(**{**like, **difference})
        world.agent.add_child(**like)
        held_clock.advance(60)
        world.work(operation)
        [candidate] = Evidence.objects.get(operation_id=operation.pk).candidates
        assert candidate["strength"] == "likely"
        assert candidate["facts"] == {"parent": True, "inWindow": True, "cut": True, "content": True}
        assert operation.status == S.UNKNOWN

    def test_absence_proves_nothing(self, world: World, held_clock: HeldClock) -> None:
        operation = lost(world, "lose", identity_mode="search", process="dead")
        held_clock.advance(60)
        world.work(operation)
        assert (operation.status, operation.error_code) == (S.UNKNOWN, "no_answer")


class TestATornChild:
    @pytest.fixture
    def torn(self, world: World, held_clock: HeldClock) -> Operation:
        world.agent.configure(process="dead")
        return unknown_fork(world, held_clock, "torn", "marker")

    def test_it_is_shown_as_torn_and_never_adopted_or_removed_by_itself(
        self, console: Client, world: World, torn: Operation, held_clock: HeldClock
    ) -> None:
        assert " torn " in words(console.get(card(torn)))
        for _ in range(6):
            held_clock.advance(24 * 3600)
            world.work(torn)
        assert (torn.status, torn.needs_person) == (S.UNKNOWN, True)
        assert len(world.agent.children) == 1

    def test_an_operator_names_it_and_its_runner_removes_that_one(
        self, console: Client, settler: User, world: World, torn: Operation
    ) -> None:
        [child] = world.agent.children
        bystander = world.agent.add_child(source=child["source"], turn=child["turn"], marker="forkhost:another")
        assert press(console, torn, "remove-torn", child=child["id"]).status_code == 302
        assert len(world.agent.children) == 2
        world.work(torn)
        assert [each["id"] for each in world.agent.children] == [bystander]
        assert (torn.status, torn.error_code) == (S.FAILED, "torn_child_removed")
        assert acts(torn)[-3:] == ["torn_removal_asked", "torn_removed", "proven_not_created"]
        removed = Evidence.objects.get(operation_id=torn.pk, method="operator").detail["removed"]
        assert removed["childProviderSessionId"] == child["id"]
        assert removed["path"].endswith(f"{child['id']}.json")
        assert len(removed["sha256"]) == 64

    def test_one_that_became_whole_meanwhile_stays(self, console: Client, world: World, torn: Operation) -> None:
        [child] = world.agent.children
        press(console, torn, "remove-torn", child=child["id"])
        world.agent.add_child(**{**child, "complete": True})
        world.work(torn)
        assert len(world.agent.children) == 1
        assert "torn_not_removed" in acts(torn)
        torn.refresh_from_db()
        assert torn.removal is None

    def test_one_whose_maker_may_still_live_stays(self, console: Client, world: World, held_clock: HeldClock) -> None:
        torn = unknown_fork(world, held_clock, "torn", "marker")
        press(console, torn, "remove-torn", child=world.agent.children[0]["id"])
        world.work(torn)
        assert len(world.agent.children) == 1
        assert acts(torn)[-2:] == ["torn_not_removed", "looked_up"]

    def test_only_what_the_newest_look_shows_as_torn_can_be_named(self, unknown: Operation, world: World) -> None:
        child = world.agent.children[0]["id"]
        with pytest.raises(saga.Refused) as refused:
            saga.ask_removal(
                unknown.pk, child, "/anywhere", actor="user:x", reason=REASON, expected_version=unknown.version
            )
        assert refused.value.code == "not_torn"
