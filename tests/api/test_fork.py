"""Creating a fork over the API: one operation for one request, in whatever state it is."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db

SOME = "3F6C2A1E-8F0B-4F57-9A53-8F3BB4A1C002"


@pytest.fixture
def source(hosted: Callable[..., Session]) -> Session:
    """Three turns of four events."""
    return hosted(turns=3, title="Parser")


@pytest.fixture
def fork(paths: Paths, source: Session) -> str:
    """Where the source is forked."""
    return paths.session(source.pk, "fork")


def operations() -> int:
    from operations.models import Operation

    return Operation.objects.count()


def test_a_fork_is_accepted_and_then_found_where_it_says(api: Caller, paths: Paths, source: Session, fork: str) -> None:
    body = fork_body({"type": "atSeq", "seq": 6})
    answer = api.post(fork, body)
    assert answer.status_code == 202
    operation = answer.json()
    assert answer["Location"] == paths.operation(operation["operationId"])
    assert answer["Retry-After"] == "1"
    assert "Idempotency-Replayed" not in answer.headers
    turn = api.get(paths.session(source.pk, "turns")).json()["items"][1]
    assert operation == {
        "operationId": operation["operationId"],
        "requestId": body["requestId"],
        "sourceAgentSessionId": str(source.pk),
        "targetAgentSessionId": body["targetAgentSessionId"],
        "point": {"type": "atSeq", "seq": 6},
        "resolvedPoint": {"turnId": turn["id"], "seq": 8},
        "status": "accepted",
        "phase": "frozen",
        "session": None,
        "lineage": None,
        "error": None,
        "calls": 0,
        "preparedAtUnixMs": operation["preparedAtUnixMs"],
        "dispatchedAtUnixMs": None,
        "acceptedAtUnixMs": None,
        "completedAtUnixMs": None,
        "observedAtUnixMs": None,
        "unknownSinceUnixMs": None,
    }
    later = api.get(answer["Location"])
    assert (later.status_code, later["Retry-After"], later.json()) == (200, "1", operation)


def test_a_committed_fork_carries_session_and_lineage(
    api: Caller, paths: Paths, source: Session, fork: str, carry_out: Callable[[], int]
) -> None:
    body = fork_body({"type": "throughSeq", "seq": 8}, title="Another way")
    location = api.post(fork, body)["Location"]
    carry_out()
    answer = api.get(location)
    operation = answer.json()
    assert answer.status_code == 200
    assert "Retry-After" not in answer.headers
    assert (operation["status"], operation["phase"], operation["calls"]) == ("committed", "committed", 1)
    child = api.get(paths.session(body["targetAgentSessionId"])).json()
    assert {**operation["session"], "usage": child["usage"], "transcript": child["transcript"]} == child
    assert operation["lineage"] == child["forkedFrom"]
    assert (child["title"], child["seedLength"], child["lastSeq"], child["turnCount"]) == ("Another way", 8, 8, 2)
    assert operation["lineage"]["sourceAgentSessionId"] == str(source.pk)
    assert operation["lineage"]["operationId"] == operation["operationId"]


def test_the_same_request_is_the_same_operation_in_its_current_state(
    api: Caller, fork: str, carry_out: Callable[[], int]
) -> None:
    body = fork_body()
    first = api.post(fork, body)
    again = api.post(fork, body)
    assert (again.status_code, again.json(), again["Location"]) == (202, first.json(), first["Location"])
    assert again["Idempotency-Replayed"] == "true"
    carry_out()
    last = api.post(fork, body)
    assert (last.status_code, last["Idempotency-Replayed"]) == (200, "true")
    assert (last.json()["operationId"], last.json()["status"]) == (first.json()["operationId"], "committed")
    assert operations() == 1


def test_a_replay_answers_also_when_child_and_source_are_gone(
    api: Caller, paths: Paths, source: Session, fork: str, carry_out: Callable[[], int]
) -> None:
    body = fork_body()
    api.post(fork, body)
    carry_out()
    before = api.post(fork, body).json()
    api.delete(paths.session(body["targetAgentSessionId"]))
    api.delete(paths.session(source.pk))
    assert api.post(fork, body).json() == before
    assert api.get(paths.operation(before["operationId"])).json() == before


def test_another_members_same_request_is_answered_too(
    people: People, api: Caller, calling: Callable[..., Caller], fork: str
) -> None:
    body = fork_body()
    operation = api.post(fork, body).json()
    assert calling(people.second_member).post(fork, body).json() == operation


@pytest.mark.parametrize(
    "change",
    [{"title": "x"}, {"point": {"type": "atSeq", "seq": 1}}, {"targetAgentSessionId": SOME}],
    ids=["title", "point", "target"],
)
def test_the_same_request_id_with_another_body_is_a_conflict(api: Caller, fork: str, change: dict[str, Any]) -> None:
    body = fork_body()
    operation = api.post(fork, body).json()
    problem = assert_problem(api.post(fork, {**body, **change}), 409, "request_conflict", "/requestId")
    assert problem["operationId"] == operation["operationId"]
    assert operations() == 1


def test_the_same_request_for_another_source_is_a_conflict(
    api: Caller, paths: Paths, hosted: Callable[..., Session], fork: str
) -> None:
    body = fork_body()
    api.post(fork, body)
    assert_problem(api.post(paths.session(hosted().pk, "fork"), body), 409, "request_conflict", "/requestId")


def test_ids_compare_as_uuids_in_any_case(api: Caller, fork: str) -> None:
    body = fork_body(requestId=SOME, targetAgentSessionId=str(uuid.uuid4()))
    first = api.post(fork, body).json()
    upper = {**body, "requestId": SOME.lower(), "targetAgentSessionId": body["targetAgentSessionId"].upper()}
    assert api.post(fork.replace(fork.split("/")[5], fork.split("/")[5].upper()), upper).json() == first
    assert operations() == 1


def test_other_request_ids_compare_byte_for_byte(api: Caller, fork: str) -> None:
    api.post(fork, fork_body(requestId="Build-17"))
    assert api.post(fork, fork_body(requestId="build-17")).status_code == 202
    assert api.post(fork, fork_body(requestId="build-17 ")).status_code == 202
    assert operations() == 3


def test_a_taken_target_is_refused(api: Caller, source: Session, fork: str, hosted: Callable[..., Session]) -> None:
    taken = str(hosted(turns=0).pk)
    assert_problem(
        api.post(fork, fork_body(targetAgentSessionId=taken)), 409, "target_reserved", "/targetAgentSessionId"
    )
    assert_problem(
        api.post(fork, fork_body(targetAgentSessionId=str(source.pk))), 400, "invalid_request", "/targetAgentSessionId"
    )


def test_a_workspace_that_switched_forks_off_still_replays(people: People, api: Caller, fork: str) -> None:
    body = fork_body()
    operation = api.post(fork, body).json()
    people.workspace.forks_enabled = False
    people.workspace.save()
    assert_problem(api.post(fork, fork_body()), 403, "forks_disabled")
    assert api.post(fork, body).json() == operation


def test_a_history_that_is_not_imported_says_when_to_come_again(
    people: People, api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    from sessions.models import Home, Runner, SessionSync

    runner = Runner.objects.create(workspace=people.workspace, name="laptop")
    home = Home.objects.create(runner=runner, provider="codex", path="/agents/codex", queue=str(runner.pk))
    session = hosted(turns=0, provider="codex", home=home, provider_session_id="thread")
    SessionSync.objects.create(session=session, stamp_seen="1", queue=str(runner.pk))
    refusal = api.post(paths.session(session.pk, "fork"), fork_body())
    assert_problem(refusal, 409, "history_not_imported")
    assert int(refusal["Retry-After"]) > 0
    assert operations() == 0


def test_nothing_settled_yet_is_refused(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    assert_problem(api.post(paths.session(hosted(turns=0).pk, "fork"), fork_body()), 409, "no_settled_turn", "/point")
