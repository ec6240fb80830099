"""What changes by itself, and what must not: focus, opened folds, the reader's place."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from sessions import store
from sessions.store import NewEvent, TurnEnd
from tests.browser.conftest import Visit
from tests.operations.support import World, through, turn
from tests.pages.support import operation_page, session_page

pytestmark = pytest.mark.browser

TAIL = "htmx.ajax('GET', document.getElementById('tail').getAttribute('hx-get'), {target: '#tail', swap: 'outerHTML'})"


def test_a_new_turn_appears_below_without_a_reload(visit: Visit, world: World) -> None:
    page = visit(session_page(world.source))
    expect(page.get_by_role("article")).to_have_count(3)
    store.append(world.source.pk, turn(4))
    expect(page.get_by_role("article")).to_have_count(4)
    expect(page.get_by_role("article").last).to_contain_text("Answer 4")


def test_an_open_turn_grows_and_an_opened_fold_stays_open(visit: Visit, world: World) -> None:
    entries = turn(4)[:2]
    call = NewEvent("tool.call", 4003, {"callId": "c", "name": "shell", "input": {"command": "make"}})
    store.append(world.source.pk, [*entries, call])
    page = visit(session_page(world.source))
    fold = page.locator("details.fold").last
    fold.locator("summary").click()
    result = NewEvent("tool.result", 4004, {"callId": "c", "output": "all good", "isError": False})
    store.append(world.source.pk, [result, TurnEnd(4005, "completed")])
    page.evaluate(TAIL)
    expect(page.get_by_text("all good")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(4)


def test_the_mark_of_a_fork_turns_from_forking_to_forked(visit: Visit, world: World) -> None:
    operation = world.prepare(point=through(world.source, 1))
    page = visit(session_page(world.source))
    mark = page.locator(f"#fork-{operation.pk}")
    expect(mark).to_contain_text("Forking…")
    world.work(operation)
    expect(mark).to_contain_text("Forked")
    expect(mark).not_to_have_attribute("hx-get", "")


def test_asking_in_vain_leaves_the_focus_where_it_is(visit: Visit, world: World) -> None:
    page = visit(operation_page(world.prepare()))
    button = page.get_by_role("button", name="Copy the operation’s id")
    button.focus()
    with page.expect_response(lambda response: response.status == 204):
        pass
    expect(button).to_be_focused()


def test_the_end_of_a_fork_is_said_once_to_those_who_listen(visit: Visit, world: World) -> None:
    world.agent.script("reject")
    operation = world.prepare()
    page = visit(operation_page(operation))
    world.work(operation)
    expect(page.get_by_role("status")).to_have_text("Fork failed")


def test_single_keys_can_be_switched_off(visit: Visit, world: World) -> None:
    page = visit("/forks/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.locator("summary", has_text="You and the display").click()
    page.get_by_role("group", name="Keyboard shortcuts").get_by_role("button", name="Off").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_keys_do_nothing_while_one_types(visit: Visit, world: World) -> None:
    page = visit("/")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("searchbox").press_sequentially("jf?k/")
    expect(page.get_by_role("searchbox")).to_have_value("jf?k/")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_theme_is_chosen_and_stays(visit: Visit, world: World) -> None:
    page = visit("/")
    page.locator("summary", has_text="You and the display").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/runners/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_the_way_to_the_content_is_the_first_stop(visit: Visit, world: World) -> None:
    page = visit("/")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
