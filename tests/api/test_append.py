"""Appending to a hosted session: all or nothing, once however often it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem
from tests.threads import together

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db

TURN: list[dict[str, Any]] = [
    {"kind": "turn.start", "prompt": "Why?", "model": "m-2", "effort": "high"},
    {"kind": "message.user", "payload": {"text": "Why?"}},
    {"kind": "tool.call", "payload": {"callId": "c1", "name": "ls", "input": {}}},
    {"kind": "turn.end", "outcome": "failed", "usage": {"inputTokens": 3}},
]


@pytest.fixture
def events(paths: Paths, hosted: Callable[..., Session]) -> str:
    """Where the events of an empty session are."""
    return paths.session(hosted(turns=0).pk, "events")


def test_a_turn_is_recorded(api: Caller, events: str) -> None:
    assert api.post(events, {"events": TURN}).json() == {"firstSeq": 1, "lastSeq": 4, "turnCount": 1}
    session = api.get(events.removesuffix("/events")).json()
    assert (session["lastSeq"], session["turnCount"], session["model"]) == (4, 1, "m-2")
    turn = api.get(events.replace("/events", "/turns")).json()["items"][0]
    assert (turn["prompt"], turn["outcome"]) == ("Why?", "failed")


@pytest.mark.parametrize("at", [None, 1_780_000_000_000])
def test_the_same_request_writes_once(api: Caller, events: str, at: int | None) -> None:
    entries = TURN if at is None else [{**entry, "atUnixMs": at} for entry in TURN]
    body = {"expectedLastSeq": 0, "events": entries}
    first = api.post(events, body)
    api.post(events, {"expectedLastSeq": 4, "events": [{"kind": "note", "payload": {"text": "later"}}]})
    again = api.post(events, body)
    assert again.json() == first.json()
    assert (first.headers.get("Idempotency-Replayed"), again["Idempotency-Replayed"]) == (None, "true")
    assert len(api.get(events).json()["items"]) == 5


def test_a_turn_that_starts_while_another_is_open_can_be_sent_again(api: Caller, events: str) -> None:
    api.post(events, {"events": TURN[:2]})
    body = {"expectedLastSeq": 2, "events": TURN}
    first = api.post(events, body)
    assert first.json() == {"firstSeq": 3, "lastSeq": 7, "turnCount": 2}
    assert api.post(events, body).json() == first.json()
    assert len(api.get(events).json()["items"]) == 7


@pytest.mark.parametrize(
    "other",
    [
        [*TURN[:3], {**TURN[3], "outcome": "completed"}],
        [*TURN, {"kind": "note", "payload": {"text": "one more"}}],
        [{**TURN[0], "atUnixMs": 5}, *TURN[1:]],
        [*TURN[:1], {"kind": "message.user", "payload": {"text": "why?"}}, *TURN[2:]],
    ],
    ids=["outcome", "longer", "time", "text"],
)
def test_other_events_at_the_same_place_are_refused(api: Caller, events: str, other: list[dict[str, Any]]) -> None:
    api.post(events, {"expectedLastSeq": 0, "events": TURN})
    assert_problem(api.post(events, {"expectedLastSeq": 0, "events": other}), 409, "stale_session")
    assert_problem(api.post(events, {"expectedLastSeq": 9, "events": TURN}), 409, "stale_session")
    assert len(api.get(events).json()["items"]) == 4


def test_nothing_is_written_when_one_entry_is_refused(api: Caller, events: str) -> None:
    body = {"events": [*TURN, {"kind": "turn.end", "outcome": "completed"}]}
    assert_problem(api.post(events, body), 409, "turn_conflict")
    assert api.get(events).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/events"]),
        ({"events": []}, ["/events"]),
        ({"events": {}}, ["/events"]),
        ({"events": ["note"]}, ["/events/0"]),
        ({"events": [{}]}, ["/events/0/kind"]),
        ({"events": [{"kind": "turn.middle"}]}, ["/events/0/kind"]),
        ({"events": [{"kind": ["note"]}]}, ["/events/0/kind"]),
        ({"events": [TURN[0], {"kind": "turn.end"}]}, ["/events/1/outcome"]),
        ({"events": [{"kind": "note", "prompt": "x"}]}, ["/events/0/prompt"]),
        ({"events": [{"kind": "note", "payload": "x"}]}, ["/events/0/payload"]),
        ({"events": [{"kind": "note", "atUnixMs": -1}]}, ["/events/0/atUnixMs"]),
        ({"events": [{"kind": "note", "atUnixMs": 1.5}]}, ["/events/0/atUnixMs"]),
        ({"events": [{"kind": "note", "atUnixMs": 253_402_300_800_000}]}, ["/events/0/atUnixMs"]),
        ({"events": TURN, "expectedLastSeq": -1}, ["/expectedLastSeq"]),
        ({"events": TURN, "expectedLastSeq": 0.5}, ["/expectedLastSeq"]),
        ({"events": TURN, "expectedLastSeq": "0"}, ["/expectedLastSeq"]),
        ({"events": TURN, "expectedLastSeq": True}, ["/expectedLastSeq"]),
        ({"events": TURN * 251}, ["/events"]),
    ],
)
def test_the_member_to_blame_is_named(api: Caller, events: str, body: Any, pointers: list[str]) -> None:
    assert_problem(api.post(events, body), 400, "invalid_request", *pointers)
    assert api.get(events).json()["items"] == []


@pytest.mark.parametrize(
    "payload",
    [{"references": [{"type": "turn", "ordinal": 9}]}, {"references": "x"}, {"references": [{"type": "file"}]}],
)
def test_a_reference_to_nothing_is_refused(api: Caller, events: str, payload: dict[str, Any]) -> None:
    body = {"events": [{"kind": "note", "payload": payload}]}
    assert_problem(api.post(events, body), 409, "unknown_reference")


def test_a_fenced_session_takes_no_events(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    from sessions import store

    session = hosted(turns=1)
    store.set_fence(session.pk, session.pk)
    assert_problem(api.post(paths.session(session.pk, "events"), {"events": TURN}), 409, "session_fenced")


def test_an_agents_own_history_is_not_written_here(
    people: People, api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions.models import Home, Runner

    runner = Runner.objects.create(workspace=people.workspace, name="laptop")
    home = Home.objects.create(runner=runner, provider="codex", path="/agents/codex")
    session = hosted(turns=0, provider="codex", home=home, provider_session_id="t1")
    for below, body in (("events", {"events": TURN}), ("interactions", {"kind": "question"})):
        assert_problem(api.post(paths.session(session.pk, below), body), 409, "session_not_hosted")


@pytest.mark.django_db(transaction=True)
def test_many_at_once_write_once(api: Caller, events: str) -> None:
    body = {"expectedLastSeq": 0, "events": TURN}
    answers = together([lambda: api.post(events, body)] * 8)
    assert [answer.status_code for answer in answers] == [200] * 8
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert sum(1 for answer in answers if "Idempotency-Replayed" not in answer.headers) == 1
    assert len(api.get(events).json()["items"]) == 4
