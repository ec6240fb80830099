"""Pages for everyone: axe finds nothing in either theme, nothing is cut off on a small screen, nothing breaks the CSP."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page

from operations.models import Operation
from sessions import indexing
from sessions.choices import EventKind
from tests.agents.sample_history import Talk, answer, home_of, imported, sample
from tests.browser.conftest import Visit
from tests.operations.support import World, through
from tests.pages.support import fork_page, operation_page, session_page

pytestmark = pytest.mark.browser


@pytest.fixture
def pages(world: World) -> list[str]:
    """Every kind of page, with every kind of content."""
    world.agent.script("accept", "reject", "lose")
    operations = [world.fork(point=through(world.source, number)) for number in (1, 2, 3)]
    operations.append(world.prepare(point=through(world.source, 1)))
    made = sample(world.workspace)
    child = operations[0].target_session_id
    indexing.catch_up()
    return [
        "/",
        "/?q=nothing+like+this",
        "/search/",
        "/search/?q=the",
        "/search/?q=nothing+like+this",
        session_page(made["source"]),
        session_page(made["running"]),
        session_page(made["damaged"]),
        session_page(made["listed"]),
        session_page(world.source),
        reverse("sessions:detail", args=[child]),
        reverse("sessions:turn", args=[made["source"].pk, 1]),
        reverse("sessions:record", args=[made["source"].pk, 5]),
        fork_page(world.source, latest=1),
        *(operation_page(operation) for operation in operations),
        "/forks/",
        "/forks/?state=failed",
        "/runners/",
        reverse("operations:compare", query={"a": str(world.source.pk), "b": str(child)}),
        "/nowhere/",
    ]


@pytest.fixture
def admin_pages(world: World, people: Any) -> list[str]:
    """The operator's pages."""
    unknown = Operation.objects.get(status="unknown")
    return [
        "/admin/",
        reverse("admin:operations_operation_changelist"),
        reverse("admin:operations_operation_change", args=[unknown.pk]),
        reverse("admin:operations_operation_settle", args=[unknown.pk]),
        reverse("admin:agent_sessions_session_changelist"),
        reverse("admin:agent_sessions_workspace_switch", args=[people.workspace.pk]),
    ]


def open_all(page: Page) -> None:
    """Unfold everything, so that nothing hides from the check."""
    page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")


def walk(visit: Visit, addresses: list[str], user: User | None = None, **options: Any) -> dict[str, Any]:
    """What is wrong on which page; one context for all of them."""
    page = visit("/runners/", user, **options)
    wrong: dict[str, Any] = {}
    for address in addresses:
        page.goto(address)
        open_all(page)
        found = visit.findings(page)
        if found:
            wrong[address] = found
    return wrong


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(visit: Visit, pages: list[str], theme: str) -> None:
    # The browser itself reports the page that is not there.
    known = [address for address in pages if address != "/nowhere/"]
    assert walk(visit, known, color_scheme=theme, reduced_motion="reduce") == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_the_admin(
    visit: Visit, pages: list[str], admin_pages: list[str], people: Any, theme: str
) -> None:
    assert walk(visit, admin_pages, people.operator, color_scheme=theme) == {}


def test_nothing_is_wider_than_a_small_screen(visit: Visit, pages: list[str]) -> None:
    page = visit("/runners/", viewport={"width": 320, "height": 640})
    wide = {}
    for address in pages:
        if address == "/nowhere/":
            continue
        page.goto(address)
        open_all(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[address] = width
    assert wide == {}


def test_one_word_of_any_length_makes_no_page_wider(visit: Visit, world: World) -> None:
    word = "W" * 2_000
    session = imported(home_of(world.workspace), word, cwd=f"/{word}")
    call = {"callId": word, "name": word, "input": {word: word}}
    result = {"callId": word, "output": word, "isError": False}
    Talk(session).say(word, answer(f"{word} `{word}`"), (EventKind.TOOL_CALL, call), (EventKind.TOOL_RESULT, result))
    operation = world.fork(title=word[:300])
    page = visit("/runners/", viewport={"width": 320, "height": 640})
    addresses = [
        "/",
        session_page(session),
        fork_page(session, latest=1),
        reverse("sessions:turn", args=[session.pk, 1]),
        operation_page(operation),
        reverse("sessions:detail", args=[operation.target_session_id]),
    ]
    wide = {}
    for address in addresses:
        page.goto(address)
        open_all(page)
        wide[address] = page.evaluate("document.documentElement.scrollWidth")
    assert {address: width for address, width in wide.items() if width > 320} == {}


def test_signing_in_is_for_everyone_too(visit: Visit, people: Any) -> None:
    page = visit("/")
    page.context.clear_cookies()
    for address in ("/login/", "/login/made-up/"):
        page.goto(address)
        assert visit.findings(page) == []
