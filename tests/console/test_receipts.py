"""A receipt says, at an address that lasts, what was asked, done, seen and decided; users read the same truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations import saga
from operations.models import Operation
from sessions import store
from sessions.choices import Visibility
from sessions.models import Session
from tests.conftest import People
from tests.console.support import REASON, press, unknown_fork
from tests.operations.support import World, through
from tests.pages.support import fork_page, operation_page, words

pytestmark = pytest.mark.django_db


def page_of(operation: Operation) -> str:
    return reverse("operations:receipt", args=[operation.pk])


def json_of(browser: Client, operation: Operation) -> Any:
    answer = browser.get(
        f"/v1/workspaces/{operation.workspace_id}/agent-session-fork-operations/{operation.pk}/receipt"
    )
    assert answer.status_code == 200
    return answer.json()


@pytest.fixture
def reader(people: People, browser_of: Callable[[User], Client]) -> Client:
    """Whoever asked for the forks; no operator."""
    return browser_of(people.member)


def test_a_committed_fork_has_its_whole_story(world: World, reader: Client, people: People) -> None:
    operation = world.fork()
    receipt = json_of(reader, operation)
    assert (receipt["status"], receipt["calls"], receipt["settlement"], receipt["error"]) == (
        "committed",
        1,
        None,
        None,
    )
    assert receipt["request"]["requestId"] == operation.request_id
    assert receipt["request"]["requestedBy"] == people.member.username
    assert receipt["source"]["agentSessionId"] == str(operation.source_session_id)
    assert receipt["target"]["agentSessionId"] == str(operation.target_session_id)
    assert receipt["target"]["providerSessionId"] == world.agent.children[0]["id"]
    assert [act["act"] for act in receipt["acts"]] == ["prepared", "dispatching", "accepted", "committed"]
    assert [act["sequence"] for act in receipt["acts"]] == [1, 2, 3, 4]
    assert receipt["times"]["preparedAtUnixMs"] <= receipt["times"]["completedAtUnixMs"]
    assert receipt["agent"]["runner"] == "here"
    assert receipt["providerReceipt"]["verified"] == ["exists", "ends at the turn"]


def test_it_lasts_when_source_and_child_are_gone(world: World, reader: Client) -> None:
    operation = world.fork()
    before = json_of(reader, operation)
    for session_id in (operation.target_session_id, operation.source_session_id):
        store.tombstone(session_id, actor="user:member")
        store.purge(session_id, actor="user:member")
    assert json_of(reader, operation) == before
    assert str(operation.pk) in words(reader.get(page_of(operation)))


def test_a_fork_that_never_was_sent_has_a_receipt_with_no_call(world: World, reader: Client) -> None:
    world.agent.configure(confirm="turn_gone")
    operation = world.fork()
    receipt = json_of(reader, operation)
    assert (receipt["status"], receipt["calls"]) == ("failed", 0)
    assert receipt["evidence"] == []


def test_who_settled_it_and_why_is_told_to_everybody_who_may_see_it(
    console: Client, world: World, unknown: Operation, reader: Client
) -> None:
    press(console, unknown, "adopt", child=world.agent.children[0]["id"])
    world.work(unknown)
    settlement = json_of(reader, unknown)["settlement"]
    assert (settlement["kind"], settlement["by"], settlement["reason"]) == ("adopted", "user:operator", REASON)
    for address in (page_of(unknown), operation_page(unknown)):
        said = words(reader.get(address))
        assert "The operator operator adopted the fork" in said
        assert REASON in said


def test_settled_by_evidence_names_no_person(world: World, reader: Client, held_clock: HeldClock) -> None:
    world.agent.configure(process="dead")
    world.agent.script("lose")
    operation = world.fork()
    held_clock.advance(60)
    world.work(operation)
    settlement = json_of(reader, operation)["settlement"]
    assert (settlement["kind"], settlement["reason"]) == ("proven_not_created", None)
    assert settlement["evidenceId"] == json_of(reader, operation)["evidence"][0]["id"]
    assert "A look at the agent proved that nothing usable was made." in words(reader.get(operation_page(operation)))


def test_an_unknown_fork_says_since_when_why_and_what_happens_next_without_operator_rights(
    reader: Client, settler: User, unknown: Operation
) -> None:
    said = words(reader.get(operation_page(unknown)))
    assert "Outcome unknown since" in said
    assert "The agent did not answer." in said
    assert "The source session is unharmed" in said
    assert "next at" in said
    saga.assign(unknown.pk, settler.pk, actor="user:operator", reason=REASON, expected_version=unknown.version)
    Operation.objects.filter(pk=unknown.pk).update(needs_person=True, next_run_at=None)
    said = words(reader.get(operation_page(unknown)))
    assert "operator looks after it" in said
    assert "an operator looks at the evidence and decides; whoever asked for the fork is told" in said
    assert json_of(reader, unknown)["nextLookAtUnixMs"] is None


def test_another_fork_from_the_same_turn_is_possible_after_a_warning_that_says_what_could_happen(
    world: World, reader: Client, held_clock: HeldClock
) -> None:
    operation = unknown_fork(world, held_clock)
    said = words(reader.get(fork_page(world.source, latest=1)))
    assert "The outcome of an earlier fork from here is unknown." in said
    assert "If the earlier one turns up after all, there will be two forks from here" in said
    again = world.fork(point=through(world.source, operation.resolved_ordinal or 0))
    assert again.status == "committed"


def test_a_receipt_of_a_private_session_is_for_those_who_see_the_fork(
    people: People, world: World, browser_of: Callable[[User], Client]
) -> None:
    operation = world.fork()
    private = [operation.source_session_id, operation.target_session_id]
    Session.objects.filter(pk__in=private).update(visibility=Visibility.PRIVATE, created_by_id=people.member.pk)
    path = f"/v1/workspaces/{operation.workspace_id}/agent-session-fork-operations/{operation.pk}/receipt"
    for user, status in (
        (people.member, 200),
        (people.operator, 200),
        (people.second_member, 404),
        (people.stranger, 404),
    ):
        assert browser_of(user).get(page_of(operation)).status_code == status, user
        assert browser_of(user).get(path).status_code == status, user
