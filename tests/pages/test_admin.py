"""The admin shows everything of one's own workspaces and changes nothing, but for acts with a page and a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import NoReverseMatch, reverse

from forkhost.models import ApiToken, SignInLink
from operations.choices import OperationStatus
from operations.models import Operation, OperationAudit
from sessions.choices import ForkContract
from sessions.models import SessionAudit, Workspace
from tests.conftest import People
from tests.operations.support import World
from tests.pages.support import html, links, words
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


# --------------------------------------------------------------------------------------------------------------------
# The unknown queue


@pytest.fixture
def unknown(world: World) -> Operation:
    """A fork whose answer was lost."""
    world.agent.script("lose_answer")
    return world.fork()


def settle_page(operation: Operation) -> str:
    """Where it is settled."""
    return reverse("admin:operations_operation_settle", args=[operation.pk])


def settle(operator: Client, operation: Operation, verb: str, **fields: Any) -> Any:
    """Press the button."""
    values = {"verb": verb, "reason": "Looked at the folder.", "version": operation.version, **fields}
    return operator.post(settle_page(operation), values, follow=True)


def test_what_needs_a_person_is_listed_first_and_counted_in_the_header(operator: Client, unknown: Operation) -> None:
    page = operator.get(page_of(Operation, "changelist"))
    assert page_of(Operation, "change", unknown.pk) in [link.split("?")[0] for link in links(page)]
    assert "1 unknown fork" in words(page)
    assert "unknown for 0 h 0 min" in words(page)


def test_what_needs_nobody_is_not_in_the_queue(operator: Client, world: World) -> None:
    operation = world.fork()
    address = page_of(Operation, "change", operation.pk)
    queue = operator.get(page_of(Operation, "changelist"))
    assert address not in [link.split("?")[0] for link in links(queue)]
    everything = operator.get(page_of(Operation, "changelist"), {"show": "all"})
    assert address in [link.split("?")[0] for link in links(everything)]


def test_an_operations_page_shows_its_audit_trail(operator: Client, unknown: Operation) -> None:
    page = words(operator.get(page_of(Operation, "change", unknown.pk)))
    for act in ("Prepared", "Dispatching", "Unknown"):
        assert f'"act": "{act}"' in page


def test_there_is_no_way_to_send_it_again(operator: Client, unknown: Operation) -> None:
    page = words(operator.get(settle_page(unknown))).lower()
    assert "look again" in page
    for phrase in ("send again", "retry", "re-queue"):
        assert phrase not in page


def test_confirming_that_nothing_was_created_makes_it_failed_with_the_reason_kept(
    operator: Client, unknown: Operation
) -> None:
    assert "counts as failed" in words(settle(operator, unknown, "not_created"))
    unknown.refresh_from_db()
    assert unknown.status == OperationStatus.FAILED
    audit = OperationAudit.objects.filter(operation_id=unknown.pk).last()
    assert audit is not None
    assert (audit.actor, audit.detail["reason"]) == ("user:operator", "Looked at the folder.")


def test_a_child_that_a_look_up_verified_can_be_adopted(operator: Client, world: World, unknown: Operation) -> None:
    assert "Adopt the child" not in words(operator.get(settle_page(unknown)))
    world.agent.configure(identity_mode="search")
    child = world.agent.children[0]["id"]
    from operations.models import Evidence

    Evidence.objects.create(
        operation_id=unknown.pk,
        dispatch_token=unknown.dispatch_token,
        at=unknown.prepared_at,
        method="lookup",
        detail={"verified": {child: _accepted_json(child)}},
    )
    assert "Adopt the child" in words(operator.get(settle_page(unknown)))
    settle(operator, unknown, "adopt", child=child)
    unknown.refresh_from_db()
    assert unknown.status == OperationStatus.PROVIDER_ACCEPTED
    assert unknown.child_provider_session_id == child
    assert len(world.agent.calls) == 1


def test_a_child_has_to_be_chosen_to_be_adopted(operator: Client, unknown: Operation) -> None:
    response = settle(operator, unknown, "adopt")
    assert response.status_code == 200
    unknown.refresh_from_db()
    assert unknown.status == OperationStatus.UNKNOWN


def test_a_reason_is_required(operator: Client, unknown: Operation) -> None:
    assert "This field is required." in words(settle(operator, unknown, "not_created", reason="  "))
    unknown.refresh_from_db()
    assert unknown.status == OperationStatus.UNKNOWN


def test_the_second_of_two_operators_is_told_what_the_first_did(operator: Client, unknown: Operation) -> None:
    seen = unknown.version
    settle(operator, unknown, "keep")
    late = words(settle(operator, unknown, "not_created", version=seen))
    assert "The operation changed since you looked at it, and nothing was done." in late
    unknown.refresh_from_db()
    assert unknown.status == OperationStatus.UNKNOWN


def test_settling_one_leaves_all_others_as_they_were(operator: Client, world: World) -> None:
    world.agent.script("lose", "lose")
    one, other = world.fork(), world.fork()
    before = Operation.objects.filter(pk=other.pk).values().get()
    settle(operator, one, "not_created")
    assert Operation.objects.filter(pk=other.pk).values().get() == before


def test_only_operators_settle(world: World, unknown: Operation, people: People) -> None:
    people.member.is_staff = True
    people.member.save()
    reader = Client()
    reader.force_login(people.member)
    assert reader.get(settle_page(unknown)).status_code == 404


def test_what_is_not_unknown_cannot_be_settled(operator: Client, world: World) -> None:
    assert operator.get(settle_page(world.fork())).status_code == 404


# --------------------------------------------------------------------------------------------------------------------
# The switches of a workspace


def test_an_operator_switches_forks_off_and_the_contract_with_a_reason(operator: Client, people: People) -> None:
    address = reverse("admin:agent_sessions_workspace_switch", args=[people.workspace.pk])
    assert operator.get(address).status_code == 200
    operator.post(address, {"fork_contract": "strict", "reason": "Audit week"})
    workspace = Workspace.objects.get(pk=people.workspace.pk)
    assert (workspace.forks_enabled, workspace.fork_contract) == (False, ForkContract.STRICT)
    kept = SessionAudit.objects.filter(workspace_id=workspace.pk)
    assert {row.action for row in kept} == {"forks_switch", "contract_switch"}
    assert {row.detail["reason"] for row in kept} == {"Audit week"}


def test_a_switch_that_changes_nothing_is_not_recorded(operator: Client, people: People) -> None:
    address = reverse("admin:agent_sessions_workspace_switch", args=[people.workspace.pk])
    operator.post(address, {"forks_enabled": "on", "fork_contract": "optimistic", "reason": "No change"})
    assert not SessionAudit.objects.exists()


def test_events_have_no_admin_page_of_their_own() -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:agent_sessions_event_changelist")


def _accepted_json(child: str) -> dict[str, Any]:
    from operations import handover
    from sessions.providers.base import ForkAccepted, TurnBinding, TurnMapping

    turn = TurnBinding("turn-3")
    receipt = {"childProviderSessionId": child, "path": "", "verified": ["exists"]}
    return handover.accepted_to_json(ForkAccepted(child, [TurnMapping("turn-3", turn)], True, receipt, None))
