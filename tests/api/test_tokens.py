"""Tokens and sign-in links: what is kept, how long they live, how often they work."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest
from django.core import serializers
from django.db import OperationalError
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from forkhost.kit.scopes import Scope
from forkhost.models import LAST_USED_PRECISION, SIGN_IN_LINK_LIFETIME, ApiToken, SignInLink
from tests.threads import together

if TYPE_CHECKING:
    from forkhost.kit.clock import HeldClock
    from tests.conftest import People


def test_the_secret_is_nowhere_in_the_row(people: People) -> None:
    secret = ApiToken.issue(people.member, name="ci")
    row = serializers.serialize("json", ApiToken.objects.all())
    assert secret.startswith("fh_")
    assert secret not in row
    assert json.loads(row)[0]["fields"]["prefix"] == secret[:10]


def test_a_token_finds_its_user_and_scopes(people: People) -> None:
    secret = ApiToken.issue(people.member, scopes=["fork", "read"])
    token = ApiToken.redeem(secret)
    assert token is not None
    assert token.user == people.member
    assert token.holds(Scope.READ)
    assert not token.holds(Scope.OPERATE)
    assert token.scopes == ["read", "fork"]


def test_an_unknown_scope_makes_no_token(people: People) -> None:
    with pytest.raises(ValueError, match="'admin'"):
        ApiToken.issue(people.member, scopes=["read", "admin"])
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("secret", ["", "fh_", "fh_wrong", "\ud800", "x" * 10_000])
def test_anything_else_finds_nobody(people: People, secret: str) -> None:
    ApiToken.issue(people.member)
    assert ApiToken.redeem(secret) is None


def test_a_token_ends_at_its_time(people: People, held_clock: HeldClock) -> None:
    secret = ApiToken.issue(people.member, lifetime=dt.timedelta(hours=1))
    held_clock.advance(3599)
    assert ApiToken.redeem(secret) is not None
    held_clock.advance(1)
    assert ApiToken.redeem(secret) is None


def test_a_revoked_token_and_one_of_an_inactive_user_find_nobody(people: People) -> None:
    secret = ApiToken.issue(people.member)
    token = ApiToken.objects.get()
    assert token.revoke()
    assert not token.revoke()
    assert ApiToken.redeem(secret) is None
    other = ApiToken.issue(people.second_member)
    people.second_member.is_active = False
    people.second_member.save()
    assert ApiToken.redeem(other) is None


def test_use_is_noted_at_most_every_five_minutes(people: People, held_clock: HeldClock) -> None:
    from django.db import connection

    secret = ApiToken.issue(people.member)
    ApiToken.redeem(secret)
    assert ApiToken.objects.get().last_used_at == held_clock.at
    held_clock.advance(LAST_USED_PRECISION.total_seconds() - 1)
    with CaptureQueriesContext(connection) as queries:
        ApiToken.redeem(secret)
    assert len(queries) == 1
    held_clock.advance(1)
    ApiToken.redeem(secret)
    assert ApiToken.objects.get().last_used_at == held_clock.at


def test_a_busy_database_keeps_nobody_out(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*args: object, **more: object) -> int:
        raise OperationalError("database is locked")

    secret = ApiToken.issue(people.member)
    monkeypatch.setattr(QuerySet, "update", busy)
    assert ApiToken.redeem(secret) is not None


def test_a_sign_in_link_works_once(people: People) -> None:
    secret = SignInLink.issue(people.member)
    assert secret not in serializers.serialize("json", SignInLink.objects.all())
    assert SignInLink.redeem(secret) == people.member
    assert SignInLink.redeem(secret) is None
    assert SignInLink.redeem("") is None


def test_a_sign_in_link_ends(people: People, held_clock: HeldClock) -> None:
    secret = SignInLink.issue(people.member)
    held_clock.advance(SIGN_IN_LINK_LIFETIME.total_seconds())
    assert SignInLink.redeem(secret) is None


def test_a_sign_in_link_lets_no_inactive_user_in(people: People) -> None:
    secret = SignInLink.issue(people.member)
    people.member.is_active = False
    people.member.save()
    assert SignInLink.redeem(secret) is None


@pytest.mark.django_db(transaction=True)
def test_many_at_once_redeem_a_sign_in_link_once(people: People) -> None:
    secret = SignInLink.issue(people.member)
    found = together([lambda: SignInLink.redeem(secret)] * 8)
    assert [user for user in found if user is not None] == [people.member]
