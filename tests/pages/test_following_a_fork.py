"""The operation's page says what is true, and changes by itself until the end is known."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from sessions import store
from sessions.models import Runner
from tests.operations.support import World
from tests.pages.support import html, links, operation_page, tags, words


def poll(reader: Client, page: object) -> object:
    """What the live part of the page asks for next."""
    address = next(str(attrs["hx-get"]) for attrs in tags(page, "div") if attrs.get("id") == "operation")
    return reader.get(address, headers={"HX-Request": "true"})


def test_a_prepared_fork_is_forking_and_says_that_nothing_was_sent(reader: Client, world: World) -> None:
    page = reader.get(operation_page(world.prepare()))
    assert "Forking…" in words(page)
    assert "Nothing has been sent yet." in words(page)
    assert "Calls made 0" in words(page)
    assert "Forked" not in words(page).replace("Forked not yet", "")


def test_nothing_is_swapped_while_nothing_changes_and_the_end_ends_the_asking(reader: Client, world: World) -> None:
    operation = world.prepare()
    page = reader.get(operation_page(operation))
    assert poll(reader, page).status_code == 204
    world.work(operation)
    changed = poll(reader, page)
    assert changed.status_code == 200
    assert "<html" not in html(changed)
    assert 'hx-trigger="every' not in html(changed)


def test_a_page_that_watched_the_fork_being_made_opens_it_by_itself(reader: Client, world: World) -> None:
    operation = world.prepare()
    page = reader.get(operation_page(operation))
    world.work(operation)
    form = next(attrs for attrs in tags(poll(reader, page), "form") if "data-follow" in attrs)
    child = reader.get(str(form["data-open"]))
    assert child.status_code == 200
    operation.refresh_from_db()
    assert operation.observed_at is None


def test_without_javascript_opening_acknowledges_and_leads_to_the_fork(reader: Client, world: World) -> None:
    operation = world.fork()
    opened = reader.post(reverse("operations:open", args=[operation.pk]))
    assert opened.status_code == 303
    assert opened["Location"] == f"{reverse('sessions:detail', args=[operation.target_session_id])}?turn=3#continued"
    operation.refresh_from_db()
    assert operation.observed_at is not None


def test_a_committed_fork_looked_at_later_stays_where_it_is(reader: Client, world: World) -> None:
    page = reader.get(operation_page(world.fork()))
    assert "Open the fork" in words(page)
    assert "data-follow" not in html(page)


def test_looking_never_acknowledges(reader: Client, world: World) -> None:
    operation = world.fork()
    reader.get(operation_page(operation))
    reader.get(operation_page(operation), headers={"HX-Request": "true"})
    operation.refresh_from_db()
    assert operation.observed_at is None


def test_an_unknown_outcome_is_amber_explained_and_offers_no_second_try(reader: Client, world: World) -> None:
    world.agent.script("lose")
    operation = world.fork()
    page = reader.get(operation_page(operation))
    text = words(page)
    assert "Outcome unknown since" in text
    assert "The agent did not answer." in text
    assert "The source session is unharmed" in text
    assert "What happens next" in text
    assert "Calls made 1" in text
    assert "tone-unknown" in html(page)
    assert not re.search(r"retry|try again|send again", text, re.IGNORECASE)
    assert not [link for link in links(page) if "/fork/" in link]
    assert not [attrs for attrs in tags(page, "form") if str(operation.pk) in (attrs.get("action") or "")]


def test_an_unknown_that_is_settled_changes_on_the_page(reader: Client, world: World) -> None:
    world.agent.script("lose")
    operation = world.fork()
    page = reader.get(operation_page(operation))
    assert poll(reader, page).status_code == 204
    saga.confirm_not_created(
        operation.pk, actor="user:operator", reason="looked at the folder", expected_version=operation.version
    )
    settled = words(poll(reader, page))
    assert "Fork failed — nothing was created" in settled
    assert "An operator confirmed that nothing was created" in settled


def test_an_unknown_that_looking_did_not_settle_says_that_a_person_decides(reader: Client, world: World) -> None:
    world.agent.script("lose")
    operation = world.fork()
    Operation.objects.filter(pk=operation.pk).update(needs_person=True, next_run_at=None)
    assert "an operator looks at the evidence and decides" in words(reader.get(operation_page(operation)))


@pytest.mark.parametrize(
    ("step", "why"),
    [("reject", "The agent does not know this turn."), ("not_started", "The agent could not be started.")],
)
def test_a_failed_fork_says_that_nothing_was_created_and_offers_a_new_one(
    reader: Client, world: World, step: str, why: str
) -> None:
    world.agent.script(step)
    page = reader.get(operation_page(world.fork()))
    assert "Fork failed — nothing was created" in words(page)
    assert why in words(page)
    assert [link for link in links(page) if "/fork/?turn=" in link]


def test_a_fork_that_failed_before_it_was_sent_says_so(reader: Client, world: World) -> None:
    world.agent.configure(confirm="turn_gone")
    operation = world.fork()
    assert (operation.status, operation.calls) == (OperationStatus.FAILED, 0)
    assert "Nothing was sent, so nothing was created" in words(reader.get(operation_page(operation)))


def test_a_contradicted_failure_does_not_claim_that_nothing_was_created(reader: Client, world: World) -> None:
    world.agent.script("reject")
    operation = world.fork()
    Operation.objects.filter(pk=operation.pk).update(needs_person=True)
    page = words(reader.get(operation_page(operation)))
    assert "Fork failed — nothing was created" not in page
    assert "an operator has to look" in page


def test_a_machine_without_a_worker_is_named(reader: Client, world: World, held_clock: HeldClock) -> None:
    operation = world.prepare()
    Runner.objects.update(last_seen_at=held_clock.at)
    assert "No worker since" not in words(reader.get(operation_page(operation)))
    held_clock.advance(3600)
    page = reader.get(operation_page(operation))
    assert "No worker since 2026-07-29 12:00 UTC" in words(page)
    assert "never moved to another" in words(page)
    assert poll(reader, page).status_code == 204


def test_the_page_asks_less_often_as_the_fork_grows_older(reader: Client, world: World, held_clock: HeldClock) -> None:
    operation = world.prepare()
    asked = []
    for seconds in (0, 20, 100, 1000):
        held_clock.advance(seconds)
        page = html(reader.get(operation_page(operation)))
        asked.append(re.findall(r'hx-trigger="every (\d+)s"', page))
    assert asked == [["1"], ["2"], ["5"], ["15"]]


def test_a_fork_whose_session_was_deleted_keeps_its_receipt(reader: Client, world: World) -> None:
    operation = world.fork()
    store.tombstone(operation.target_session_id)
    page = reader.get(operation_page(operation))
    assert "Its session was deleted since." in words(page)
    assert str(operation.target_session_id) in words(page)
    assert reader.post(reverse("operations:open", args=[operation.pk]))["Location"] == operation_page(operation)


def test_opening_what_is_not_committed_leads_back(reader: Client, world: World) -> None:
    operation = world.prepare()
    assert reader.post(reverse("operations:open", args=[operation.pk]))["Location"] == operation_page(operation)
    assert reader.get(reverse("operations:open", args=[operation.pk])).status_code == 405


def test_the_receipt_and_the_same_as_json_are_there(reader: Client, world: World) -> None:
    operation = world.fork()
    page = reader.get(operation_page(operation))
    assert "What the agent answered" in words(page)
    assert operation.child_provider_session_id in words(page)
    api = next(link for link in links(page) if link.startswith("/v1/"))
    assert reader.get(api).json()["operationId"] == str(operation.pk)
