"""Looking at forks, listing them, acknowledging them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["operationId"] for item in response.json()["items"]]


@pytest.fixture
def create(api: Caller, paths: Paths) -> Callable[..., dict[str, Any]]:
    """Fork a session; the accepted operation."""

    def make(source: Session, **body: Any) -> dict[str, Any]:
        answer = api.post(paths.session(source.pk, "fork"), fork_body(**body))
        assert answer.status_code == 202, answer.content
        operation: dict[str, Any] = answer.json()
        return operation

    return make


def settle(operation: dict[str, Any], status: str) -> None:
    """Put an operation into a state as the saga would leave it."""
    from operations.models import Operation

    now = dt.datetime(2026, 7, 29, 12, tzinfo=dt.UTC)
    sent = {"calls": 1, "dispatch_token": uuid.uuid4(), "dispatched_at": now}
    told = {"error_code": "worker_lost", "error_text": "The worker stopped."}
    changes: dict[str, Any] = {
        "dispatching": sent,
        "unknown": {**sent, **told, "unknown_since": now},
        "failed": {**told, "completed_at": now},
    }[status]
    Operation.objects.filter(pk=operation["operationId"]).update(status=status, **changes)


def test_looking_writes_nothing(
    api: Caller, paths: Paths, hosted: Callable[..., Session], create: Callable[..., dict[str, Any]]
) -> None:
    path = paths.operation(create(hosted())["operationId"])
    before = api.get(path).json()
    with CaptureQueriesContext(connection) as queries:
        assert api.get(path).json() == before
    assert all(query["sql"].lstrip().upper().startswith("SELECT") for query in queries), queries.captured_queries


@pytest.mark.parametrize(
    ("status", "public", "phase", "calls", "retry"),
    [
        ("dispatching", "accepted", "dispatching", 1, True),
        ("unknown", "unknown", "deliveryUnknown", 1, False),
        ("failed", "failed", "failed", 0, False),
    ],
)
def test_each_state_is_told_in_the_words_of_the_api(
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    create: Callable[..., dict[str, Any]],
    status: str,
    public: str,
    phase: str,
    calls: int,
    retry: bool,
) -> None:
    body = fork_body()
    source = hosted()
    operation = create(source, **body)
    settle(operation, status)
    answer = api.get(paths.operation(operation["operationId"]))
    shown = answer.json()
    assert (shown["status"], shown["phase"], shown["calls"]) == (public, phase, calls)
    assert (shown["session"], shown["lineage"]) == (None, None)
    assert ("Retry-After" in answer.headers) is retry
    if public != "accepted":
        assert shown["error"] == {"code": "worker_lost", "message": "The worker stopped."}
    replayed = api.post(paths.session(source.pk, "fork"), body)
    assert (replayed.status_code, replayed.json()) == (202 if retry else 200, shown)


def test_the_list_is_newest_first_in_pages(
    api: Caller, paths: Paths, hosted: Callable[..., Session], create: Callable[..., dict[str, Any]]
) -> None:
    source = hosted()
    made = [create(source)["operationId"] for _ in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    for _ in range(3):
        page = api.get(paths.operations, **query)
        seen += ids(page)
        query["cursor"] = page.json()["nextCursor"]
    assert seen == made[::-1]
    assert query["cursor"] is None
    assert api.get(paths.operations).json()["items"][0] == api.get(paths.operation(made[-1])).json()


def test_the_list_is_filtered(
    api: Caller, paths: Paths, hosted: Callable[..., Session], create: Callable[..., dict[str, Any]]
) -> None:
    one, other = hosted(), hosted()
    request_id = str(uuid.uuid4())
    first, second, third = create(one, requestId=request_id), create(one), create(other)
    settle(second, "unknown")
    settle(third, "dispatching")
    assert ids(api.get(paths.operations, status="unknown")) == [second["operationId"]]
    assert ids(api.get(paths.operations, status="accepted")) == [third["operationId"], first["operationId"]]
    assert ids(api.get(paths.operations, source=str(one.pk).upper())) == [second["operationId"], first["operationId"]]
    assert ids(api.get(paths.operations, requestId=request_id.upper())) == [first["operationId"]]
    assert ids(api.get(paths.operations, requestId="never sent")) == []
    assert ids(api.get(paths.operations, status="failed", source=str(one.pk))) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "dispatching"),
        ("status", ""),
        ("source", "dummy"),
        ("source", "00000000-0000-0000-0000-000000000000"),
        ("requestId", ""),
        ("requestId", "a\x00"),
        ("requestId", "x" * 256),
    ],
)
def test_a_filter_that_means_nothing_is_refused(api: Caller, paths: Paths, name: str, value: str) -> None:
    assert_problem(api.get(paths.operations, **{name: value}), 400, "invalid_request", name)


def test_a_committed_fork_is_acknowledged_once(
    api: Caller, paths: Paths, forked: Callable[..., dict[str, Any]]
) -> None:
    operation = forked()
    path = paths.operation(operation["operationId"], "acknowledge")
    first = api.send("POST", path, b"", "")
    assert first.status_code == 200
    assert first.json() == {**operation, "observedAtUnixMs": first.json()["observedAtUnixMs"]}
    assert first.json()["observedAtUnixMs"] is not None
    assert api.post(path).json() == first.json()
    assert_problem(api.post(path, {"note": "x"}), 400, "invalid_request", "/note")


@pytest.mark.parametrize("status", ["prepared", "dispatching", "unknown", "failed"])
def test_nothing_else_can_be_acknowledged(
    api: Caller, paths: Paths, hosted: Callable[..., Session], create: Callable[..., dict[str, Any]], status: str
) -> None:
    operation = create(hosted())
    if status != "prepared":
        settle(operation, status)
    path = paths.operation(operation["operationId"])
    before = api.get(path).json()
    problem = assert_problem(api.post(f"{path}/acknowledge"), 409, "not_committed")
    assert problem["operationId"] == operation["operationId"]
    assert api.get(path).json() == before


def test_forks_of_anothers_private_session_are_theirs_and_the_operators(
    people: People,
    api: Caller,
    paths: Paths,
    calling: Callable[..., Caller],
    hosted: Callable[..., Session],
    create: Callable[..., dict[str, Any]],
) -> None:
    operation = create(hosted(visibility="private"))
    path = paths.operation(operation["operationId"])
    second = calling(people.second_member)
    assert_problem(second.get(path), 404, "operation_not_found")
    assert_problem(second.post(f"{path}/acknowledge"), 404, "operation_not_found")
    assert ids(second.get(paths.operations)) == []
    assert ids(calling(people.operator).get(paths.operations)) == [operation["operationId"]]
    assert ids(api.get(paths.operations)) == [operation["operationId"]]


def test_strict_contract_replays_the_barrier_for_another_request(
    people: People, api: Caller, paths: Paths, hosted: Callable[..., Session], carry_out: Callable[[], int]
) -> None:
    people.workspace.fork_contract = "strict"
    people.workspace.save()
    fork = paths.session(hosted().pk, "fork")
    first = api.post(fork, fork_body()).json()
    carry_out()
    other = fork_body()
    barred = api.post(fork, other)
    assert (barred.status_code, barred["Idempotency-Replayed"]) == (200, "true")
    assert (barred.json()["operationId"], barred.json()["requestId"]) == (first["operationId"], first["requestId"])
    assert ids(api.get(paths.operations, requestId=other["requestId"])) == [first["operationId"]]
    api.post(paths.operation(first["operationId"], "acknowledge"))
    assert api.post(fork, fork_body()).json()["operationId"] != first["operationId"]
    assert api.post(fork, other).json()["operationId"] == first["operationId"]
