"""One running forkhost beside both real agents, for all tests of this folder that do not need their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.stack import Agents, Stack, private_agents, running


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    with private_agents(tmp_path_factory.mktemp("agents")) as made:
        yield made


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, agents: Agents) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("up"), agents) as started:
        yield started
