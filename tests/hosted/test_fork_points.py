"""Fork points of a hosted session, asked for over the API: the rules of the session store and of a host's anchors."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessions import store
from sessions.models import Session
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from django.test import Client

    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)

AT = 1_790_000_000_000
LATEST = {"type": "latestSettled"}


def anchor(seq: int | None = None) -> dict[str, Any]:
    return {"type": "atSeq"} if seq is None else {"type": "atSeq", "seq": seq}


def exactly(seq: int) -> dict[str, Any]:
    return {"type": "throughSeq", "seq": seq}


def turn(number: int, outcome: str = "completed") -> list[Any]:
    said = NewEvent("message.user", AT, {"text": f"question {number}"})
    return [TurnStart(AT, prompt=f"question {number}"), said, TurnEnd(AT, outcome)]


@pytest.fixture
def source(hosted: Callable[..., Session]) -> Session:
    """Turn 1 is seqs 1 to 3, a standalone event 4, turn 2 is 5 to 7, and turn 3 is open from 8 to 9."""
    session = hosted(turns=0, title="Source", cwd="/src")
    standalone = NewEvent("context", AT, {"text": "between"})
    opened = [TurnStart(AT, prompt="question 3", model="m-3"), NewEvent("message.user", AT, {"text": "question 3"})]
    store.append(session.pk, [*turn(1), standalone, *turn(2, "canceled"), *opened])
    session.refresh_from_db()
    return session


@pytest.mark.parametrize(
    ("point", "seed"),
    [
        (anchor(1), 3),
        (anchor(2), 3),
        (anchor(3), 3),
        (anchor(4), 7),
        (anchor(6), 7),
        (anchor(), 7),
        (anchor(10), 7),
        (anchor(10**15), 7),
        (LATEST, 7),
        (exactly(3), 3),
        (exactly(4), 4),
        (exactly(7), 7),
    ],
)
def test_the_child_ends_where_the_point_says(
    api: Caller, paths: Paths, source: Session, forked: Callable[..., dict[str, Any]], point: dict[str, Any], seed: int
) -> None:
    operation = forked(source, point=point)
    assert (operation["point"], operation["resolvedPoint"]["seq"]) == (point, seed)
    child = api.get(paths.session(operation["targetAgentSessionId"])).json()
    assert (child["seedLength"], child["lastSeq"], child["cwd"]) == (seed, seed, "/src")
    events = api.get(paths.session(child["id"], "events")).json()["items"]
    assert [event["seq"] for event in events] == list(range(1, seed + 1))
    # The source stays as it was, its open turn open.
    assert api.get(paths.session(source.pk)).json()["lastSeq"] == 9
    assert api.get(paths.session(source.pk, "turns")).json()["items"][-1]["phase"] == "open"


@pytest.mark.parametrize(
    ("point", "code"),
    [
        (anchor(8), "fork-unavailable"),
        (anchor(9), "fork-unavailable"),
        (exactly(8), "fork_inside_turn"),
        (exactly(1), "fork_inside_turn"),
        (exactly(6), "fork_inside_turn"),
        (exactly(10), "invalid_fork_boundary"),
    ],
)
def test_a_point_that_cannot_be_makes_no_child(
    api: Caller, paths: Paths, source: Session, point: dict[str, Any], code: str
) -> None:
    body = fork_body(point)
    answer = api.post(paths.session(source.pk, "fork"), body)
    assert (answer.status_code, answer.json()["code"]) == (409, code)
    assert answer.json()["detail"]
    assert Session.objects.count() == 1
    # The ids are free for another try.
    assert api.post(paths.session(source.pk, "fork"), {**body, "point": LATEST}).status_code == 202


@pytest.mark.parametrize("outcome", ["completed", "failed", "canceled", "interrupted"])
def test_every_ending_is_closed_and_can_be_forked_at(
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    forked: Callable[..., dict[str, Any]],
    outcome: str,
) -> None:
    session = hosted(turns=0)
    store.append(session.pk, [*turn(1, outcome), *turn(2)])
    first = api.get(paths.session(session.pk, "turns")).json()["items"][0]
    assert (first["outcome"], first["forkable"]) == (outcome, True)
    for point in (anchor(2), exactly(3), {"type": "throughTurn", "turnId": first["id"]}):
        assert forked(session, point=point)["resolvedPoint"]["seq"] == 3


def test_a_turn_ended_by_the_next_one_can_be_forked_at(
    hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    session = hosted(turns=0)
    store.append(session.pk, [TurnStart(AT, prompt="left open"), *turn(2)])
    assert forked(session, point=anchor(1))["resolvedPoint"]["seq"] == 2


@pytest.mark.parametrize("point", [LATEST, anchor(), anchor(1), exactly(1)])
def test_an_empty_session_has_no_point(
    api: Caller, paths: Paths, hosted: Callable[..., Session], point: dict[str, Any]
) -> None:
    answer = api.post(paths.session(hosted(turns=0).pk, "fork"), fork_body(point))
    assert answer.status_code == 409
    assert answer.json()["code"] in ("no_settled_turn", "invalid_fork_boundary")
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    "point",
    [
        {"seq": 1},
        anchor(0),
        anchor(-1),
        exactly(0),
        {**anchor(2), "turnId": str(uuid.uuid4())},
        {"type": "atSeq", "seq": 1.5},
    ],
)
def test_a_point_that_says_nothing_clear_is_refused(
    api: Caller, paths: Paths, source: Session, point: dict[str, Any]
) -> None:
    assert api.post(paths.session(source.pk, "fork"), fork_body(point)).status_code == 400


def test_taken_unknown_and_foreign_ids_are_told_apart(
    people: People, api: Caller, paths: Paths, source: Session, hosted: Callable[..., Session]
) -> None:
    taken = fork_body(exactly(3), targetAgentSessionId=str(hosted(turns=1).pk))
    assert api.post(paths.session(source.pk, "fork"), taken).status_code == 409
    assert Session.objects.count() == 2
    assert api.post(paths.session(uuid.uuid4(), "fork"), fork_body()).status_code == 404
    foreign = {"type": "throughTurn", "turnId": str(uuid.uuid4())}
    assert_problem(
        api.post(paths.session(source.pk, "fork"), fork_body(foreign)), 404, "turn_not_found", "/point/turnId"
    )


def test_a_fork_of_a_fork_keeps_the_numbers(
    api: Caller, paths: Paths, source: Session, forked: Callable[..., dict[str, Any]]
) -> None:
    child = Session.objects.get(pk=forked(source, point=exactly(4))["targetAgentSessionId"])
    store.append(child.pk, turn(2))
    child.refresh_from_db()
    grandchild = forked(child, point=anchor(5))["targetAgentSessionId"]
    events = api.get(paths.session(grandchild, "events")).json()["items"]
    assert [event["seq"] for event in events] == list(range(1, 8))
    # An inherited turn's id in its source means nothing here.
    theirs = api.get(paths.session(source.pk, "turns")).json()["items"][0]["id"]
    point = {"type": "throughTurn", "turnId": theirs}
    assert_problem(
        api.post(paths.session(grandchild, "fork"), fork_body(point)), 404, "turn_not_found", "/point/turnId"
    )


def test_the_page_forks_at_a_standalone_event(client: Client, people: People, source: Session) -> None:
    client.force_login(people.member)
    page = client.get(f"/sessions/{source.pk}/").content.decode()
    link = f"/sessions/{source.pk}/fork/?through=4"
    assert link in page
    assert "through=5" not in page
    form = client.get(link)
    assert form.status_code == 200
    refused = client.get(f"/sessions/{source.pk}/fork/?at=9").content.decode()
    assert "no earlier one is taken" in refused
