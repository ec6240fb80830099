"""People with browsers, and sessions for them to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.operations.conftest import fake_agent, world

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from sessions.models import Session
    from tests.conftest import People

__all__ = ["fake_agent", "world"]


@pytest.fixture
def browser_of() -> Callable[[User], Client]:
    """A browser in which this person is signed in."""

    def make(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def reader(people: People, browser_of: Callable[[User], Client]) -> Client:
    """The member's browser."""
    return browser_of(people.member)


@pytest.fixture
def talk(people: People) -> Session:
    """A session with everything a transcript can hold: five rich turns and three plain ones."""
    from tests.agents.sample_history import conversation, home_of

    return conversation(home_of(people.workspace), turns=3)
