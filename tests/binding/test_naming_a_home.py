"""A workspace may name, for each agent, the home its forks live in; the named home is frozen when a fork is prepared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from sessions import runners, switches
from sessions.models import ForkHome, Home, Session, SessionAudit, TakenId
from sessions.providers.base import BindingMode, HomeRef
from sessions.providers.claude.adapter import ClaudeAdapter
from tests.agents.fake_provider import PROVIDER, FakeProvider
from tests.conftest import People
from tests.operations.support import World

pytestmark = pytest.mark.django_db

S = OperationStatus


def test_without_a_named_home_a_fork_lives_in_its_sources(world: World) -> None:
    operation = world.fork()
    assert operation.target_home_id is None
    assert operation.receipt["bound"]["home"] == str(world.agent.folder)
    assert Session.objects.get(pk=operation.target_session_id).home_id == world.home.pk


def test_a_fork_lives_in_the_home_named_when_it_was_prepared(world: World, other: Home, there: FakeProvider) -> None:
    operation = world.prepare()
    switches.set_fork_home(world.workspace, PROVIDER, None, actor="user:operator", reason="back again")
    world.work(operation)

    assert (operation.status, operation.target_home_id) == (S.COMMITTED, other.pk)
    assert operation.receipt["bound"] == {"home": str(there.folder)}
    child = Session.objects.get(pk=operation.target_session_id)
    assert (child.home_id, child.provider_session_id) == (other.pk, operation.child_provider_session_id)
    assert world.fork().target_home_id is None


def test_a_fork_of_a_session_that_lives_there_already_stays_there(world: World, other: Home) -> None:
    child = Session.objects.get(pk=world.fork().target_session_id)
    runners.attest(other)
    again = world.fork(source_session_id=child.pk)
    assert (again.status, again.home_id, again.target_home_id) == (S.COMMITTED, other.pk, None)


def test_an_agent_that_owns_its_bindings_refuses_before_anything_is_written(world: World, other: Home) -> None:
    world.agent.configure(binding_mode="provider_owned")
    world.attest()
    with pytest.raises(saga.Refused) as refused:
        world.prepare()
    assert (refused.value.code, refused.value.status) == ("bind_unsupported", 409)
    assert not Operation.objects.exists()
    assert not TakenId.objects.exclude(session_id=world.source.pk).exists()
    assert world.agent.calls == []


def test_the_real_claude_says_that_it_owns_its_bindings(tmp_path: Path) -> None:
    attestation = ClaudeAdapter().attest(HomeRef("claude", tmp_path))
    assert attestation.binding_mode is BindingMode.PROVIDER_OWNED


def test_a_home_on_another_machine_is_refused(world: World) -> None:
    elsewhere = runners.start(world.workspace, "elsewhere")
    home = Home.objects.create(runner=elsewhere, provider=PROVIDER, path="/there", queue=str(elsewhere.pk))
    switches.set_fork_home(world.workspace, PROVIDER, home, actor="user:operator", reason="a try")
    with pytest.raises(saga.Refused) as refused:
        world.prepare()
    assert refused.value.code == "bind_unsupported"
    assert not Operation.objects.exists()


def test_a_named_home_that_is_gone_fails_the_fork_before_anything_is_sent(world: World, other: Home) -> None:
    operation = world.prepare()
    shutil.rmtree(other.path)
    world.work(operation)
    assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, "home_missing", 0)
    assert world.agent.calls == []


def test_the_page_that_asks_for_a_fork_says_why_there_can_be_none(
    world: World, other: Home, people: People, client: Client
) -> None:
    world.agent.configure(binding_mode="provider_owned")
    world.attest()
    client.force_login(people.member)
    page = client.get(reverse("operations:new_fork", args=[world.source.pk]), {"latest": "1"})
    assert other.path in page.content.decode()


def test_the_switch_is_audited_with_its_reason_and_only_operators_turn_it(
    world: World, other: Home, people: People, client: Client
) -> None:
    address = reverse("admin:agent_sessions_workspace_fork_home", args=[world.workspace.pk])
    people.second_member.is_staff = True
    people.second_member.save()
    client.force_login(people.second_member)
    assert client.post(address, {"provider": PROVIDER, "home": "", "reason": "mine"}).status_code == 404
    assert ForkHome.objects.filter(home=other).exists()

    client.force_login(people.operator)
    assert other.path in client.get(address).content.decode()
    assert client.post(address, {"provider": PROVIDER, "home": "", "reason": ""}).status_code == 200
    assert client.post(address, {"provider": PROVIDER, "home": "", "reason": "enough"}).status_code == 302
    assert not ForkHome.objects.exists()
    last = SessionAudit.objects.filter(action="fork_home_set").order_by("-at")[0]
    assert (last.actor, last.detail["reason"], last.detail["home"]) == ("user:operator", "enough", "")
    assert client.post(address, {"provider": PROVIDER, "home": other.pk, "reason": "again"}).status_code == 302
    assert ForkHome.objects.get().home_id == other.pk


def test_a_home_of_another_agent_or_workspace_cannot_be_named(world: World, people: People) -> None:
    stranger = runners.start(people.other_workspace, "theirs")
    theirs = Home.objects.create(runner=stranger, provider=PROVIDER, path="/theirs", queue=str(stranger.pk))
    for provider, home in ((PROVIDER, theirs), ("another", world.home)):
        with pytest.raises(ValueError, match="is no home of"):
            switches.set_fork_home(world.workspace, provider, home, actor="user:operator", reason="no")
    assert not ForkHome.objects.exists()
