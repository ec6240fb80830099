"""Before somebody goes on in a bound child, its runner makes sure that it is readable in its home."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from sessions import runners
from sessions.models import Home, Session
from tests.agents.fake_provider import FakeProvider
from tests.conftest import People
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


def test_opening_a_bound_child_has_its_runner_look_once_a_minute(
    world: World, other: Home, there: FakeProvider, held_clock: HeldClock, client: Client, people: People
) -> None:
    client.force_login(people.member)
    operation = world.fork()
    page = reverse("sessions:detail", args=[operation.target_session_id])
    client.get(page)
    assert world.claim() is None, "it was bound a moment ago"
    held_clock.advance(120)
    there.configure(bind="not_readable")
    client.get(page)
    world.work(operation)
    assert (operation.status, operation.next_run_at, operation.lease_token) == (S.COMMITTED, None, None)
    assert acts(operation)[-1] == "home_not_readable"
    assert "The child cannot be made readable." in client.get(page).content.decode()

    there.configure(bind="")
    held_clock.advance(120)
    client.get(page)
    world.work(operation)
    assert acts(operation)[-1] == "home_not_readable", "that nothing is wrong is not worth a row"
    assert "The child cannot be made readable." not in client.get(page).content.decode()
    assert len(world.agent.calls) == 1


def test_opening_a_fork_that_lives_where_it_was_made_asks_nobody(
    world: World, held_clock: HeldClock, client: Client, people: People
) -> None:
    client.force_login(people.member)
    operation = world.fork()
    held_clock.advance(120)
    client.get(reverse("sessions:detail", args=[operation.target_session_id]))
    assert world.claim() is None


def test_a_bound_child_that_is_not_readable_is_not_forked_further(
    world: World, other: Home, there: FakeProvider
) -> None:
    child = Session.objects.get(pk=world.fork().target_session_id)
    runners.attest(other)
    there.configure(bind="not_readable")
    refused = world.fork(source_session_id=child.pk)
    assert (refused.status, refused.error_code, refused.calls) == (S.FAILED, "binding_failed", 0)
    there.configure(bind="")
    assert world.fork(source_session_id=child.pk).status == S.COMMITTED
