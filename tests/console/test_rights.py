"""Deciding takes the permission and the operator's role in the fork's own workspace; looking takes less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from operations.models import Operation
from sessions.choices import MemberRole
from sessions.models import Membership
from tests.conftest import People
from tests.console.support import REASON, allow, card, queue, row_of, verb
from tests.pages.support import links, tags, words

pytestmark = pytest.mark.django_db

VERBS = ["look-again", "adopt", "not-created", "keep", "remove-torn", "seen", "assign", "release", "note"]


def staff(user: User) -> User:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return User.objects.get(pk=user.pk)


def role(people: People, user: User, name: MemberRole) -> None:
    Membership.objects.filter(workspace=people.workspace, user=user).update(role=name)


WHO: dict[str, Callable[[People], User]] = {
    "a member who may look at the admin": lambda people: staff(people.member),
    "an operator without the permission": lambda people: people.operator,
    "a member with the permission": lambda people: allow(staff(people.second_member)),
}


@pytest.mark.parametrize("who", WHO)
def test_without_the_right_there_is_nothing_to_press_and_a_post_is_refused(
    people: People, unknown: Operation, browser_of: Callable[[User], Client], who: str
) -> None:
    browser = browser_of(WHO[who](people))
    before = row_of(unknown)
    page = browser.get(card(unknown))
    assert page.status_code == 200
    assert "You can look" in words(page)
    offered = [link for link in links(page) if "/settle/" in link and not link.endswith("/record/")]
    assert offered == []
    for name in VERBS:
        assert browser.get(verb(unknown, name)).status_code == 403
        sent = {"version": before["version"], "reason": REASON, "child": "child", "again": 14400}
        assert browser.post(verb(unknown, name), sent).status_code == 403
    assert row_of(unknown) == before


@pytest.mark.parametrize("who", ["a member who may look at the admin", "an operator without the permission"])
def test_without_the_permission_the_queue_has_no_action(
    people: People, unknown: Operation, browser_of: Callable[[User], Client], who: str
) -> None:
    browser = browser_of(WHO[who](people))
    page = browser.get(queue())
    assert unknown.title in words(page)
    assert not [field for field in tags(page, "input") if field.get("name") == "_selected_action"]
    before = row_of(unknown)
    answer = browser.post(queue(), {"action": "look_again", "_selected_action": str(unknown.pk), "confirmed": "1"})
    assert answer.status_code == 403
    assert row_of(unknown) == before


def test_the_permission_of_one_workspace_is_none_in_another(
    people: People, unknown: Operation, browser_of: Callable[[User], Client]
) -> None:
    Membership.objects.filter(user=people.stranger).update(role=MemberRole.OPERATOR)
    browser = browser_of(allow(staff(people.stranger)))
    assert browser.get(card(unknown)).status_code == 404
    assert browser.get(f"{card(unknown)}record/").status_code == 404
    answer = browser.post(verb(unknown, "not-created"), {"version": unknown.version, "reason": REASON})
    assert answer.status_code == 404
    assert unknown.title not in words(browser.get(queue()))


def test_a_superuser_who_is_no_operator_there_decides_nothing(
    people: People, unknown: Operation, browser_of: Callable[[User], Client]
) -> None:
    root = User.objects.create_superuser("root", password="secret")
    Membership.objects.create(workspace=people.workspace, user=root, role=MemberRole.MEMBER)
    answer = browser_of(root).post(verb(unknown, "not-created"), {"version": unknown.version, "reason": REASON})
    assert answer.status_code == 403


def test_who_is_no_staff_does_not_reach_the_console(
    people: People, unknown: Operation, browser_of: Callable[[User], Client]
) -> None:
    for address in (queue(), card(unknown), verb(unknown, "not-created")):
        answer: Any = browser_of(people.member).get(address)
        assert answer.status_code == 302
        assert "/login/" in answer["Location"]


def test_whoever_may_decide_is_led_from_the_forks_page_to_its_evidence(
    people: People, settler: User, unknown: Operation, browser_of: Callable[[User], Client]
) -> None:
    page = reverse("operations:operation", args=[unknown.pk])
    assert card(unknown) in links(browser_of(settler).get(page))
    for who in (people.member, allow(people.second_member), staff(people.member)):
        assert card(unknown) not in links(browser_of(who).get(page))
