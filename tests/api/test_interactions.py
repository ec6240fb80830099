"""Questions, approvals and plans: asked, answered once, closed for a fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(hosted: Callable[..., Session]) -> Session:
    """A session in the middle of a turn."""
    from sessions import store
    from sessions.store import TurnStart

    made = hosted(turns=1)
    store.append(made.pk, [TurnStart(1_790_000_000_000, prompt="go on")])
    return made


def test_a_question_waits_and_is_answered_once(api: Caller, paths: Paths, session: Session) -> None:
    path = paths.session(session.pk, "interactions")
    asked = api.post(path, {"kind": "approval", "key": "tool-7", "payload": {"text": "rm -rf?"}})
    assert asked.status_code == 201
    shown = asked.json()
    assert shown == {
        "id": shown["id"],
        "key": "tool-7",
        "turnOrdinal": 2,
        "kind": "approval",
        "state": "pending",
        "askedSeq": 6,
        "closedSeq": None,
        "inherited": False,
    }
    assert api.get(paths.session(session.pk)).json()["activity"] == "waiting"
    answer = paths.session(session.pk, "interactions", shown["id"].upper(), "answer")
    answered = api.post(answer, {"payload": {"text": "no"}})
    assert answered.json() == {**shown, "state": "answered", "closedSeq": 7}
    assert api.get(path).json() == {"items": [answered.json()], "nextCursor": None}
    assert_problem(api.post(answer, {}), 409, "interaction_conflict")
    last = api.get(paths.session(session.pk, "events"), after=6).json()["items"]
    assert [(event["kind"], event["payload"]["text"]) for event in last] == [("interaction.answered", "no")]


def test_a_key_is_asked_once(api: Caller, paths: Paths, session: Session) -> None:
    path = paths.session(session.pk, "interactions")
    assert api.post(path, {"kind": "plan", "key": "k"}).status_code == 201
    assert_problem(api.post(path, {"kind": "plan", "key": "k"}), 409, "unknown_reference")


@pytest.mark.parametrize(
    ("body", "pointer"), [({}, "/kind"), ({"kind": "demand"}, "/kind"), ({"kind": "plan", "key": 1}, "/key")]
)
def test_the_member_to_blame_is_named(
    api: Caller, paths: Paths, session: Session, body: dict[str, Any], pointer: str
) -> None:
    assert_problem(api.post(paths.session(session.pk, "interactions"), body), 400, "invalid_request", pointer)


def test_an_interaction_of_another_session_is_not_found(
    api: Caller, paths: Paths, session: Session, hosted: Callable[..., Session]
) -> None:
    asked = api.post(paths.session(session.pk, "interactions"), {"kind": "question"}).json()
    other = hosted(turns=0)
    answer = paths.session(other.pk, "interactions", asked["id"], "answer")
    assert_problem(api.post(answer, {}), 404, "interaction_not_found")


def test_what_a_fork_inherited_pending_is_superseded_there(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    source = hosted(turns=1)
    path = paths.session(source.pk, "interactions")
    asked = api.post(path, {"kind": "question", "key": "k"}).json()
    api.post(
        paths.session(source.pk, "events"),
        {"events": [{"kind": "turn.start"}, {"kind": "turn.end", "outcome": "completed"}]},
    )
    child = forked(source)["targetAgentSessionId"]
    inherited = api.get(paths.session(child, "interactions")).json()["items"][0]
    assert (inherited["state"], inherited["inherited"]) == ("superseded", True)
    assert inherited["id"] != asked["id"]
    answer = paths.session(child, "interactions", inherited["id"], "answer")
    assert_problem(api.post(answer, {}), 409, "interaction_conflict")
    assert api.get(path).json()["items"][0]["state"] == "pending"
