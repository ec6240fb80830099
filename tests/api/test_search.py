"""Search: titles, first prompts, every turn's prompt, ids; across the caller's workspaces and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def found(api: Caller, q: str) -> list[tuple[str, int | None]]:
    from sessions import indexing

    indexing.catch_up()
    response = api.get("/v1/search", q=q)
    assert response.status_code == 200, response.content
    return [(item["session"]["id"], item["turnOrdinal"]) for item in response.json()["items"]]


def test_a_prompt_is_found_at_its_first_turn(api: Caller, hosted: Callable[..., Session]) -> None:
    one, three = hosted(turns=1), hosted(turns=3)
    assert found(api, "QUEST") == [(str(three.pk), 1), (str(one.pk), 1)]
    assert found(api, "3 question") == [(str(three.pk), 3)]
    assert api.get("/v1/search", q="question 3").json()["items"][0]["prompt"] == "question 3"


def test_titles_and_ids_are_found(api: Caller, hosted: Callable[..., Session]) -> None:
    session = hosted(turns=0, title="Parser clean-up")
    for q in ("parser", str(session.pk), str(session.pk).upper(), f" {session.pk} "):
        assert found(api, q) == [(str(session.pk), None)]


def test_a_fork_is_found_by_what_it_inherited_and_no_more(
    api: Caller, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    from sessions import store
    from sessions.store import TurnEnd, TurnStart

    source = hosted(turns=1)
    store.append(source.pk, [TurnStart(1_790_000_000_000, prompt="zebra"), TurnEnd(1_790_000_000_001, "completed")])
    child = forked(source, point={"type": "atSeq", "seq": 1})["targetAgentSessionId"]
    assert (child, 1) in found(api, "question 1")
    assert found(api, "zebra") == [(str(source.pk), 2)]


def test_what_a_rewind_took_away_is_not_found(api: Caller, hosted: Callable[..., Session]) -> None:
    from sessions import store

    session = hosted(turns=2)
    store.rewind(session.pk, 4)
    assert found(api, "question 2") == []
    assert found(api, "question 1") == [(str(session.pk), 1)]


def test_others_sessions_are_not_found(
    people: People, api: Caller, calling: Callable[..., Caller], hosted: Callable[..., Session]
) -> None:
    hosted(turns=1, visibility="private", created_by=people.second_member)
    hosted(turns=1, workspace=people.other_workspace, created_by=people.stranger)
    assert found(api, "question") == []
    assert len(found(calling(people.stranger), "question")) == 1


@pytest.mark.parametrize("q", ["%", "_", "   ", "\x00", "'; DROP TABLE", "x" * 500])
def test_any_text_can_be_looked_for(api: Caller, hosted: Callable[..., Session], q: str) -> None:
    hosted(turns=1)
    assert found(api, q) == []


def test_nothing_to_look_for_is_refused(api: Caller) -> None:
    for query in ({}, {"q": ""}, {"q": "x" * 501}):
        assert_problem(api.get("/v1/search", **query), 400, "invalid_request", "q")
