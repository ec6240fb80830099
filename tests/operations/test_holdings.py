"""The importer makes no session of a child whose fork is not settled, and what it found becomes evidence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from operations.choices import EvidenceMethod, OperationStatus
from operations.handover import marker
from operations.models import Evidence, Operation
from sessions import store
from sessions.errors import SessionHeld
from sessions.holdings import held
from sessions.providers.base import DiscoveredSession, HomeRef, SessionRef
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


def found(world: World, child_id: str, **facts: Any) -> DiscoveredSession:
    """A provider session as the importer finds it."""
    ref = SessionRef(HomeRef("fake", world.agent.folder), child_id, None, str(world.agent.folder))
    now = time.time_ns() // 1_000_000
    values: dict[str, Any] = {"created_at_ms": now, "updated_at_ms": now + 60_000, "size": 1, "provider_version": "1"}
    return DiscoveredSession(ref=ref, stamp="1", title="", preview="", **{**values, **facts})


def unsettled(world: World, **config: Any) -> Operation:
    """A fork whose child was made and whose answer was lost."""
    world.agent.configure(**config)
    world.attest()
    world.agent.script({"do": "lose_answer", "announce": config.get("identity_mode") == "announced"})
    return world.fork()


def child_of(world: World) -> str:
    """The newest child's id."""
    return str(world.agent.children[-1]["id"])


def test_a_marked_child_of_an_unknown_fork_is_held_and_looked_up_at_once(world: World) -> None:
    operation = unsettled(world)
    discovered = found(world, child_of(world), fork_operation_id=marker(operation.pk))
    claim = held(world.home.pk, discovered)
    assert claim is not None
    assert claim.operation_id == operation.pk
    assert held(world.home.pk, discovered) is not None
    assert Evidence.objects.get(operation_id=operation.pk).method == EvidenceMethod.IMPORTER
    world.work(operation)
    assert operation.status == S.PROVIDER_ACCEPTED
    world.work(operation)
    assert held(world.home.pk, discovered) is None


def test_an_announced_child_is_held(world: World) -> None:
    operation = unsettled(world, identity_mode="announced")
    claim = held(world.home.pk, found(world, operation.announced_child_id))
    assert claim is not None
    assert claim.operation_id == operation.pk


def test_in_search_mode_new_children_of_the_source_wait(world: World) -> None:
    operation = unsettled(world, identity_mode="search")
    source = operation.source_provider_session_id
    assert held(world.home.pk, found(world, "new", observed_parent_id=source)) is not None
    assert held(world.home.pk, found(world, "old", observed_parent_id=source, updated_at_ms=1)) is None
    assert held(world.home.pk, found(world, "other", observed_parent_id="somebody")) is None


def test_a_session_that_has_nothing_to_do_with_a_fork_is_not_held(world: World) -> None:
    unsettled(world)
    assert (
        held(world.home.pk, found(world, "stranger", observed_parent_id=str(world.source.provider_session_id))) is None
    )
    assert held(world.home.pk, found(world, "stranger", fork_operation_id="forkhost:nonsense")) is None


def test_a_marked_child_contradicts_a_failed_fork_and_becomes_a_session(world: World) -> None:
    world.agent.script("reject")
    operation = world.fork()
    discovered = found(world, "surprise", fork_operation_id=marker(operation.pk))
    assert held(world.home.pk, discovered) is None
    operation.refresh_from_db()
    assert (operation.status, operation.needs_person) == (S.FAILED, True)
    assert Evidence.objects.get(operation_id=operation.pk).contradicts
    assert acts(operation)[-1] == "contradicted"


def test_a_purge_waits_for_a_fork_on_its_way(world: World) -> None:
    operation = world.prepare()
    store.tombstone(world.source.pk, actor="user:member")
    with pytest.raises(SessionHeld):
        store.purge(world.source.pk, actor="user:member")
    world.work(operation)
    store.purge(world.source.pk, actor="user:member")
    assert operation.status == S.COMMITTED
