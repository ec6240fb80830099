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


@pytest.fixture
def mock() -> Iterator[MockResponses]:
    with MockResponses() as server:
        yield server


@pytest.fixture
def home(mock: MockResponses, tmp_path: Path) -> HomeRef:
    return HomeRef("codex", make_home(tmp_path / "codex-home", mock.base_url))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def adapter() -> CodexAdapter:
    return CodexAdapter()
