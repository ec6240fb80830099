"""What codex is asked: each request of a fork by name. There is one that changes history, and none that trims it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forkhost.demo.codex_home import Thread, make_home, run_thread
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import HomeRef
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.app_server import AppServer
from tests.codex.support import Reporter, digests, request_for

PROMPTS = ["remember APPLE", "remember BANANA", "remember CHERRY"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeRef]:
    with MockResponses() as mock:
        yield HomeRef("codex", make_home(tmp_path_factory.mktemp("codex") / "home", mock.base_url))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def source(home: HomeRef, project: Path) -> Thread:
    return run_thread(home.path, project, PROMPTS)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The requests that go out, in order."""
    send, found = AppServer.send, []

    def remember(self: AppServer, method: str, params: Any, deadline: float) -> int:
        found.append((method, params))
        return send(self, method, params, deadline)

    monkeypatch.setattr(AppServer, "send", remember)
    return found


@pytest.mark.parametrize("strict", [False, True], ids=["the chosen turn proven", "the whole prefix proven"])
def test_a_fork_is_one_request_and_no_rollback(
    home: HomeRef, project: Path, source: Thread, asked: list[tuple[str, dict[str, Any]]], strict: bool
) -> None:
    adapter = CodexAdapter()
    request = request_for(adapter, home, source, project, 2, title="Fruit (2)", require_prefix=strict)
    asked.clear()
    before = digests(home)
    adapter.fork(request, Reporter())
    methods = [method for method, _ in asked]
    assert methods == ["initialize", "thread/fork", "thread/turns/list", "thread/name/set"]
    assert {path: digests(home)[path] for path in before} == before


def test_a_fork_of_a_fork_names_the_fork_and_the_turn_as_the_fork_knows_it(
    home: HomeRef, project: Path, source: Thread, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    adapter = CodexAdapter()
    accepted = adapter.fork(request_for(adapter, home, source, project, 3), Reporter())
    assert accepted.child_path is not None
    child = Thread(accepted.child_provider_session_id, accepted.child_path, source.turns)
    asked.clear()
    adapter.fork(request_for(adapter, home, child, project, 1), Reporter())
    (sent,) = [params for method, params in asked if method == "thread/fork"]
    assert (sent["threadId"], sent["lastTurnId"]) == (child.id, source.turns[0])
