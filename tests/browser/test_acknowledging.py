"""A fork is acknowledged once it is shown, however often the network fails, and on whatever page that succeeds."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect

from operations import saga
from operations.models import Operation
from operations.pages.opening import opening_url
from sessions import store
from sessions.choices import ForkContract
from tests.browser.conftest import Visit
from tests.operations.support import World, through
from tests.pages.support import operation_page

pytestmark = pytest.mark.browser

ACKNOWLEDGE = re.compile(r"/forks/[0-9a-f-]{36}/acknowledge/$")
# What Chromium itself writes to the console about a request that was cut off.
CUT_OFF = "Failed to load resource: net::ERR_FAILED"


class Line:
    """The network between the browser and forkhost: it fails until it is mended."""

    def __init__(self, page: Page, failures: int) -> None:
        self.tried: list[float] = []
        self._failures = failures
        page.context.route(ACKNOWLEDGE, self._carry)

    def _carry(self, route: Route) -> None:
        self.tried.append(time.monotonic())
        if len(self.tried) <= self._failures:
            route.abort()
        else:
            route.continue_()

    def mend(self) -> None:
        """Let everything through from now on."""
        self._failures = 0


def observed(operation: Operation) -> bool:
    """Whether forkhost knows that the fork was shown."""
    operation.refresh_from_db()
    return operation.observed_at is not None


def forgive(visit: Visit) -> None:
    """Requests that the test itself cut off are no complaint."""
    visit.complaints[:] = [each for each in visit.complaints if each != CUT_OFF]


def test_an_acknowledgement_that_is_lost_twice_is_sent_again(visit: Visit, world: World) -> None:
    operation = world.fork()
    page = visit("/runners/")
    line = Line(page, failures=2)
    page.goto(opening_url(operation))
    expect(page.get_by_text("Continued from Fix login, turn")).to_be_visible()
    # The address is clean again only after the third try was answered.
    expect(page).to_have_url(re.compile(r"/\?turn=3#continued$"))
    assert observed(operation)
    assert len(line.tried) == 3
    pauses = [later - earlier for earlier, later in zip(line.tried, line.tried[1:], strict=False)]
    assert [pause >= wanted for pause, wanted in zip(pauses, (0.9, 1.9), strict=True)] == [True, True]
    forgive(visit)


def test_any_later_page_finishes_it_also_when_source_and_fork_are_gone(visit: Visit, world: World) -> None:
    operation = world.fork()
    page = visit("/runners/")
    line = Line(page, failures=1000)
    with page.expect_request(ACKNOWLEDGE):
        page.goto(opening_url(operation))
    page.close()
    assert not observed(operation)
    store.purge(operation.target_session_id)
    store.purge(operation.source_session_id)
    line.mend()
    later = visit.contexts[0].new_page()
    with later.expect_response(ACKNOWLEDGE) as answer:
        later.goto("/runners/")
    assert answer.value.status == 204
    assert observed(operation)
    later.wait_for_function("localStorage.getItem('forkhost.acknowledgements') === '[]'")
    forgive(visit)


def test_a_pending_one_holds_back_new_forks_of_that_point_alone(visit: Visit, world: World) -> None:
    world.workspace.fork_contract = ForkContract.STRICT
    world.workspace.save()
    operation = world.fork(point=through(world.source, 2))
    page = visit("/runners/")
    line = Line(page, failures=1)
    with page.expect_request(ACKNOWLEDGE):
        page.goto(opening_url(operation))
    held = saga.prepare(world.request(point=through(world.source, 2)))
    assert (held.replayed, held.operation.pk) == (True, operation.pk)
    elsewhere = world.fork(point=through(world.source, 1))
    assert elsewhere.pk != operation.pk
    expect(page).to_have_url(re.compile(r"/\?turn=2#continued$"))
    assert len(line.tried) == 2
    assert not saga.prepare(world.request(point=through(world.source, 2))).replayed
    forgive(visit)


def test_looking_at_the_fork_in_a_hidden_tab_is_not_seeing_it(visit: Visit, world: World) -> None:
    operation = world.fork()
    page = visit("/runners/")
    page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => !window.shown})")
    line = Line(page, failures=0)
    page.goto(opening_url(operation))
    expect(page.get_by_text("Continued from Fix login, turn")).to_be_visible()
    assert line.tried == []
    page.evaluate("window.shown = true; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page).to_have_url(re.compile(r"/\?turn=3#continued$"))
    assert observed(operation)


def test_opening_it_from_the_list_leads_there_first(visit: Visit, world: World) -> None:
    operation = world.fork()
    page = visit("/forks/")
    expect(page.locator("html")).to_have_attribute("data-enhanced", "")
    page.get_by_role("button", name="Open").click()
    expect(page).to_have_url(re.compile(rf"{operation.target_session_id}/\?turn=3#continued$"))
    assert observed(operation)


def test_without_javascript_opening_it_acknowledges(visit: Visit, world: World) -> None:
    operation = world.fork()
    page = visit(operation_page(operation), java_script_enabled=False)
    page.get_by_role("button", name="Open the fork").click()
    expect(page.get_by_text("Continued from Fix login, turn")).to_be_visible()
    assert observed(operation)
