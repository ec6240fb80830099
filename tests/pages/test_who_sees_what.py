"""Every page, walked by everybody: a member, somebody of another workspace, and nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from sessions import store
from sessions.choices import Visibility
from tests.conftest import People
from tests.operations.support import World
from tests.pages.support import fork_page, operation_page, session_page, words

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LISTS = ("sessions:list", "operations:operations", "operations:runners")


@pytest.fixture
def pages(world: World) -> list[str]:
    """The address of every page that shows something of the workspace."""
    operation = world.fork()
    source = world.source
    return [
        session_page(source),
        reverse("sessions:tail", args=[source.pk], query={"seq": 1, "last": 1, "revision": 0}),
        reverse("sessions:turn", args=[source.pk, 1]),
        reverse("sessions:record", args=[source.pk, 2]),
        reverse("sessions:raw", args=[source.pk, 2]),
        reverse("sessions:rendered", args=[source.pk, 3]),
        fork_page(source, latest=1),
        operation_page(operation),
        reverse("operations:mark", args=[operation.pk]),
        reverse("operations:compare", query={"a": str(source.pk), "b": str(operation.target_session_id)}),
    ]


def test_a_member_sees_every_page(pages: list[str], people: People, browser_of: Callable[[User], Client]) -> None:
    for person in (people.member, people.second_member, people.operator):
        reader = browser_of(person)
        for page in pages:
            assert reader.get(page).status_code == 200, (person, page)
        for name in LISTS:
            assert reader.get(reverse(name)).status_code == 200


def test_somebody_of_another_workspace_finds_nothing(
    pages: list[str], people: People, browser_of: Callable[[User], Client]
) -> None:
    reader = browser_of(people.stranger)
    for page in pages:
        assert reader.get(page).status_code == 404, page


def test_somebody_of_another_workspace_can_do_nothing(
    world: World, people: People, browser_of: Callable[[User], Client]
) -> None:
    operation = world.fork()
    reader = browser_of(people.stranger)
    assert reader.post(fork_page(world.source, latest=1), {}).status_code == 404
    assert reader.post(reverse("operations:open", args=[operation.pk])).status_code == 404
    operation.refresh_from_db()
    assert operation.observed_at is None


def test_lists_show_nothing_of_another_workspace(
    world: World, people: People, browser_of: Callable[[User], Client]
) -> None:
    world.fork(title="Only for us")
    reader = browser_of(people.stranger)
    for name in LISTS:
        page = words(reader.get(reverse(name)))
        assert "Only for us" not in page
        assert "Fix login" not in page
        assert world.home.path not in page


def test_nobody_is_led_to_the_sign_in_page(pages: list[str], client: Client) -> None:
    for page in [*pages, *(reverse(name) for name in LISTS)]:
        response = client.get(page)
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("sign_in"))


def test_a_private_session_is_for_its_owner_alone(
    world: World, people: People, browser_of: Callable[[User], Client]
) -> None:
    mine = world.new_source(created_by=people.member)
    store.set_visibility(mine.pk, Visibility.PRIVATE)
    assert browser_of(people.member).get(session_page(mine)).status_code == 200
    assert browser_of(people.second_member).get(session_page(mine)).status_code == 404


def test_a_deleted_session_has_no_page(world: World, reader: Client) -> None:
    store.tombstone(world.source.pk, actor="user:member")
    assert reader.get(session_page(world.source)).status_code == 404
    assert reader.get(fork_page(world.source, latest=1)).status_code == 404


def test_an_id_that_is_none_is_not_found_as_a_page(reader: Client) -> None:
    response = reader.get("/sessions/not-an-id/")
    assert response.status_code == 404
    assert "Nothing here" in words(response)
