"""``manage.py token``: the token alone on standard output, and it works."""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from forkhost.kit.clock import HeldClock
from forkhost.kit.scopes import Scope
from forkhost.models import ApiToken
from sessions.models import Workspace


def token(*arguments: str) -> str:
    output = StringIO()
    call_command("token", *arguments, stdout=output)
    return output.getvalue()


def test_a_new_user_gets_a_token_and_joins_the_default_workspace(db: None) -> None:
    printed = token("ada", "--create")
    assert printed.count("\n") == 1
    redeemed = ApiToken.redeem(printed.strip())
    assert redeemed is not None
    assert redeemed.user.username == "ada"
    assert [scope for scope in Scope if redeemed.holds(scope)] == list(Scope)
    assert list(Workspace.objects.visible_to(redeemed.user).values_list("slug", flat=True)) == ["default"]
    assert not redeemed.user.has_usable_password()


def test_an_existing_user_keeps_its_workspaces(db: None) -> None:
    User.objects.create_user("ada")
    redeemed = ApiToken.redeem(token("ada", "--create").strip())
    assert redeemed is not None
    assert not Workspace.objects.visible_to(redeemed.user).exists()


def test_scopes_and_an_end_can_be_given(db: None, held_clock: HeldClock) -> None:
    secret = token("ada", "--create", "--scopes", "read", "fork", "--days", "2", "--name", "ci").strip()
    redeemed = ApiToken.redeem(secret)
    assert redeemed is not None
    assert (redeemed.scopes, redeemed.name) == (["read", "fork"], "ci")
    held_clock.advance(dt.timedelta(days=2, seconds=1).total_seconds())
    assert ApiToken.redeem(secret) is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody"], "There is no user 'nobody'. Add --create to make one."),
        (["ada", "--days", "0"], "--days has to be at least 1."),
        (["ada", "--scopes", "everything"], "invalid choice"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(db: None, arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError) as refusal:
        token(*arguments)
    assert sentence in str(refusal.value)
    assert not ApiToken.objects.exists()


def test_an_inactive_user_gets_none(db: None) -> None:
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(CommandError, match="is not active"):
        token("gone")
