"""The queue: what needs a person first, then the oldest; counted in the header; looking again for several at once."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from forkhost.kit.clock import HeldClock
from operations import saga
from operations.models import Operation
from tests.conftest import People
from tests.console.support import card, queue, unknown_fork
from tests.operations.support import World, acts
from tests.pages.support import links, tags, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(world: World, held_clock: HeldClock) -> list[Operation]:
    """Three unknown forks, the oldest first."""
    return [unknown_fork(world, held_clock) for _ in range(3)]


def listed(console: Client) -> list[str]:
    """The forks of the queue, in its order."""
    found = [re.search(r"/([0-9a-f-]{36})/settle/$", link) for link in links(console.get(queue()))]
    return [match[1] for match in found if match]


def test_what_needs_a_person_stands_first_then_the_oldest(
    console: Client, world: World, three: list[Operation], held_clock: HeldClock
) -> None:
    world.fork()
    assert listed(console) == [str(each.pk) for each in three]
    Operation.objects.filter(pk=three[2].pk).update(needs_person=True)
    assert listed(console) == [str(three[2].pk), str(three[0].pk), str(three[1].pk)]


def test_a_row_says_age_source_turn_runner_reason_and_last_look(
    console: Client, world: World, unknown: Operation
) -> None:
    page = console.get(queue())
    said = words(page)
    for part in ("unknown for 0 h 1 min", str(world.source.pk)[:8], "3", "here", "no_answer"):
        assert part in said
    assert "1 fork to look after" in said
    Operation.objects.filter(pk=unknown.pk).update(needs_person=True)
    assert "1 fork to look after, 1 needs a person" in words(console.get(card(unknown)))


def test_the_queue_asks_the_database_as_often_for_many_as_for_few(
    console: Client, world: World, unknown: Operation, held_clock: HeldClock, django_assert_max_num_queries: object
) -> None:
    for _ in range(3):
        unknown_fork(world, held_clock)
    with django_assert_max_num_queries(14):  # type: ignore[operator]
        console.get(queue())


def test_looking_again_at_several_shows_the_exact_list_first_and_looks_at_those_alone(
    console: Client, three: list[Operation]
) -> None:
    chosen = [str(three[0].pk), str(three[1].pk)]
    page = console.post(queue(), {"action": "look_again", "_selected_action": chosen})
    assert "exactly 2 forks" in words(page)
    assert Operation.objects.filter(version=three[0].version).count() == 3
    hidden = [(field["name"], field["value"]) for field in tags(page, "input") if field.get("type") == "hidden"]
    sent: dict[str, list[str]] = {}
    for name, value in hidden:
        sent.setdefault(str(name), []).append(str(value))
    assert console.post(queue(), sent).status_code == 302
    assert [acts(each)[-1] for each in three] == ["look_again", "look_again", "looked_up"]


def test_what_changed_since_the_list_was_shown_is_left_alone(console: Client, three: list[Operation]) -> None:
    chosen = [str(three[0].pk), str(three[1].pk)]
    seen = [f"{each.pk}:{each.version}" for each in three[:2]]
    saga.keep_unknown(three[1].pk, actor="user:other", reason="Waits.", expected_version=three[1].version)
    sent = {"action": "look_again", "_selected_action": chosen, "confirmed": "1", "seen": seen}
    page = console.post(queue(), sent, follow=True)
    assert "The runners look again at 1." in words(page)
    assert "1 changed meanwhile" in words(page)
    assert [acts(each)[-1] for each in three] == ["look_again", "kept_unknown", "looked_up"]


def test_only_unknown_forks_of_ones_own_workspace_are_looked_at_again(
    console: Client, people: People, world: World, three: list[Operation]
) -> None:
    committed = world.fork()
    page = console.post(f"{queue()}?show=all", {"action": "look_again", "_selected_action": [str(committed.pk)]})
    assert "None of the selected forks" in words(page)
