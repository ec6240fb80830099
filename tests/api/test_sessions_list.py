"""The list of sessions: order, pages, filters, bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_newest_activity_comes_first(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    sessions = [hosted(turns=1) for _ in range(3)]
    response = api.get(paths.sessions)
    assert ids(response) == [str(session.pk) for session in reversed(sessions)]
    assert response.json()["nextCursor"] is None


def test_pages_show_each_session_once_also_with_equal_times(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions.models import Session

    made = {str(hosted(turns=0).pk) for _ in range(7)}
    Session.objects.update(updated_at_unix_ms=1_780_000_000_000)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        page = api.get(paths.sessions, limit=2, **cursor)
        seen += ids(page)
        if page.json()["nextCursor"] is None:
            break
        cursor = {"cursor": page.json()["nextCursor"]}
    assert len(seen) == 7
    assert set(seen) == made


@pytest.mark.parametrize(
    "cursor", ["", "x", "WzFd", "bm90IGpzb24", "WyJzZXNzaW9ucyJd", "é", "A" * 1000, "WyJzZXNzaW9ucyIsIC0xLCAieCJd"]
)
def test_a_cursor_nobody_made_is_refused(api: Caller, paths: Paths, cursor: str) -> None:
    assert_problem(api.get(paths.sessions, cursor=cursor), 400, "invalid_cursor", "cursor")


def test_a_cursor_of_another_list_is_refused(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    session = hosted(turns=2)
    cursor = api.get(paths.session(session.pk, "turns"), limit=1).json()["nextCursor"]
    assert cursor
    assert_problem(api.get(paths.sessions, cursor=cursor), 400, "invalid_cursor", "cursor")


@pytest.mark.parametrize("limit", ["0", "-1", "201", "1.5", "x", "", "١", "9" * 30])
def test_the_limit_is_bounded(api: Caller, paths: Paths, limit: str) -> None:
    assert_problem(api.get(paths.sessions, limit=limit), 400, "invalid_request", "limit")


def test_filters(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import indexing

    parser = hosted(turns=0, title="Parser clean-up", cwd="/src/parser")
    inner = hosted(turns=0, title="Lexer", cwd="/src/parser/lexer")
    beside = hosted(turns=0, title="100% parser", cwd="/src/parser-2", provider="dsh")
    indexing.catch_up()
    assert ids(api.get(paths.sessions, q="PARSER")) == [str(beside.pk), str(parser.pk)]
    assert ids(api.get(paths.sessions, q="up parser")) == [str(parser.pk)]
    assert ids(api.get(paths.sessions, q="100%")) == [str(beside.pk)]
    assert ids(api.get(paths.sessions, q="   ")) == []
    assert ids(api.get(paths.sessions, cwd="/src/parser/")) == [str(inner.pk), str(parser.pk)]
    assert ids(api.get(paths.sessions, provider="dsh")) == [str(beside.pk)]
    assert ids(api.get(paths.sessions, provider="DSH")) == []
    assert ids(api.get(paths.sessions, q=str(inner.pk).upper())) == [str(inner.pk)]
    assert ids(api.get(paths.sessions, q="nul\x00")) == []


def test_a_search_finds_the_first_prompt(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import indexing

    session = hosted(turns=1)
    indexing.catch_up()
    assert ids(api.get(paths.sessions, q="question")) == [str(session.pk)]


def test_a_filter_that_does_not_exist_or_is_too_long_is_refused(api: Caller, paths: Paths) -> None:
    assert_problem(api.get(paths.sessions, kind="twig"), 400, "invalid_request", "kind")
    assert_problem(api.get(paths.sessions, q="x" * 501), 400, "invalid_request", "q")


def test_lanes_and_hidden_sessions_are_left_out(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store

    root = hosted(turns=0)
    lane = hosted(turns=0, kind="child", root_session_id=root.pk, parent_session_id=root.pk)
    store.tombstone(hosted(turns=0).pk)
    assert ids(api.get(paths.sessions)) == [str(root.pk)]
    assert ids(api.get(paths.sessions, kind="child")) == [str(lane.pk)]


def test_another_members_private_session_is_left_out(
    people: People, api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    mine = hosted(turns=0, visibility="private")
    hosted(turns=0, visibility="private", created_by=people.second_member)
    assert ids(api.get(paths.sessions)) == [str(mine.pk)]
