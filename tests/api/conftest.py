"""Callers of the API and sessions for them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from forkhost.kit.scopes import ALL_SCOPES
from tests.api.support import Caller, fork_body

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from sessions.models import Session
    from tests.conftest import People


@pytest.fixture
def calling(db: None) -> Callable[..., Caller]:
    """Make a caller with a token of its own."""
    from forkhost.models import ApiToken

    def make(user: User, scopes: Iterable[str] = ALL_SCOPES) -> Caller:
        return Caller(Client(headers={"Authorization": f"Bearer {ApiToken.issue(user, scopes=scopes)}"}))

    return make


@pytest.fixture
def api(people: People, calling: Callable[..., Caller]) -> Caller:
    """The member's caller, with every scope."""
    return calling(people.member)


@dataclass(frozen=True)
class Paths:
    """Paths of one workspace."""

    workspace: str
    sessions: str
    operations: str

    def session(self, session_id: uuid.UUID | str, *more: str) -> str:
        """A session's path, or one below it."""
        return "/".join([self.sessions, str(session_id), *more])

    def operation(self, operation_id: uuid.UUID | str, *more: str) -> str:
        """An operation's path, or one below it."""
        return "/".join([self.operations, str(operation_id), *more])


@pytest.fixture
def paths(people: People) -> Paths:
    """Paths of the workspace the member works in."""
    base = f"/v1/workspaces/{people.workspace.pk}"
    return Paths(base, f"{base}/agent-sessions", f"{base}/agent-session-fork-operations")


@pytest.fixture
def hosted(people: People) -> Callable[..., Session]:
    """Make a hosted session of the member with some settled turns of four events each."""
    from sessions import store
    from sessions.store import NewEvent, TurnEnd, TurnStart

    times = itertools.count(1_780_000_000_000, 1000)

    def make(turns: int = 2, **facts: Any) -> Session:
        facts = {"workspace": people.workspace, "created_by": people.member, "provider": "hosted", **facts}
        session = store.create(created_at_unix_ms=next(times), **facts)
        for number in range(1, turns + 1):
            at = next(times)
            store.append(
                session.pk,
                [
                    TurnStart(at, prompt=f"question {number}", model="m-1"),
                    NewEvent("message.user", at, {"text": f"question {number}"}),
                    NewEvent("message.assistant", at + 1, {"text": f"answer {number}"}),
                    TurnEnd(at + 2, "completed"),
                ],
            )
        session.refresh_from_db()
        return session

    return make


@pytest.fixture
def carry_out(people: People) -> Callable[[], int]:
    """Do what a worker does until nothing is left; how many operations it took up."""
    from operations import dispatch
    from operations.worker import claim_next
    from sessions.models import Runner

    def work() -> int:
        runner, _ = Runner.objects.get_or_create(workspace=people.workspace, name="test")
        taken = 0
        while (lease := claim_next(runner, "test", 60)) is not None:
            dispatch.work(lease, actor="test", lease_seconds=60)
            taken += 1
        return taken

    return work


@pytest.fixture
def forked(
    api: Caller, paths: Paths, hosted: Callable[..., Session], carry_out: Callable[[], int]
) -> Callable[..., dict[str, Any]]:
    """Fork a session (a new one by default) and carry the fork out; the committed operation."""

    def make(source: Session | None = None, **body: Any) -> dict[str, Any]:
        source = source or hosted(turns=3)
        answer = api.post(paths.session(source.pk, "fork"), fork_body(**body))
        assert answer.status_code == 202, answer.content
        assert carry_out() == 1
        operation: dict[str, Any] = api.get(answer["Location"]).json()
        assert operation["status"] == "committed", operation
        return operation

    return make
