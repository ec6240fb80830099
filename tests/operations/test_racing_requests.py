"""Many requests at the same moment; unique indexes decide."""

from __future__ import annotations

import uuid
from collections import Counter
from functools import partial

import pytest
from django.db import OperationalError, connection

from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation, RequestAlias
from sessions.choices import ForkContract
from sessions.models import Session
from tests.operations.support import World, acts, through
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 64


def insist(request: saga.PrepareRequest) -> saga.Prepared:
    """What a client does that got no answer, here because SQLite's one writer kept it waiting too long: ask again."""
    for _ in range(20):
        try:
            return saga.prepare(request)
        except OperationalError:
            connection.close()
    return saga.prepare(request)


def test_twenty_identical_requests_make_one_operation_and_one_call(world: World) -> None:
    request = world.request()
    answers = together([partial(saga.prepare, request) for _ in range(20)])
    assert {answer.operation.pk for answer in answers} == {Operation.objects.get().pk}
    assert Counter(answer.replayed for answer in answers) == {False: 1, True: 19}
    together([world.work for _ in range(4)])
    assert Operation.objects.get().status == OperationStatus.COMMITTED
    assert len(world.agent.calls) == 1
    assert len(world.agent.children) == 1


def test_different_requests_for_one_point_make_as_many_forks_with_titles_of_their_own(world: World) -> None:
    requests = [world.request(point=through(world.source, 2)) for _ in range(8)]
    together([partial(saga.prepare, request) for request in requests])
    for _ in requests:
        world.work()
    operations = list(Operation.objects.all())
    assert {operation.status for operation in operations} == {OperationStatus.COMMITTED}
    assert sorted(operation.title for operation in operations) == sorted(f"Fix login ({n})" for n in range(2, 10))
    assert len(world.agent.children) == 8
    assert Session.objects.filter(fork_operation_id__isnull=False).count() == 8


def test_one_request_id_for_two_sources_is_won_by_one(world: World) -> None:
    request_id = str(uuid.uuid4())
    others = [world.new_source() for _ in range(4)]

    def prepare(source: Session) -> str:
        try:
            saga.prepare(world.request(request_id=request_id, source_session_id=source.pk))
        except saga.Refused as refused:
            return refused.code
        return "prepared"

    answers = together([partial(prepare, source) for source in others])
    assert Counter(answers) == {"prepared": 1, "request_conflict": 3}
    assert Operation.objects.count() == RequestAlias.objects.count() == 1


def test_one_target_for_forks_of_two_sources_is_won_by_one(world: World) -> None:
    target = uuid.uuid4()
    others = [world.new_source() for _ in range(4)]

    def prepare(source: Session) -> str:
        try:
            saga.prepare(world.request(target_session_id=target, source_session_id=source.pk))
        except saga.Refused as refused:
            return refused.code
        return "prepared"

    answers = together([partial(prepare, source) for source in others])
    assert Counter(answers) == {"prepared": 1, "target_reserved": 3}


def test_under_the_strict_contract_all_requests_for_a_point_share_one_operation(world: World) -> None:
    world.workspace.fork_contract = ForkContract.STRICT
    world.workspace.save()
    requests = [world.request() for _ in range(8)]
    answers = together([partial(saga.prepare, request) for request in requests])
    operation = Operation.objects.get()
    assert {answer.operation.pk for answer in answers} == {operation.pk}
    assert RequestAlias.objects.filter(operation_id=operation.pk).count() == 8
    assert acts(operation) == ["prepared", *["replayed"] * 7]


def test_two_workers_never_send_one_operation_twice(world: World) -> None:
    for _ in range(6):
        world.prepare()
    together([lambda: [world.work() for _ in range(6)] for _ in range(3)])
    assert Counter(call["operation"] for call in world.agent.calls) == {
        str(pk): 1 for pk in Operation.objects.values_list("pk", flat=True)
    }
    assert len(world.agent.calls) == 6


def test_sixty_four_clients_on_one_request_id_are_answered_with_one_operation(world: World) -> None:
    request = world.request()
    answers = together([partial(insist, request) for _ in range(MANY)], timeout=120)
    assert {answer.operation.pk for answer in answers} == {Operation.objects.get().pk}
    assert Counter(answer.replayed for answer in answers) == {False: 1, True: MANY - 1}
    together([world.work for _ in range(4)])
    assert (len(world.agent.calls), len(world.agent.children)) == (1, 1)


@pytest.mark.parametrize("contract", list(ForkContract))
def test_sixty_four_requests_for_one_boundary(world: World, contract: ForkContract) -> None:
    world.workspace.fork_contract = contract
    world.workspace.save()
    point = through(world.source, 2)
    requests = [world.request(point=point) for _ in range(MANY)]
    together([partial(insist, request) for request in requests], timeout=120)
    expected = 1 if contract == ForkContract.STRICT else MANY
    assert Operation.objects.count() == expected
    together([lambda: [world.work() for _ in range(expected)] for _ in range(2)], timeout=120)
    assert set(Operation.objects.values_list("status", flat=True)) == {OperationStatus.COMMITTED}
    assert Counter(call["operation"] for call in world.agent.calls) == {
        str(pk): 1 for pk in Operation.objects.values_list("pk", flat=True)
    }
    titles = list(Session.objects.filter(fork_operation_id__isnull=False).values_list("title", flat=True))
    assert sorted(titles) == sorted(f"Fix login ({number})" for number in range(2, expected + 2))
    replayed = [saga.prepare(request) for request in requests]
    assert all(answer.replayed for answer in replayed)
    assert len({answer.operation.pk for answer in replayed}) == expected


def test_an_acknowledgement_and_new_forks_of_its_point_are_put_in_order_by_the_database(world: World) -> None:
    world.workspace.fork_contract = ForkContract.STRICT
    world.workspace.save()
    first = world.fork()
    requests = [world.request() for _ in range(8)]
    acknowledged, *answers = together(
        [partial(saga.acknowledge, first.pk, "user:member"), *(partial(saga.prepare, each) for each in requests)]
    )
    assert isinstance(acknowledged, Operation)
    before = [answer for answer in answers if answer.operation.pk == first.pk]
    after = {answer.operation.pk for answer in answers if answer.operation.pk != first.pk}
    assert all(answer.replayed for answer in before)
    # Whoever came after the acknowledgement shares one new fork.
    assert len(after) == (len(before) < len(answers))
    assert Operation.objects.count() == 1 + len(after)
    assert {saga.prepare(each).operation.pk for each in requests} <= {first.pk, *after}
