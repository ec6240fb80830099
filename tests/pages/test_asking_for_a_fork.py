"""Two steps that both have an address: what would be forked, then the operation. Without JavaScript."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from operations.choices import OperationStatus
from operations.models import Operation
from sessions import history, store
from sessions.models import Session, Workspace
from tests.operations.support import World, through, turn
from tests.pages.support import fork_page, hidden_fields, html, links, operation_page, tags, words


def ask(reader: Client, address: str, title: str = "", **changes: str) -> Any:
    """Look at the page, then press its button."""
    fields = hidden_fields(reader.get(address))
    return reader.post(address, {**fields, "title": title, **changes})


def of_turn(world: World, ordinal: int) -> str:
    """The address that asks for a fork through a turn."""
    view = history.turn_by_ordinal(world.source, ordinal)
    assert view is not None
    return fork_page(world.source, turn=str(view.id))


def test_the_page_says_what_will_be_in_the_fork_and_what_will_not(reader: Client, world: World) -> None:
    page = words(reader.get(of_turn(world, 2)))
    assert "Fork from turn 2" in page
    assert "Turns 1 to 2, exactly as they are" in page
    assert "The 1 turn after turn 2; it stays in the source" in page
    assert world.source.cwd in page
    assert "The source is not touched" in page


def test_looking_writes_nothing(reader: Client, world: World) -> None:
    for address in (of_turn(world, 1), fork_page(world.source, latest=1), fork_page(world.source, at=2)):
        assert reader.get(address).status_code == 200
    assert not Operation.objects.exists()


def test_pressing_prepares_one_fork_and_leads_to_it(reader: Client, world: World) -> None:
    response = ask(reader, of_turn(world, 2), title="Another way")
    operation = Operation.objects.get()
    assert response.status_code == 303
    assert response["Location"] == operation_page(operation)
    assert (operation.resolved_ordinal, operation.title, operation.calls) == (2, "Another way", 0)
    assert operation.requested_by_id == world.user.pk


@pytest.mark.parametrize(
    ("query", "kind"),
    [({"latest": 1}, "latestSettled"), ({"at": 6}, "atSeq")],
)
def test_the_point_is_kept_as_it_was_asked_for(reader: Client, world: World, query: dict[str, Any], kind: str) -> None:
    ask(reader, fork_page(world.source, **query))
    operation = Operation.objects.get()
    assert operation.point_type == kind
    assert operation.resolved_ordinal == {"latestSettled": 3, "atSeq": 2}[kind]


def test_a_double_click_a_reload_and_a_second_tab_make_one_fork(reader: Client, world: World) -> None:
    address = of_turn(world, 2)
    first_tab, second_tab = (hidden_fields(reader.get(address)) for _ in range(2))
    answers = [reader.post(address, {**fields, "title": ""}) for fields in (first_tab, first_tab, second_tab)]
    assert {answer["Location"] for answer in answers} == {operation_page(Operation.objects.get())}


def test_the_next_look_after_a_fork_asks_for_another_one(reader: Client, world: World) -> None:
    address = of_turn(world, 2)
    ask(reader, address)
    world.work()
    ask(reader, address)
    assert Operation.objects.count() == 2


def test_two_people_asking_at_the_same_turn_get_a_fork_each(reader: Client, world: World, people: Any) -> None:
    other = Client()
    other.force_login(people.second_member)
    address = of_turn(world, 1)
    fields, others = hidden_fields(reader.get(address)), hidden_fields(other.get(address))
    assert fields["request_id"] != others["request_id"]
    assert fields["target_session_id"] != others["target_session_id"]


def test_a_second_tab_with_another_title_is_told_which_fork_stands_there_and_loses_nothing(
    reader: Client, world: World
) -> None:
    address = of_turn(world, 2)
    fields = hidden_fields(reader.get(address))
    reader.post(address, {**fields, "title": "First"})
    refused = reader.post(address, {**fields, "title": "Second"})
    assert refused.status_code == 409
    assert operation_page(Operation.objects.get()) in links(refused)
    assert "Second" in [attrs.get("value") for attrs in tags(refused, "input")]


def test_a_session_that_went_on_meanwhile_is_shown_again_before_anything_is_sent(reader: Client, world: World) -> None:
    address = fork_page(world.source, latest=1)
    fields = hidden_fields(reader.get(address))
    store.append(world.source.pk, turn(4))
    response = reader.post(address, {**fields, "title": "Mine"})
    assert response.status_code == 409
    assert "This fork would now end with turn 4." in words(response)
    assert not Operation.objects.exists()
    assert reader.post(address, {**hidden_fields(response), "title": "Mine"}).status_code == 303


def test_a_reload_after_the_session_went_on_still_finds_the_same_fork(reader: Client, world: World) -> None:
    address = fork_page(world.source, latest=1)
    fields = hidden_fields(reader.get(address))
    first = reader.post(address, {**fields, "title": ""})
    store.append(world.source.pk, turn(4))
    assert reader.post(address, {**fields, "title": ""})["Location"] == first["Location"]


def test_a_turn_that_cannot_be_forked_is_explained_and_the_button_disabled(reader: Client, world: World) -> None:
    store.append(world.source.pk, turn(4, refuse="too_long"))
    world.source.refresh_from_db()
    page = reader.get(of_turn(world, 4))
    assert page.status_code == 200
    assert "This cannot be forked at turn 4 now. The fake agent says too_long." in words(page)
    assert _button(page)["disabled"] is None


def test_a_refusal_keeps_what_was_typed(reader: Client, world: World) -> None:
    address = of_turn(world, 2)
    fields = hidden_fields(reader.get(address))
    Workspace.objects.update(forks_enabled=False)
    refused = reader.post(address, {**fields, "title": "Typed with care"})
    assert refused.status_code == 403
    assert "New forks are switched off in this workspace." in words(refused)
    assert "Nothing was sent" in words(refused)
    assert 'value="Typed with care"' in html(refused)


def test_a_title_that_is_too_long_is_refused_and_kept(reader: Client, world: World) -> None:
    title = "x" * 301
    refused = ask(reader, of_turn(world, 2), title=title)
    assert refused.status_code == 422
    assert f'value="{title}"' in html(refused)
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    "query", [{"turn": "x"}, {"at": "-1"}, {"at": "1.5"}, {"at": "0"}, {"turn": str(uuid.UUID(int=0))}]
)
def test_a_place_that_means_nothing_is_said_so(reader: Client, world: World, query: dict[str, Any]) -> None:
    response = reader.get(fork_page(world.source, **query))
    assert response.status_code == 400
    assert "This place cannot be understood" in words(response)


def test_a_turn_of_another_session_is_refused(reader: Client, world: World) -> None:
    view = history.turn_by_ordinal(world.new_source(), 1)
    assert view is not None
    page = reader.get(fork_page(world.source, turn=str(view.id)))
    assert "The turn does not belong to this session." in words(page)
    assert "data-fork-form" not in html(page)


def test_a_form_that_was_tampered_with_is_refused(reader: Client, world: World) -> None:
    response = ask(reader, of_turn(world, 2), request_id="x")
    assert response.status_code == 422
    assert not Operation.objects.exists()


def test_a_fork_on_its_way_disables_the_button_and_leads_there(reader: Client, world: World) -> None:
    operation = world.prepare(point=through(world.source, 2))
    page = reader.get(of_turn(world, 2))
    assert operation_page(operation) in links(page)
    assert _button(page)["disabled"] is None


def test_an_unknown_or_unopened_fork_from_here_is_a_warning_with_a_link(reader: Client, world: World) -> None:
    world.agent.script("accept", "lose")
    unopened = world.fork(point=through(world.source, 1))
    unknown = world.fork(point=through(world.source, 2))
    assert unknown.status == OperationStatus.UNKNOWN
    for ordinal, operation, sentence in (
        (1, unopened, "An earlier fork from here was made and nobody has opened it yet."),
        (2, unknown, "The outcome of an earlier fork from here is unknown."),
    ):
        page = reader.get(of_turn(world, ordinal))
        assert sentence in words(page)
        assert operation_page(operation) in links(page)
        assert "disabled" not in _button(page)


def test_a_post_from_another_site_is_refused(world: World) -> None:
    reader = Client(enforce_csrf_checks=True)
    reader.force_login(world.user)
    assert reader.post(of_turn(world, 2), {}).status_code == 403


def test_from_the_first_look_to_the_child_without_javascript(reader: Client, world: World) -> None:
    operation_address = ask(reader, of_turn(world, 2))["Location"]
    assert "Forking…" in words(reader.get(operation_address))
    world.work()
    page = reader.get(operation_address)
    assert "Open the fork" in words(page)
    operation = Operation.objects.get()
    opened = reader.post(reverse("operations:open", args=[operation.pk]))
    assert opened.status_code == 303
    child = reader.get(opened["Location"])
    assert "Continued from" in words(child)
    assert Session.objects.get(pk=operation.target_session_id).turn_count == 2


def _button(page: Any) -> dict[str, str | None]:
    return next(attrs for attrs in tags(page, "button") if "primary" in (attrs.get("class") or ""))
