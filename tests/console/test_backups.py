"""A backup taken while forkhost runs can be put back, and does not send again what was sent since."""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.core.management import call_command

from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from operations.models import Operation
from tests.operations.support import World, acts

S = OperationStatus


@pytest.mark.django_db(transaction=True)
def test_what_waited_in_the_backup_is_looked_up_and_not_sent(world: World, held_clock: HeldClock) -> None:
    claimed = world.prepare()
    assert world.claim() is not None
    waiting = world.prepare()
    said = StringIO()
    call_command("after_restore", stdout=said)
    assert said.getvalue().startswith("2 waiting forks will be looked up")
    for operation in (claimed, waiting):
        operation.refresh_from_db()
        assert (operation.status, operation.error_code) == (S.UNKNOWN, "restored_from_backup")
    held_clock.advance(60)
    world.work()
    world.work()
    for operation in (claimed, waiting):
        operation.refresh_from_db()
        assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    assert world.agent.calls == []


@pytest.mark.django_db(transaction=True)
def test_one_that_was_sent_after_the_backup_is_found_and_adopted(world: World, held_clock: HeldClock) -> None:
    operation = world.prepare()
    backup = Operation.objects.filter(pk=operation.pk).values().get()
    # What the lost days did: the agent made the child, which the backup does not know.
    world.agent.add_child(
        source=operation.source_provider_session_id,
        turn=operation.source_provider_turn_id,
        marker=f"forkhost:{operation.pk}",
    )
    assert Operation.objects.filter(pk=operation.pk).values().get() == backup
    call_command("after_restore", stdout=StringIO())
    held_clock.advance(60)
    world.work()
    world.work(operation)
    assert operation.status == S.COMMITTED
    assert acts(operation) == ["prepared", "dispatching", "unknown", "adopted", "committed"]
    assert world.agent.calls == []
    assert operation.completed_at is not None
    assert operation.completed_at - operation.prepared_at >= dt.timedelta(seconds=60)
