"""What each fork point resolves to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("point", "ordinal", "seq"),
    [
        ({"type": "latestSettled"}, 3, 12),
        ({"type": "atSeq"}, 3, 12),
        ({"type": "atSeq", "seq": 1}, 1, 4),
        ({"type": "atSeq", "seq": 4}, 1, 4),
        ({"type": "atSeq", "seq": 5}, 2, 8),
        ({"type": "atSeq", "seq": 12}, 3, 12),
        ({"type": "atSeq", "seq": 13}, 3, 12),
        ({"type": "atSeq", "seq": 2**63 - 1}, 3, 12),
        ({"type": "throughSeq", "seq": 8}, 2, 8),
    ],
)
def test_a_point_is_resolved(
    api: Caller, paths: Paths, hosted: Callable[..., Session], point: dict[str, Any], ordinal: int, seq: int
) -> None:
    session = hosted(turns=3)
    turns = api.get(paths.session(session.pk, "turns")).json()["items"]
    operation = api.post(paths.session(session.pk, "fork"), fork_body(point)).json()
    assert operation["point"] == point
    assert operation["resolvedPoint"] == {"turnId": turns[ordinal - 1]["id"], "seq": seq}


def test_a_whole_number_may_be_written_with_a_point(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    fork = paths.session(hosted(turns=3).pk, "fork")
    assert api.post(fork, fork_body({"type": "atSeq", "seq": 5.0})).json()["resolvedPoint"]["seq"] == 8


@pytest.mark.parametrize(("seq", "refusal"), [(13, "invalid_fork_boundary"), (6, "fork_inside_turn")])
def test_a_taken_target_is_told_before_a_boundary_that_is_none(
    api: Caller, paths: Paths, hosted: Callable[..., Session], seq: int, refusal: str
) -> None:
    fork, taken = paths.session(hosted(turns=3).pk, "fork"), str(hosted(turns=0).pk)
    point = {"type": "throughSeq", "seq": seq}
    refused = api.post(fork, fork_body(point, targetAgentSessionId=taken))
    assert_problem(refused, 409, "target_reserved", "/targetAgentSessionId")
    # A free target is not used up by the refusal of the boundary.
    body = fork_body(point)
    assert_problem(api.post(fork, body), 409, refusal, "/point/seq")
    made = api.post(fork, {**body, "point": {"type": "throughSeq", "seq": 8}})
    assert (made.status_code, made.json()["targetAgentSessionId"]) == (202, body["targetAgentSessionId"])


def test_a_session_that_is_not_there_is_told_before_a_taken_target(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    taken = str(hosted(turns=0).pk)
    body = fork_body({"type": "throughSeq", "seq": 99}, targetAgentSessionId=taken)
    assert_problem(api.post(paths.session(uuid.uuid4(), "fork"), body), 404, "session_not_found")


def test_every_other_point_is_told_before_a_taken_target(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    taken = str(hosted(turns=0).pk)
    body = fork_body({"type": "throughTurn", "turnId": str(uuid.uuid4())}, targetAgentSessionId=taken)
    refused = api.post(paths.session(hosted(turns=1).pk, "fork"), body)
    assert_problem(refused, 404, "turn_not_found", "/point/turnId")
