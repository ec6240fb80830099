"""What judges the fault tests sees each way in which a fork could be lost, doubled or wrong."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from forkhost.kit import clock
from operations import dispatch, saga, worker
from operations.models import Operation, OperationAudit
from sessions.choices import ForkContract
from sessions.models import Lineage, Session
from tests.faults.deeds import request_of
from tests.faults.invariants import Before, check
from tests.faults.places import FakeAgent, Place, fake_place

pytestmark = pytest.mark.django_db(transaction=True)


def lose(place: Place) -> None:
    Operation.objects.all().delete()


def leave_on_its_way(place: Place) -> None:
    saga.prepare(request_of(place.request(place.sources[0])))


def call_twice(place: Place) -> None:
    calls = fake(place).folder / "calls"
    shutil.copyfile(calls / "0.json", calls / "1.json")


def make_two_children(place: Place) -> None:
    (child,) = fake(place).fake.children
    fake(place).fake.add_child(source=child["source"], turn=child["turn"], marker=child["marker"])


def make_a_child_for_nobody(place: Place) -> None:
    fake(place).fake.add_child(source="source", turn="turn-1", marker="")


def forget_the_child(place: Place) -> None:
    for path in (fake(place).folder / "children").iterdir():
        path.unlink()


def go_back(place: Place) -> None:
    operation = Operation.objects.get()
    OperationAudit.objects.create(
        operation_id=operation.pk,
        sequence=operation.version + 1,
        at=clock.now(),
        from_status="committed",
        to_status="dispatching",
        actor="nobody",
        reason="dispatching",
        detail={},
    )
    Operation.objects.update(version=operation.version + 1)


def forget_where_from(place: Place) -> None:
    Lineage.objects.all().delete()


def stay_fenced(place: Place) -> None:
    Session.objects.filter(pk=place.sources[0].pk).update(write_fence=uuid.uuid4())


def fake(place: Place) -> FakeAgent:
    assert isinstance(place.agent, FakeAgent)
    return place.agent


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (lambda place: None, ""),
        (lose, "lost"),
        (leave_on_its_way, "wrong"),
        (call_twice, "doubled"),
        (make_two_children, "doubled"),
        (make_a_child_for_nobody, "wrong"),
        (forget_the_child, "wrong"),
        (go_back, "doubled"),
        (forget_where_from, "doubled"),
        (stay_fenced, "wrong"),
    ],
)
def test_every_harm_is_seen(harm: Callable[[Place], None], kind: str, chance: random.Random, tmp_path: Path) -> None:
    place = fake_place(tmp_path / "home", ForkContract.OPTIMISTIC, 1, chance)
    fake(place).fake.configure(script=[])
    before = Before.of(place)
    request = place.request(place.sources[0])
    saga.prepare(request_of(request))
    lease = worker.claim_next(place.runner, "worker:test", 60.0)
    assert lease is not None
    dispatch.work(lease, actor="worker:test", lease_seconds=60.0)
    harm(place)
    found = check(place, [request], before)
    assert found.clean == (not kind)
    if kind:
        assert getattr(found, kind), found
