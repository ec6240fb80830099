"""The bin in the admin: operators restore and purge, with a reason, after the page said what that does; nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from sessions import store
from sessions.choices import MemberRole, Visibility
from sessions.models import Event, Membership, Session, SessionAudit, Turn
from tests.api.conftest import hosted
from tests.console.support import REASON
from tests.pages.support import links, tags, words

if TYPE_CHECKING:
    from tests.conftest import People

__all__ = ["hosted"]

pytestmark = pytest.mark.django_db(transaction=True)

VERBS = ("restore", "purge")


def at(session: Session, verb: str = "change") -> str:
    return reverse(f"admin:agent_sessions_session_{verb}", args=[session.pk])


def state() -> tuple[Any, ...]:
    """All that a purge or a restore could change."""
    return (
        list(Session.objects.order_by("pk").values_list("pk", "tombstoned_at", "version")),
        Event.objects.count(),
        SessionAudit.objects.count(),
    )


@pytest.fixture
def binned(hosted: Callable[..., Session]) -> Session:
    """A deleted session of three turns."""
    session = hosted(turns=3, title="Deleted talk")
    store.tombstone(session.pk, actor="member")
    return session


@pytest.fixture
def operator(people: People, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(people.operator)


def test_an_operator_restores_a_deleted_session_and_the_reason_stays(operator: Client, binned: Session) -> None:
    assert {at(binned, verb) for verb in VERBS} <= set(links(operator.get(at(binned))))
    assert "comes back with all that it held" in words(operator.get(at(binned, "restore")))
    answer = operator.post(at(binned, "restore"), {"reason": REASON})
    assert answer["Location"] == at(binned)
    binned.refresh_from_db()
    assert binned.tombstoned_at is None
    row = SessionAudit.objects.get(session_id=binned.pk, action="restore")
    assert (row.actor, row.detail) == ("user:operator", {"reason": REASON})
    assert not {at(binned, verb) for verb in VERBS} & set(links(operator.get(at(binned))))


def test_the_page_before_a_purge_says_what_goes_and_what_survives_and_so_it_happens(
    operator: Client, binned: Session
) -> None:
    store.restore(binned.pk)
    child = store.fork(binned.pk, 8)
    store.rename(child.pk, "Its fork")
    store.tombstone(binned.pk)
    text = words(operator.get(at(binned, "purge")))
    assert "1 turn with 4 records, and the stored files that only these point to" in text
    assert "2 turns with 8 records that other sessions or unsettled forks show" in text
    before = Event.objects.count(), Turn.objects.count()
    answer = operator.post(at(binned, "purge"), {"reason": REASON}, follow=True)
    assert "is removed for good" in words(answer)
    assert (Event.objects.count(), Turn.objects.count()) == (before[0] - 4, before[1] - 1)
    assert list(Session.objects.values_list("title", flat=True)) == ["Its fork"]
    row = SessionAudit.objects.get(session_id=binned.pk, action="purge")
    assert (row.actor, row.detail["reason"], row.detail["title"]) == ("user:operator", REASON, "Deleted talk")


def test_what_nobody_else_shows_goes_altogether(operator: Client, binned: Session) -> None:
    text = words(operator.get(at(binned, "purge")))
    assert "3 turns with 12 records, and" in text
    assert "that other sessions or unsettled forks show" not in text
    operator.post(at(binned, "purge"), {"reason": REASON})
    assert (Event.objects.count(), Session.objects.count()) == (0, 0)


def test_the_forks_that_survive_are_named_and_those_of_others_counted(
    operator: Client, people: People, world: Any
) -> None:
    source, seen = world.source, world.fork().target_session_id
    Session.objects.filter(pk=seen).update(title="A fork to see")
    hidden = world.fork().target_session_id
    Session.objects.filter(pk=hidden).update(title="Not for you", visibility=Visibility.PRIVATE)
    store.tombstone(source.pk)
    page = operator.get(at(source, "purge"))
    assert "The fork A fork to see, whole" in words(page)
    assert "1 further fork of it, gone already or not yours to see" in words(page)
    assert "Not for you" not in words(page)
    assert "They are not touched, and not imported again" in words(page)


def test_a_fork_under_way_is_said_on_the_page_and_holds_the_purge(operator: Client, world: Any) -> None:
    world.prepare()
    store.tombstone(world.source.pk)
    page = operator.get(at(world.source, "purge"))
    assert "A fork of this session is under way" in words(page)
    assert not [field for field in tags(page, "textarea") + tags(page, "input") if field.get("name") == "reason"]
    before = state()
    answer = operator.post(at(world.source, "purge"), {"reason": REASON})
    assert answer.status_code == 409
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_reason_nothing_happens(operator: Client, binned: Session, verb: str) -> None:
    before = state()
    for reason in ({}, {"reason": ""}, {"reason": "   "}):
        answer = operator.post(at(binned, verb), {"sent": "1", **reason})
        assert answer.status_code == 422
        assert "This field is required" in words(answer)
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_session_that_is_not_in_the_bin_is_left_alone(
    operator: Client, hosted: Callable[..., Session], verb: str
) -> None:
    session = hosted(turns=1)
    before = state()
    assert not {at(session, each) for each in VERBS} & set(links(operator.get(at(session))))
    for answer in (
        operator.get(at(session, verb), follow=True),
        operator.post(at(session, verb), {"reason": REASON}, follow=True),
    ):
        assert "not in the bin; nothing was changed" in words(answer)
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_member_who_may_look_at_the_admin_gets_a_403(
    people: People, browser_of: Callable[[User], Client], binned: Session, verb: str
) -> None:
    # The member made the session, and may purge it on the pages; the console is the operators'.
    User.objects.filter(pk=people.member.pk).update(is_staff=True)
    browser = browser_of(User.objects.get(pk=people.member.pk))
    before = state()
    page = browser.get(at(binned))
    assert page.status_code == 200
    assert at(binned, verb) not in links(page)
    assert browser.get(at(binned, verb)).status_code == 403
    assert browser.post(at(binned, verb), {"reason": REASON}).status_code == 403
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_an_operator_elsewhere_finds_nothing(
    people: People, browser_of: Callable[[User], Client], binned: Session, verb: str
) -> None:
    Membership.objects.filter(user=people.stranger).update(role=MemberRole.OPERATOR)
    User.objects.filter(pk=people.stranger.pk).update(is_staff=True)
    browser = browser_of(User.objects.get(pk=people.stranger.pk))
    before = state()
    assert browser.get(at(binned, verb)).status_code == 404
    assert browser.post(at(binned, verb), {"reason": REASON}).status_code == 404
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_private_session_of_somebody_else_is_not_the_operators_to_dispose_of(
    operator: Client, binned: Session, verb: str
) -> None:
    store.set_visibility(binned.pk, Visibility.PRIVATE)
    before = state()
    assert operator.get(at(binned, verb)).status_code == 404
    assert operator.post(at(binned, verb), {"reason": REASON}).status_code == 404
    assert state() == before


@pytest.mark.parametrize("verb", VERBS)
def test_who_is_no_staff_is_sent_to_sign_in(
    people: People, browser_of: Callable[[User], Client], binned: Session, verb: str
) -> None:
    before = state()
    answer = browser_of(people.member).post(at(binned, verb), {"reason": REASON})
    assert answer.status_code == 302
    assert "/login/" in answer["Location"]
    assert state() == before


def test_the_list_shows_the_bin_alone(operator: Client, binned: Session, hosted: Callable[..., Session]) -> None:
    hosted(turns=1, title="Living talk")
    listed = reverse("admin:agent_sessions_session_changelist")
    for chosen, shown, absent in (("in", "Deleted talk", "Living talk"), ("out", "Living talk", "Deleted talk")):
        text = words(operator.get(listed, {"bin": chosen}))
        assert shown in text
        assert absent not in text


def test_a_hostile_title_is_text(operator: Client, binned: Session) -> None:
    store.rename(binned.pk, "<script>alert(1)</script>")
    for verb in VERBS:
        page = operator.get(at(binned, verb)).content.decode()
        assert "<script>alert(1)" not in page
        assert "&lt;script&gt;alert(1)" in page
