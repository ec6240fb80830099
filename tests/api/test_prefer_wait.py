"""``Prefer: wait=N`` holds the answer, a thread and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from operations.api import waiting
from tests.api.support import Caller, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=3", 3),
        ("respond-async, wait=10", 10),
        ("wait = 4 ; x=1", 4),
        ('WAIT="2"', 2),
        ("wait=60", 10),
        ("wait=0", 0),
        ("wait=999999", 10),
        ("", None),
        ("wait", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ("wait=x", None),
        ("await=3", None),
        ("wait=9999999999", None),
        ("wait=٣", None),
    ],
)
def test_the_preference_is_read_and_bounded(header: str, seconds: int | None) -> None:
    request = Request(APIRequestFactory().get("/", headers={"Prefer": header}))
    assert waiting.preferred_wait(request) == seconds


@pytest.fixture
def fork(paths: Paths, hosted: Callable[..., Session]) -> str:
    """Where a session is forked."""
    return paths.session(hosted().pk, "fork")


@pytest.mark.django_db
def test_what_is_settled_is_answered_at_once(api: Caller, paths: Paths, forked: Callable[..., dict[str, Any]]) -> None:
    path = paths.operation(forked()["operationId"])
    begun = time.monotonic()
    answer = api.get(path, headers={"Prefer": "wait=10"})
    assert time.monotonic() - begun < 5
    assert (answer["Preference-Applied"], "Prefer" in answer["Vary"]) == ("wait=10", True)


@pytest.mark.django_db(transaction=True)
def test_the_answer_comes_when_the_fork_is_committed(
    api: Caller, fork: str, carry_out: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = threading.Event()
    held: list[bool] = []

    def sleep(seconds: float) -> None:
        held.append(connection.connection is not None or connection.in_atomic_block)
        asleep.set()
        threading.Event().wait(seconds)

    monkeypatch.setattr(waiting.time, "sleep", sleep)
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(api.post(fork, fork_body(), headers={"Prefer": "respond-async, wait=10"}))
        finally:
            connections.close_all()

    caller = threading.Thread(target=ask)
    caller.start()
    assert asleep.wait(10)
    assert carry_out() == 1
    caller.join(10)
    answer = answers[0]
    assert (answer.status_code, answer.json()["status"]) == (200, "committed")
    assert answer["Preference-Applied"] == "wait=10"
    assert "Retry-After" not in answer.headers
    assert held
    assert not any(held), "a connection was held while waiting"


@pytest.mark.django_db(transaction=True)
def test_the_answer_comes_when_the_time_is_up(api: Caller, fork: str) -> None:
    answer = api.post(fork, fork_body(), headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    assert (answer["Preference-Applied"], answer["Retry-After"]) == ("wait=1", "1")


@pytest.mark.django_db
def test_too_many_waiters_are_answered_at_once(api: Caller, fork: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_waiters", threading.BoundedSemaphore(1))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: pytest.fail("it waited"))
    with waiting._waiters:
        answer = api.post(fork, fork_body(), headers={"Prefer": "wait=10"})
    assert answer.status_code == 202
    assert "Preference-Applied" not in answer.headers
