"""The admin shows everything of one's own workspaces and changes nothing, but for acts with a page and a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import NoReverseMatch, reverse

from forkhost.models import ApiToken, SignInLink
from operations.models import Operation
from tests.conftest import People
from tests.operations.support import World
from tests.pages.support import html
from tests.pages.test_hostile_transcripts import MARKDOWN, SCRIPT, hostile

if TYPE_CHECKING:
    from django.contrib.auth.models import User

OURS = ("agent_sessions", "operations", "forkhost")
MODELS = [model for model in admin.site._registry if model._meta.app_label in OURS]


@pytest.fixture
def operator(people: People, browser_of: Callable[[User], Client]) -> Client:
    """The operator's browser."""
    return browser_of(people.operator)


def page_of(model: Any, kind: str, *arguments: Any) -> str:
    """An admin address."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}", args=arguments)


@pytest.fixture
def everything(world: World, people: People) -> None:
    """At least one row of most models, hostile text included."""
    world.agent.script("accept", "lose")
    world.fork()
    world.fork()
    hostile(people, SCRIPT + MARKDOWN)
    ApiToken.issue(people.operator)
    SignInLink.issue(people.operator)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_model_can_be_looked_at_and_none_can_be_changed(operator: Client, people: People, model: Any) -> None:
    rows = admin.site._registry[model].visible(model._default_manager.all(), people.operator)  # type: ignore[attr-defined]
    before = rows.count()
    listed = operator.get(page_of(model, "changelist"), {"show": "all"} if model is Operation else None)
    assert listed.status_code == 200
    assert operator.get(page_of(model, "add")).status_code == 403
    for row in rows[:3]:
        page = operator.get(page_of(model, "change", row.pk))
        assert page.status_code == 200
        assert "<script>window" not in html(page)
        assert 'name="_save"' not in html(page)
        assert operator.post(page_of(model, "change", row.pk), {}).status_code == 403
        assert operator.post(page_of(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    operator.post(
        page_of(model, "changelist"), {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    )
    assert rows.count() == before


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_staff_of_another_workspace_see_nothing_of_it_superusers_included(
    people: People, browser_of: Callable[[User], Client], model: Any
) -> None:
    people.stranger.is_staff = people.stranger.is_superuser = True
    people.stranger.save()
    reader = browser_of(people.stranger)
    assert reader.get(page_of(model, "changelist"), {"show": "all"} if model is Operation else None).status_code == 200
    of_people = model._meta.label in ("agent_sessions.Workspace", "agent_sessions.Membership", "forkhost.ApiToken")
    if model is SignInLink or of_people:
        return
    for row in model._default_manager.all()[:3]:
        assert reader.get(page_of(model, "change", row.pk)).status_code == 302


def test_members_who_are_no_staff_have_no_admin(reader: Client) -> None:
    assert reader.get(reverse("admin:index")).status_code == 302


def test_no_secret_and_no_digest_is_shown(operator: Client, people: People) -> None:
    secret = ApiToken.issue(people.operator)
    token = ApiToken.objects.get()
    page = html(operator.get(page_of(ApiToken, "change", token.pk)))
    assert secret not in page
    assert token.digest not in page


def test_events_have_no_admin_page_of_their_own() -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:agent_sessions_event_changelist")
