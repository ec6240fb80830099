"""A person forks a real Codex session in Chromium: find, fork, follow, open the child, see where it was continued from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from forkhost.demo.codex_home import run_thread
from tests.real.stack import Agents, Stack, eventually

pytestmark = [pytest.mark.serial, pytest.mark.browser]

PROMPTS = ["Why is the import slow?", "What would a batch of 200 change?", "Then do it"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, stack: Stack) -> str:
    """The path of a stored browser state of somebody who followed the one-time link."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(stack.sign_in_link)
    page.get_by_role("main").get_by_role("button").click()
    expect(page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()
    path = str(stack.log.with_name("browser.json"))
    context.storage_state(path=path)
    context.close()
    return path


@pytest.fixture(scope="module")
def title(agents: Agents, stack: Stack) -> str:
    name = "A slow import"
    thread = run_thread(agents.codex, agents.project, PROMPTS, name=name)
    stack.session_of(thread.id, turns=3)
    path = stack.in_workspace("/agent-sessions")
    eventually(lambda: stack.get(path, q="slow import")["items"], what="the session in the search index")
    return name


def visit(chromium: Browser, state: str, stack: Stack, **options: object) -> tuple[BrowserContext, Page, list[str]]:
    """A page of a signed-in person, and what its console complains about."""
    context = chromium.new_context(storage_state=state, base_url=stack.base_url, **options)  # type: ignore[arg-type]
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    return context, page, complaints


def find_and_fork(page: Page, title: str) -> None:
    page.goto("/")
    page.get_by_label("Search what was said").fill("slow import")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=title, exact=True).click()
    page.get_by_role("link", name="Fork from turn 2").click()
    page.get_by_role("button", name="Fork from turn 2").click()


def sees_the_seam(page: Page, title: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    expect(page.get_by_text(f"Continued from {title}, turn 2")).to_be_visible()
    expect(page.locator("article[id^=turn-]")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_fork_is_followed_to_the_child_and_every_page_on_the_way_is_for_everyone(
    chromium: Browser, signed_in: str, stack: Stack, title: str, scheme: str
) -> None:
    context, page, complaints = visit(chromium, signed_in, stack, color_scheme=scheme)
    find_and_fork(page, title)

    page.wait_for_url("**/sessions/**")

    sees_the_seam(page, title)
    for path in (page.url, f"{stack.base_url}/", f"{stack.base_url}/forks/", f"{stack.base_url}/runners/"):
        page.goto(path)
        assert Axe().run(page).response["violations"] == [], path
    assert complaints == []
    context.close()


def test_a_fork_works_without_javascript(chromium: Browser, signed_in: str, stack: Stack, title: str) -> None:
    context, page, _ = visit(chromium, signed_in, stack, java_script_enabled=False)
    find_and_fork(page, title)
    for _ in range(100):
        if page.get_by_role("button", name="Open the fork").count():
            break
        page.get_by_role("link", name="Look again").click()

    page.get_by_role("button", name="Open the fork").click()

    sees_the_seam(page, title)
    context.close()


def test_a_fork_works_by_keyboard_alone(chromium: Browser, signed_in: str, stack: Stack, title: str) -> None:
    context, page, complaints = visit(chromium, signed_in, stack)
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("slow import")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=title, exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Fork from turn 2").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Fork from turn 2").focus()
    page.keyboard.press("Enter")

    page.wait_for_url("**/sessions/**")

    sees_the_seam(page, title)
    assert complaints == []
    context.close()
