"""Chromium, and people who use it on a live server with the fake agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.operations.conftest import fake_agent, world

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.live_server_helper import LiveServer

    from tests.operations.support import World

__all__ = ["fake_agent", "world"]


class Visit:
    """Opens pages as a person. ``complaints`` is what the console said; anything left there at the end fails the test."""

    def __init__(self, chromium: Browser, url: str, somebody: User) -> None:
        self.complaints: list[str] = []
        self.contexts: list[BrowserContext] = []
        self._chromium = chromium
        self._url = url
        self._somebody = somebody

    def __call__(self, path: str = "/", user: User | None = None, **options: Any) -> Page:
        """A page of a fresh browser context; ``options`` are the context's."""
        client = Client()
        client.force_login(user or self._somebody)
        context = self._chromium.new_context(base_url=self._url, **options)
        self.contexts.append(context)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": self._url}])
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(path)
        return page

    def findings(self, page: Page) -> list[tuple[str, list[str]]]:
        """What axe finds; styles that axe itself tries to set are no complaint about the page."""
        before = len(self.complaints)
        violations = Axe().run(page).response["violations"]
        del self.complaints[before:]
        return [(found["id"], [node["html"][:200] for node in found["nodes"]]) for found in violations]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One Chromium a module."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        # Playwright keeps an event loop in this thread, which Django would take for asynchronous code.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        # Pages ask every few seconds, and the machine may be busy.
        expect.set_options(timeout=20_000)
        yield launched
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        launched.close()


@pytest.fixture
def visit(transactional_db: None, live_server: LiveServer, world: World, chromium: Browser) -> Iterator[Visit]:
    """The member's browser; a complaint in its console fails the test."""
    visitor = Visit(chromium, live_server.url, world.user)
    yield visitor
    for context in visitor.contexts:
        context.close()
    assert visitor.complaints == []
