"""The saga's world with a second home of the same agent, which the workspace names for its forks."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from sessions import switches
from sessions.models import Home
from sessions.providers import registry
from tests.agents.fake_provider import PROVIDER, FakeAdapter, FakeProvider
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


@pytest.fixture
def there(world: World, tmp_path: Path) -> FakeProvider:
    """The agent's side of the other home."""
    return FakeProvider(tmp_path / "other")


@pytest.fixture
def other(world: World, there: FakeProvider) -> Home:
    """The home that the workspace names for forks."""
    runner = world.runner
    home = Home.objects.create(runner=runner, provider=PROVIDER, path=str(there.folder), queue=str(runner.pk))
    switches.set_fork_home(world.workspace, PROVIDER, home, actor="user:operator", reason="a disk of its own")
    return home
