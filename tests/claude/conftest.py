"""A private Claude home beside the stand-in for the Messages API, for tests that run the real agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forkhost.demo.claude_home import ClaudeHome, make_home
from forkhost.demo.mock_messages import MockMessages
from sessions.providers.claude.adapter import ClaudeAdapter


@pytest.fixture
def adapter() -> ClaudeAdapter:
    return ClaudeAdapter()


@pytest.fixture
def mock() -> Iterator[MockMessages]:
    with MockMessages() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    return make_home(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """An empty home for recordings."""
    path = tmp_path / "config"
    (path / "projects").mkdir(parents=True)
    return path
