"""A worker that claimed a fork, stood still, and goes on after others have finished it."""

from __future__ import annotations

import pytest

from operations import dispatch, recovery
from operations.choices import OperationStatus
from operations.models import Operation
from tests.operations.support import ACTOR, LEASE_SECONDS, World, acts

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("binding_mode", ["host_copy", "provider_owned"])
def test_it_does_nothing_to_a_fork_that_is_committed(world: World, binding_mode: str) -> None:
    world.agent.configure(binding_mode=binding_mode)
    world.attest()
    operation = world.prepare()
    lease = world.claim()
    assert lease is not None
    Operation.objects.filter(pk=operation.pk).update(lease_until=operation.prepared_at)
    recovery.sweep()
    world.work(operation)
    before = (operation.status, acts(operation))
    dispatch.work(lease, actor=ACTOR, lease_seconds=LEASE_SECONDS)
    operation.refresh_from_db()
    assert (operation.status, acts(operation)) == before
    assert operation.status == OperationStatus.COMMITTED
    assert len(world.agent.calls) == 1
