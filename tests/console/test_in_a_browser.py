"""An operator walks the queue in Chromium; a member who may not decide finds nothing to press."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from operations.choices import OperationStatus
from operations.models import Operation
from tests.browser.conftest import Visit, chromium, visit
from tests.console.support import REASON, card, queue, row_of, unknown_fork, verb

if TYPE_CHECKING:
    from forkhost.kit.clock import HeldClock
    from tests.conftest import People
    from tests.operations.support import World

__all__ = ["chromium", "visit"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_operator_walks_from_the_queue_over_the_evidence_to_a_decision(
    visit: Visit, settler: User, world: World, held_clock: HeldClock
) -> None:
    first, second = unknown_fork(world, held_clock), unknown_fork(world, held_clock)
    page = visit("/admin/", settler)
    page.get_by_role("link", name="2 forks to look after").click()
    expect(page.get_by_text("no_answer")).to_have_count(2)
    assert visit.findings(page) == []
    page.get_by_role("link", name=first.title, exact=True).click()
    expect(page.get_by_role("heading", name="Candidates")).to_be_visible()
    child = world.agent.children[0]["id"]
    expect(page.get_by_role("cell", name="complete and verified").first).to_be_visible()
    assert visit.findings(page) == []
    page.get_by_role("link", name="Adopt found child").click()
    expect(page.get_by_text("Nothing is sent to the agent.")).to_be_visible()
    assert visit.findings(page) == []
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("radio").first.check()
    page.get_by_role("button", name="Adopt found child").click()
    expect(page.get_by_text("The child is adopted; the rest happens by itself.")).to_be_visible()
    expect(page.get_by_role("link", name="Confirm not created")).to_have_count(0)
    first.refresh_from_db()
    assert first.status == OperationStatus.PROVIDER_ACCEPTED
    assert first.child_provider_session_id in {child, world.agent.children[1]["id"]}

    page.goto(queue())
    page.get_by_role("checkbox", name="Select this object for an action").first.check()
    page.get_by_label("Action:").select_option("look_again")
    page.get_by_role("button", name="Go", exact=False).click()
    expect(page.get_by_text("exactly 1 fork now")).to_be_visible()
    page.get_by_role("button", name="Look again at 1").click()
    expect(page.get_by_text("The runners look again at 1.")).to_be_visible()
    world.work(first)
    world.work(second)
    assert (first.refresh_from_db(), first.status) == (None, OperationStatus.COMMITTED)
    assert second.looks == 2


def test_a_short_reason_is_said_where_it_is_typed_and_what_was_typed_stays(
    visit: Visit, settler: User, unknown: Operation
) -> None:
    page = visit(verb(unknown, "not-created"), settler)
    page.evaluate("document.querySelector('#id_reason').removeAttribute('minlength')")
    page.get_by_label("Reason").fill("no")
    page.get_by_role("button", name="Confirm not created").click()
    expect(page.get_by_text("at least 10 characters (it has 2)")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("no")
    assert visit.findings(page) == []
    visit.complaints[:] = [said for said in visit.complaints if "422" not in said]


def test_a_member_without_the_permission_reads_the_evidence_and_has_nothing_to_press(
    visit: Visit, people: People, unknown: Operation
) -> None:
    User.objects.filter(pk=people.member.pk).update(is_staff=True)
    page = visit(queue(), people.member)
    page.get_by_role("link", name=unknown.title, exact=True).click()
    expect(page.get_by_text("You can look")).to_be_visible()
    main = page.locator("#content")
    expect(main.get_by_role("button")).to_have_count(0)
    expect(main.locator("a.button")).to_have_count(0)
    assert visit.findings(page) == []
    before = row_of(unknown)
    token = page.locator("input[name=csrfmiddlewaretoken]").first.input_value()
    sent = {"csrfmiddlewaretoken": token, "version": str(unknown.version), "reason": REASON}
    answer = page.request.post(verb(unknown, "not-created"), form=sent, headers={"Referer": page.url}, max_redirects=0)
    assert answer.status == 403
    assert row_of(unknown) == before
    assert page.goto(card(unknown)) is not None
