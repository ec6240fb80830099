"""Title, pin and visibility change; a deleted session is hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def test_members_left_out_stay_as_they_are(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(title="Old").pk)
    before = api.get(path).json()
    assert api.patch(path, {}).json() == before
    assert api.patch(path, {"pin": True}).json() == {**before, "pin": True}
    assert api.patch(path, {"title": "New"}).json() == {**before, "pin": True, "title": "New"}
    assert api.patch(path, {"visibility": "private", "pin": False}).json() == {
        **before,
        "title": "New",
        "visibility": "private",
    }
    assert api.get(path).json()["title"] == "New"


@pytest.mark.parametrize("body", [{"pin": 1}, {"pin": "true"}, {"pin": None}])
def test_a_pin_is_true_or_false(
    api: Caller, paths: Paths, hosted: Callable[..., Session], body: dict[str, object]
) -> None:
    assert_problem(api.patch(paths.session(hosted(turns=0).pk), body), 400, "invalid_request", "/pin")


def test_only_its_creator_makes_a_session_private(
    people: People, api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    for creator in (people.second_member, None):
        path = paths.session(hosted(turns=0, created_by=creator).pk)
        assert_problem(api.patch(path, {"visibility": "private", "title": "x"}), 403, "not_your_session")
        assert api.get(path).json()["title"] == ""
        assert api.patch(path, {"visibility": "workspace"}).status_code == 200


def test_a_title_changes_also_under_a_fence(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store

    session = hosted(turns=1)
    assert store.set_fence(session.pk, session.pk)
    assert api.patch(paths.session(session.pk), {"title": "New", "pin": True}).status_code == 200
    assert_problem(api.delete(paths.session(session.pk)), 409, "session_fenced")


def test_a_deleted_session_is_gone_from_every_path(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions.models import Session, SessionAudit

    session = hosted(turns=1)
    response = api.delete(paths.session(session.pk))
    assert (response.status_code, response.content) == (204, b"")
    for below in ((), ("turns",), ("events",), ("export",), ("family",), ("claims",), ("interactions",)):
        assert_problem(api.get(paths.session(session.pk, *below)), 404, "session_not_found")
    assert_problem(api.delete(paths.session(session.pk)), 404, "session_not_found")
    assert Session.objects.filter(pk=session.pk).exists()
    assert SessionAudit.objects.get().actor == "member"
