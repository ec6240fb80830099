"""Two operators press at the same moment: one decision stands, and the other is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from operations.models import Operation, OperationAudit
from sessions.choices import MemberRole
from sessions.models import Membership
from tests.conftest import People
from tests.console.support import REASON, allow, verb
from tests.pages.support import words
from tests.threads import together


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", range(3))
def test_one_of_two_decisions_wins_and_the_other_operator_learns_which(
    console: Client, people: People, unknown: Operation, browser_of: Callable[[User], Client], round_: int
) -> None:
    Membership.objects.filter(user=people.second_member).update(role=MemberRole.OPERATOR)
    User.objects.filter(pk=people.second_member.pk).update(is_staff=True)
    other = browser_of(allow(people.second_member))
    sent = {"version": str(unknown.version), "reason": REASON, "again": "14400"}

    def press(browser: Client, name: str) -> Any:
        return browser.post(verb(unknown, name), sent)

    answers = together([partial(press, console, "not-created"), partial(press, other, "keep")])
    assert sorted(answer.status_code for answer in answers) == [302, 409]
    [decision] = OperationAudit.objects.filter(operation_id=unknown.pk, sequence__gt=unknown.version)
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert f"{decision.get_reason_display()} by {decision.actor}" in words(refused)
    assert LogEntry.objects.count() == 1
