"""What went wrong elsewhere, tried here: people with browsers, a world of the fake agent, and sessions to read."""

from __future__ import annotations

from tests.pages.conftest import browser_of, fake_agent, reader, talk, world

__all__ = ["browser_of", "fake_agent", "reader", "talk", "world"]
