"""A private ``CODEX_HOME`` beside the stand-in model, for tests that run the real codex."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forkhost.demo.codex_home import make_home
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import HomeRef
from sessions.providers.codex.adapter import CodexAdapter

RECORDINGS = Path(__file__).parents[1] / "recordings" / "codex"


@pytest.fixture(scope="module")
def mock() -> Iterator[MockResponses]:
    with MockResponses() as server:
        yield server


@pytest.fixture(scope="module")
def home(mock: MockResponses, tmp_path_factory: pytest.TempPathFactory) -> HomeRef:
    """One home for a module: forks disturb neither their source nor each other, which every test here relies on."""
    return HomeRef("codex", make_home(tmp_path_factory.mktemp("codex") / "home", mock.base_url))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture
def adapter() -> CodexAdapter:
    return CodexAdapter()
