"""An unknown fork, the people round it, and their browsers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.operations.conftest import fake_agent, world
from tests.pages.conftest import browser_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from forkhost.kit.clock import HeldClock
    from operations.models import Operation
    from tests.conftest import People
    from tests.operations.support import World

__all__ = ["browser_of", "fake_agent", "world"]


@pytest.fixture
def settler(people: People) -> User:
    """The operator, with the permission to settle forks."""
    from tests.console.support import allow

    return allow(people.operator)


@pytest.fixture
def console(settler: User, browser_of: Callable[[User], Client]) -> Client:
    """The settler's browser."""
    return browser_of(settler)


@pytest.fixture
def unknown(world: World, held_clock: HeldClock) -> Operation:
    """An unknown fork that was looked up once: its child exists and is only likely to be its own."""
    from tests.console.support import unknown_fork

    return unknown_fork(world, held_clock)
