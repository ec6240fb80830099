"""Addresses that were typed, pasted, cut off or made up, and pages whose reader is no longer signed in."""

from __future__ import annotations

import base64

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from sessions import store
from tests.conftest import People
from tests.operations.support import World, through
from tests.pages.support import fork_page, html, operation_page, session_page, words


def test_an_id_in_an_address_is_read_in_any_case(reader: Client, world: World) -> None:
    operation = world.fork()
    for address in (session_page(world.source), fork_page(world.source), operation_page(operation)):
        head, identity, tail = address.partition(str(address.split("/")[2]))
        assert reader.get(f"{head}{identity.upper()}{tail}").status_code == 200, address


@pytest.mark.parametrize("name", ["detail", "tail", "progress"])
def test_the_nil_id_names_no_page(reader: Client, world: World, name: str) -> None:
    address = reverse(f"sessions:{name}", args=[world.source.pk])
    nil = address.replace(str(world.source.pk), "00000000-0000-0000-0000-000000000000")
    assert reader.get(nil).status_code == 404


@pytest.mark.parametrize("address", ["/", "/search/?q=x"])
def test_a_cursor_nested_beyond_every_measure_starts_at_the_top(reader: Client, world: World, address: str) -> None:
    cursor = base64.urlsafe_b64encode(b"[" * 20_000).decode()
    assert reader.get(address, {"q": "x", "cursor": cursor}).status_code == 200


def test_two_places_to_fork_at_in_one_address_are_refused(reader: Client, world: World) -> None:
    point = through(world.source, 2)
    page = reader.get(fork_page(world.source, turn=str(point.turn_id), at=1))
    assert page.status_code == 400
    assert "more than one place" in words(page)


def test_a_page_whose_reader_was_signed_out_loads_anew_instead_of_showing_a_form_in_its_middle(world: World) -> None:
    operation = world.prepare()
    for address in (operation_page(operation), reverse("operations:mark", args=[operation.pk])):
        part = Client().get(address, headers={"HX-Request": "true"})
        assert part["HX-Refresh"] == "true"
        assert part.content == b""
        assert Client().get(address)["Location"].startswith(reverse("sign_in"))


def test_a_fork_asked_for_after_the_sign_in_ran_out_leads_back_to_the_same_question(world: World) -> None:
    address = fork_page(world.source, latest=1)
    response = Client().post(address, {"title": "mine"})
    assert response.status_code == 302
    path, _, query = response["Location"].partition("?")
    assert (path, QueryDict(query)["next"]) == (reverse("sign_in"), address)


def test_a_session_with_no_turn_offers_no_fork_and_refuses_one(reader: Client, people: People) -> None:
    session = store.create(workspace=people.workspace, provider="hosted", title="Nothing said yet")
    for address in ("/", session_page(session)):
        assert fork_page(session) not in html(reader.get(address))
    page = reader.get(fork_page(session, latest=1))
    assert "Nothing in this session is settled yet" in words(page)
