"""Find a session, fork it at a turn, follow the fork, open it, see where it was continued from."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from operations.models import Operation
from sessions import indexing
from tests.browser.conftest import Visit
from tests.operations.support import World, through
from tests.pages.support import operation_page, session_page

pytestmark = pytest.mark.browser


def ready(page: Page) -> None:
    """Single keys act from now on."""
    expect(page.locator("html")).to_have_attribute("data-enhanced", "")


def expect_child(page: Page, turns: int) -> None:
    """The page is the fork's, with the seam after its last inherited turn."""
    expect(page).to_have_url(re.compile(r"/sessions/[0-9a-f-]{36}/\?turn=\d+#continued$"))
    expect(page.get_by_text("Continued from Fix login, turn")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(turns)
    operation = Operation.objects.get()
    assert operation.observed_at is not None


def test_with_javascript_the_page_follows_the_fork_and_opens_it(visit: Visit, world: World) -> None:
    indexing.catch_up()
    page = visit("/")
    page.get_by_role("searchbox", name="Search what was said").fill("login")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Fix login", exact=True).click()
    page.get_by_role("link", name="Fork from turn 2").click()
    page.get_by_label("Title of the fork").fill("Another way")
    page.get_by_role("button", name="Fork from turn 2").click()
    expect(page.get_by_text("Nothing has been sent yet.")).to_be_visible()
    world.work()
    expect_child(page, 2)
    expect(page.get_by_role("heading", name="Another way")).to_be_visible()


def test_without_javascript_the_same_way_leads_to_the_child(visit: Visit, world: World) -> None:
    page = visit("/", java_script_enabled=False)
    page.get_by_role("link", name="Fix login", exact=True).click()
    page.get_by_role("link", name="Fork from turn 2").click()
    page.get_by_role("button", name="Fork from turn 2").click()
    world.work()
    page.get_by_role("link", name="Look again").click()
    page.get_by_role("button", name="Open the fork").click()
    expect_child(page, 2)
    page.get_by_role("link", name="from source").first.click()
    expect(page).to_have_url(re.compile(rf"{world.source.pk}/\?turn=1#turn-1$"))


def test_by_keyboard_alone(visit: Visit, world: World) -> None:
    indexing.catch_up()
    page = visit("/")
    ready(page)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("login")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=login"))
    ready(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(str(world.source.pk)))
    ready(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("[data-selected]")).to_have_id("turn-2")
    page.keyboard.press("k")
    expect(page.locator("[data-selected]")).to_have_id("turn-1")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Fork from turn 1")).to_be_visible()
    page.get_by_label("Title of the fork").press("Enter")
    expect(page.get_by_text("Nothing has been sent yet.")).to_be_visible()
    world.work()
    expect_child(page, 1)


def test_a_double_click_makes_one_fork(visit: Visit, world: World) -> None:
    page = visit(session_page(world.source))
    page.get_by_role("link", name="Fork from turn 3").click()
    page.get_by_role("button", name="Fork from turn 3").dblclick()
    expect(page.get_by_text("Nothing has been sent yet.")).to_be_visible()
    assert Operation.objects.count() == 1


def test_a_lost_answer_is_amber_and_changes_when_somebody_settles_it(visit: Visit, world: World) -> None:
    from operations import saga

    world.agent.script("lose")
    operation = world.prepare(point=through(world.source, 1))
    page = visit(operation_page(operation))
    world.work(operation)
    expect(page.get_by_text("Outcome unknown since")).to_be_visible()
    expect(page.get_by_text("What happens next")).to_be_visible()
    expect(page.get_by_role("button", name="Fork")).to_have_count(0)
    page.reload()
    saga.confirm_not_created(operation.pk, actor="user:operator", reason="sure", expected_version=operation.version)
    page.evaluate("htmx.ajax('GET', document.getElementById('operation').getAttribute('hx-get'), '#operation')")
    expect(page.get_by_text("Fork failed — nothing was created")).to_be_visible()
