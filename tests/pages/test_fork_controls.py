"""Where a turn can be forked, the page offers it; where it cannot, it says why beside the control."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from operations.choices import OperationStatus
from operations.models import Operation
from sessions import store
from tests.operations.support import World, through, turn
from tests.pages.support import fork_page, html, links, operation_page, session_page, tags, words


def controls(page: object) -> list[str]:
    """Where the enabled controls of a session's turns lead."""
    return [link for link in links(page) if "/fork/?turn=" in link]


def test_every_settled_turn_that_is_bound_has_a_link_of_its_own(reader: Client, world: World) -> None:
    page = reader.get(session_page(world.source))
    assert len(controls(page)) == 3
    assert [f"Fork from turn {number}" in words(page) for number in (1, 2, 3)] == [True] * 3


def test_a_turn_that_cannot_be_forked_is_disabled_and_says_why(reader: Client, world: World) -> None:
    store.append(world.source.pk, turn(4, refuse="too_long"))
    page = reader.get(session_page(world.source))
    assert len(controls(page)) == 3
    assert [attrs for attrs in tags(page, "button") if "disabled" in attrs]
    assert "Fork from turn 4 The fake agent says too_long." in words(page)


def test_a_running_turn_is_disabled_until_it_is_settled(reader: Client, world: World) -> None:
    store.append(world.source.pk, turn(4)[:2])
    page = reader.get(session_page(world.source))
    assert len(controls(page)) == 3
    assert "This turn is still running; it can be forked once it is settled." in words(page)


def test_an_agent_that_forks_only_at_the_end_has_no_controls_at_turns_and_one_sentence(
    reader: Client, world: World
) -> None:
    world.agent.configure(points="latest-turn")
    world.attest()
    page = reader.get(session_page(world.source))
    assert controls(page) == []
    assert words(page).count("This agent can fork only at the end of the conversation.") == 1
    assert fork_page(world.source, latest=1) in links(page)


def test_an_agent_that_cannot_fork_says_why_in_the_header(reader: Client, world: World) -> None:
    world.agent.configure(points="unsupported")
    world.attest()
    page = reader.get(session_page(world.source))
    assert not [link for link in links(page) if "/fork/" in link]
    assert "No turn of this session can be forked. This version cannot fork." in words(page)


def test_a_turn_is_disabled_while_a_fork_from_it_is_on_its_way(reader: Client, world: World) -> None:
    operation = world.prepare(point=through(world.source, 2))
    page = reader.get(session_page(world.source))
    assert len(controls(page)) == 2
    assert "A fork from this turn is on its way: follow it" in words(page)
    assert operation_page(operation) in links(page)


def test_forks_are_listed_at_their_turn_with_what_became_of_them(reader: Client, world: World) -> None:
    world.agent.script("accept", "reject", "lose")
    committed = world.fork(point=through(world.source, 1), title="Made")
    world.fork(point=through(world.source, 2), title="Refused")
    unknown = world.fork(point=through(world.source, 3), title="Lost")
    pending = world.prepare(point=through(world.source, 3), title="Asked for")
    page = reader.get(session_page(world.source))
    first, rest = words(page).split("Turn 2", 1)
    second, third = rest.split("Turn 3", 1)
    assert "1 fork from here Forked Made" in first
    assert "1 fork from here Fork failed Refused" in second
    assert "2 forks from here Forking… Asked for" in third
    assert "Outcome unknown Lost" in third
    child = reverse("sessions:detail", args=[committed.target_session_id])
    assert f"{child}?turn=1#continued" in links(page)
    assert {operation_page(unknown), operation_page(pending)} <= set(links(page))


def test_a_turn_with_an_unknown_fork_can_be_forked_and_leads_to_the_unknown_first(reader: Client, world: World) -> None:
    world.agent.script("lose")
    world.fork()
    page = reader.get(session_page(world.source))
    assert len(controls(page)) == 3
    assert "The outcome of an earlier fork from this turn is unknown: look at it first" in words(page)


def test_a_fork_that_was_deleted_since_says_so(reader: Client, world: World) -> None:
    operation = world.fork()
    store.tombstone(operation.target_session_id)
    assert "deleted since" in words(reader.get(session_page(world.source)))


def test_the_mark_of_a_pending_fork_is_live_and_ends_by_itself(reader: Client, world: World) -> None:
    operation = world.prepare()
    page = reader.get(session_page(world.source))
    address = next(str(attrs["hx-get"]) for attrs in tags(page, "li") if "/mark/" in str(attrs.get("hx-get")))
    assert reader.get(address).status_code == 204
    world.work(operation)
    mark = reader.get(address)
    assert "Forked" in words(mark)
    assert "hx-get" not in html(mark)


def test_the_header_counts_what_is_open_and_what_is_unknown(reader: Client, world: World) -> None:
    world.agent.script("lose")
    world.fork(point=through(world.source, 1))
    world.prepare(point=through(world.source, 2))
    page = words(reader.get(reverse("sessions:list")))
    assert "Forks 1 with unknown outcome 1 on their way" in page
    assert set(Operation.objects.values_list("status", flat=True)) == {
        OperationStatus.UNKNOWN,
        OperationStatus.PREPARED,
    }


def test_a_session_in_the_list_offers_its_last_settled_turn(reader: Client, world: World) -> None:
    assert fork_page(world.source, latest=1) in links(reader.get(reverse("sessions:list")))
