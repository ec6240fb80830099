"""The database itself refuses an operation that is not what its state says, whoever writes it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from operations.choices import MOVES, Act, OperationStatus
from operations.models import Operation, OperationAudit, RequestAlias
from operations.saga.moves import IllegalMove, act
from tests.operations.support import World

pytestmark = pytest.mark.django_db

S = OperationStatus
NOW = timezone.now()
SENT: dict[str, Any] = {"calls": 1, "dispatched_at": NOW}
ACCEPTED = {**SENT, "child_provider_session_id": "c", "target_mapping": [], "receipt": {}, "accepted_at": NOW}
COMMITTED = {**ACCEPTED, "target_seq": 1, "completed_at": NOW, "result_session": {}, "next_run_at": None}
UNKNOWN = {**SENT, "error_code": "no_answer", "unknown_since": NOW, "next_run_at": None}
FAILED = {"error_code": "turn_gone", "completed_at": NOW, "next_run_at": None}

# state, columns that make it legal, and one column at a time that makes it illegal.
STATES: list[tuple[S, dict[str, Any], list[dict[str, Any]]]] = [
    (S.PREPARED, {}, [{"calls": 1}, {**SENT, "token": True}, {"accepted_at": NOW}, {"next_run_at": None}]),
    (S.DISPATCHING, SENT, [{"calls": 0}, {"token": False}, {"dispatched_at": None}, {"next_run_at": None}]),
    (
        S.PROVIDER_ACCEPTED,
        ACCEPTED,
        [
            {"child_provider_session_id": ""},
            {"target_mapping": None},
            {"receipt": None},
            {"accepted_at": None},
            {"next_run_at": None},
            {"calls": 2},
        ],
    ),
    (
        S.COMMITTED,
        COMMITTED,
        [{"target_seq": None}, {"completed_at": None}, {"result_session": None}, {"receipt": None}],
    ),
    (S.FAILED, FAILED, [{"error_code": ""}, {"completed_at": None}, {"observed_at": NOW}]),
    (S.UNKNOWN, UNKNOWN, [{"error_code": ""}, {"unknown_since": None}, {"observed_at": NOW}]),
]
ILLEGAL = [(state, legal, illegal) for state, legal, each in STATES for illegal in each]


def write(operation: Operation, state: S, columns: dict[str, Any]) -> None:
    """Write the row past the saga."""
    values = dict(columns)
    sent = values.pop("token", values.get("calls", 0) > 0)
    with transaction.atomic():
        Operation.objects.filter(pk=operation.pk).update(
            status=state, dispatch_token=uuid.uuid4() if sent else None, **values
        )


@pytest.mark.parametrize(("state", "legal"), [(state, legal) for state, legal, _ in STATES])
def test_each_state_can_be_written_whole(world: World, state: S, legal: dict[str, Any]) -> None:
    write(world.prepare(), state, legal)


@pytest.mark.parametrize(("state", "legal", "illegal"), ILLEGAL)
def test_each_state_is_refused_in_part(world: World, state: S, legal: dict[str, Any], illegal: dict[str, Any]) -> None:
    operation = world.prepare()
    with pytest.raises(IntegrityError):
        write(operation, state, {**legal, **illegal})


@pytest.mark.parametrize("columns", [{"status": "done"}, {"contract": "loose"}, {"unknown_since": NOW}])
def test_values_outside_of_the_closed_lists_are_refused(world: World, columns: dict[str, Any]) -> None:
    operation = world.prepare()
    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.filter(pk=operation.pk).update(**columns)


def test_an_operation_cannot_target_its_own_source(world: World) -> None:
    operation = world.prepare()
    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.filter(pk=operation.pk).update(target_session_id=operation.source_session_id)


def test_unique_indexes_stand_behind_every_race(world: World) -> None:
    first, second = world.prepare(), world.prepare()
    for column in ("request_id", "target_session_id"):
        with pytest.raises(IntegrityError), transaction.atomic():
            Operation.objects.filter(pk=second.pk).update(**{column: getattr(first, column)})
    with pytest.raises(IntegrityError), transaction.atomic():
        RequestAlias.objects.filter(operation_id=second.pk).update(request_id=first.request_id)
    write(first, S.PROVIDER_ACCEPTED, ACCEPTED)
    with pytest.raises(IntegrityError):
        write(second, S.PROVIDER_ACCEPTED, ACCEPTED)


def test_one_strict_operation_stands_for_a_point(world: World) -> None:
    first, second = world.prepare(), world.prepare()
    Operation.objects.filter(pk=first.pk).update(contract="strict")
    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.filter(pk=second.pk).update(contract="strict")
    write(first, S.FAILED, FAILED)
    Operation.objects.filter(pk=second.pk).update(contract="strict")


@pytest.mark.parametrize(("before", "after"), [(one, other) for one in S for other in S if other not in MOVES[one]])
def test_a_move_that_is_not_drawn_is_refused_before_it_reaches_the_database(world: World, before: S, after: S) -> None:
    operation = world.prepare()
    with pytest.raises(IllegalMove):
        act(operation.pk, {}, {}, why=Act.FAILED, actor="nobody", move=(before, after))
    assert OperationAudit.objects.filter(operation_id=operation.pk).count() == 1
