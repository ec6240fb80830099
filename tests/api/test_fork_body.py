"""A fork request that is not what it should be names its fault, and makes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db

NIL = "00000000-0000-0000-0000-000000000000"
SOME = "3f6c2a1e-8f0b-4f57-9a53-8f3bb4a1c002"


@pytest.fixture
def fork(paths: Paths, hosted: Callable[..., Session]) -> str:
    """Where a session of two turns is forked."""
    return paths.session(hosted(turns=2).pk, "fork")


@pytest.fixture(autouse=True)
def _no_operation() -> Any:
    from operations.models import Operation

    yield
    assert not Operation.objects.exists()


@pytest.mark.parametrize("raw", [b"", b"{}"])
@pytest.mark.parametrize("content_type", ["application/json", ""])
def test_an_empty_request_names_what_is_missing(api: Caller, fork: str, raw: bytes, content_type: str) -> None:
    response = api.send("POST", fork, raw, content_type)
    if raw and not content_type:
        assert_problem(response, 415, "unsupported_media_type")
    else:
        assert_problem(response, 400, "invalid_request", "/requestId", "/targetAgentSessionId", "/point")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"requestId": ""}, "/requestId"),
        ({"requestId": None}, "/requestId"),
        ({"requestId": 7}, "/requestId"),
        ({"requestId": NIL}, "/requestId"),
        ({"requestId": "x" * 256}, "/requestId"),
        ({"requestId": "a\nb"}, "/requestId"),
        ({"requestId": "a\x00"}, "/requestId"),
        ({"requestId": "a\u202eb"}, "/requestId"),
        ({"targetAgentSessionId": ""}, "/targetAgentSessionId"),
        ({"targetAgentSessionId": NIL}, "/targetAgentSessionId"),
        ({"targetAgentSessionId": "dummy"}, "/targetAgentSessionId"),
        ({"targetAgentSessionId": SOME.replace("-", "")}, "/targetAgentSessionId"),
        ({"targetAgentSessionId": 1}, "/targetAgentSessionId"),
        ({"title": 1}, "/title"),
        ({"title": "x" * 301}, "/title"),
        ({"label": "x"}, "/label"),
        ({"request_id": "x"}, "/request_id"),
    ],
)
def test_the_member_to_blame_is_named(api: Caller, fork: str, change: dict[str, Any], pointer: str) -> None:
    assert_problem(api.post(fork, fork_body(**change)), 400, "invalid_request", pointer)


@pytest.mark.parametrize(
    ("point", "pointer"),
    [
        ("latestSettled", "/point"),
        (None, "/point"),
        ([], "/point"),
        ({}, "/point/type"),
        ({"type": None}, "/point/type"),
        ({"type": "beforeTurn", "turnId": SOME}, "/point/type"),
        ({"type": "LATESTSETTLED"}, "/point/type"),
        ({"type": "throughTurn"}, "/point/turnId"),
        ({"type": "throughTurn", "turnId": ""}, "/point/turnId"),
        ({"type": "throughTurn", "turnId": NIL}, "/point/turnId"),
        ({"type": "throughTurn", "turnId": 2}, "/point/turnId"),
        ({"type": "throughTurn", "turnId": SOME, "seq": 4}, "/point/seq"),
        ({"type": "atSeq", "seq": 4, "turnId": SOME}, "/point/turnId"),
        ({"type": "latestSettled", "seq": 4}, "/point/seq"),
        ({"type": "latestSettled", "a/b": 4}, "/point/a~1b"),
        ({"type": "throughSeq"}, "/point/seq"),
        ({"type": "throughSeq", "seq": None}, "/point/seq"),
        ({"type": "atSeq", "seq": 0}, "/point/seq"),
        ({"type": "atSeq", "seq": -1}, "/point/seq"),
        ({"type": "atSeq", "seq": 1.5}, "/point/seq"),
        ({"type": "atSeq", "seq": "4"}, "/point/seq"),
        ({"type": "atSeq", "seq": True}, "/point/seq"),
        ({"type": "atSeq", "seq": 2**63}, "/point/seq"),
        ({"type": "atSeq", "seq": 1e300}, "/point/seq"),
    ],
)
def test_the_part_of_the_point_to_blame_is_named(api: Caller, fork: str, point: Any, pointer: str) -> None:
    body = {**fork_body(), "point": point}
    assert_problem(api.post(fork, body), 400, "invalid_request", pointer)


@pytest.mark.parametrize(
    ("point", "status", "code"),
    [
        ({"type": "throughTurn", "turnId": SOME}, 404, "turn_not_found"),
        ({"type": "throughSeq", "seq": 6}, 409, "fork_inside_turn"),
        ({"type": "throughSeq", "seq": 9}, 409, "invalid_fork_boundary"),
    ],
)
def test_a_point_that_is_not_there_is_refused(
    api: Caller, fork: str, point: dict[str, Any], status: int, code: str
) -> None:
    problem = api.post(fork, fork_body(point))
    assert problem.status_code == status
    assert problem.json()["code"] == code


def test_an_open_turn_is_refused_and_no_earlier_one_taken(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions import store
    from sessions.store import TurnStart

    session = hosted(turns=1)
    store.append(session.pk, [TurnStart(1_790_000_000_000, prompt="still going")])
    fork = paths.session(session.pk, "fork")
    assert api.post(fork, fork_body({"type": "atSeq", "seq": 5})).json()["code"] == "fork-unavailable"
    turn = api.get(paths.session(session.pk, "turns")).json()["items"][1]["id"]
    refusal = api.post(fork, fork_body({"type": "throughTurn", "turnId": turn}))
    assert (refusal.status_code, refusal.json()["code"]) == (409, "turn_not_settled")


def test_a_turn_of_another_session_is_refused(
    api: Caller, paths: Paths, hosted: Callable[..., Session], fork: str
) -> None:
    other = api.get(paths.session(hosted(turns=1).pk, "turns")).json()["items"][0]["id"]
    refusal = api.post(fork, fork_body({"type": "throughTurn", "turnId": other}))
    assert_problem(refusal, 404, "turn_not_found", "/point/turnId")
