"""Fixtures of the saga's tests."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from sessions.providers import registry
from tests.agents.fake_provider import PROVIDER, FakeAdapter
from tests.conftest import People
from tests.operations.support import World, make_world


@pytest.fixture
def fake_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake agent as the one installed adapter."""
    found = registry.Registry(MappingProxyType({PROVIDER: FakeAdapter()}))
    monkeypatch.setattr(registry, "registry", lambda: found)


@pytest.fixture
def world(people: People, fake_agent: None, tmp_path: Path) -> World:
    """A workspace under the optimistic contract with one source of three settled turns."""
    return make_world(people.workspace, people.member, tmp_path / "home")
