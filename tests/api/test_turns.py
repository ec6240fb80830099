"""Turns: pages by number, whether each can be forked at, and the forks made there."""

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


def test_a_turn_shows_every_member(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import history

    session = hosted(turns=2)
    shown = api.get(paths.session(session.pk, "turns")).json()
    first = history.turns(session)[0]
    assert shown["nextCursor"] is None
    assert shown["items"][0] == {
        "id": str(first.id),
        "ordinal": 1,
        "phase": "settled",
        "outcome": "completed",
        "prompt": "question 1",
        "model": "m-1",
        "firstSeq": 1,
        "lastSeq": 4,
        "startedAtUnixMs": first.started_at_unix_ms,
        "settledAtUnixMs": first.settled_at_unix_ms,
        "usage": {},
        "bindingState": "none",
        "forkable": True,
        "reason": None,
        "inherited": False,
        "forks": [],
    }


def test_an_open_turn_says_why_it_cannot_be_forked_at(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions import store
    from sessions.store import TurnStart

    session = hosted(turns=1)
    store.append(session.pk, [TurnStart(1_790_000_000_000, prompt="still going")])
    turn = api.get(paths.session(session.pk, "turns")).json()["items"][1]
    assert (turn["phase"], turn["outcome"], turn["lastSeq"], turn["settledAtUnixMs"]) == ("open", None, None, None)
    assert (turn["forkable"], turn["reason"]) == (False, "turn_not_settled")


def test_pages_go_through_all_turns(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(turns=5).pk, "turns")
    ordinals: list[int] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = api.get(path, **query).json()
        ordinals += [turn["ordinal"] for turn in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert ordinals == [1, 2, 3, 4, 5]


def test_a_cursor_is_for_one_session_alone(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    one, other = hosted(turns=2), hosted(turns=2)
    cursor = api.get(paths.session(one.pk, "turns"), limit=1).json()["nextCursor"]
    assert_problem(api.get(paths.session(other.pk, "turns"), cursor=cursor), 400, "invalid_cursor", "cursor")


def test_a_cursor_notices_a_rewind(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store

    session = hosted(turns=3)
    cursor = api.get(paths.session(session.pk, "turns"), limit=1).json()["nextCursor"]
    store.rewind(session.pk, 8)
    assert_problem(api.get(paths.session(session.pk, "turns"), cursor=cursor), 409, "stale_session")
    assert len(api.get(paths.session(session.pk, "turns")).json()["items"]) == 2


def test_forks_are_listed_at_their_turn(
    people: People,
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    forked: Callable[..., dict[str, Any]],
    calling: Callable[..., Caller],
) -> None:
    source = hosted(turns=3, title="Parser")
    turns = api.get(paths.session(source.pk, "turns")).json()["items"]
    second = forked(source, point={"type": "throughTurn", "turnId": turns[1]["id"]})
    whole = forked(source)
    shown = api.get(paths.session(source.pk, "turns")).json()["items"]
    assert [[fork["operationId"] for fork in turn["forks"]] for turn in shown] == [
        [],
        [second["operationId"]],
        [whole["operationId"]],
    ]
    assert shown[1]["forks"][0] == {
        "agentSessionId": second["targetAgentSessionId"],
        "title": "Parser (2)",
        "operationId": second["operationId"],
        "forkedAtUnixMs": second["lineage"]["forkedAtUnixMs"],
    }
    api.patch(paths.session(second["targetAgentSessionId"]), {"visibility": "private"})
    others = calling(people.second_member).get(paths.session(source.pk, "turns")).json()["items"]
    assert others[1]["forks"] == []


def test_inherited_turns_have_ids_of_their_own(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    source = hosted(turns=2)
    operation = forked(source)
    own = api.get(paths.session(source.pk, "turns")).json()["items"]
    child = api.get(paths.session(operation["targetAgentSessionId"], "turns")).json()["items"]
    assert [turn["inherited"] for turn in child] == [True, True]
    assert not {turn["id"] for turn in own} & {turn["id"] for turn in child}
    assert operation["lineage"]["sourceTurnId"] == own[1]["id"]
    assert operation["lineage"]["targetTurnId"] == child[1]["id"]
    assert [turn["startedAtUnixMs"] for turn in child] == [turn["startedAtUnixMs"] for turn in own]
