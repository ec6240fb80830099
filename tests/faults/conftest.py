"""One warm process for all fault tests, on the test's database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from django.db import connections

from sessions.providers import registry
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.codex.adapter import CodexAdapter
from tests.agents.fake_provider import PROVIDER, FakeAdapter
from tests.conftest import url_of
from tests.faults.zygote import STALL, Zygote

SEED = 20260729


@pytest.fixture(scope="session")
def zygote(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Forks workers on the test's database."""
    url = url_of(connections["default"].settings_dict)
    with Zygote({"DATABASE_URL": url, **STALL}, tmp_path_factory.mktemp("faults") / "workers.log") as started:
        yield started


@pytest.fixture
def chance() -> random.Random:
    """The same chance every time."""
    return random.Random(SEED)


@pytest.fixture(autouse=True)
def agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake agent beside the real ones, as in the workers."""
    found: Any = registry.Registry(
        MappingProxyType({PROVIDER: FakeAdapter(), "codex": CodexAdapter(), "claude": ClaudeAdapter()})
    )
    monkeypatch.setattr(registry, "registry", lambda: found)
