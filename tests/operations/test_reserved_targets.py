"""A target id belongs to one fork or one session, whoever is first, however close."""

from __future__ import annotations

import uuid

import pytest

from operations.models import Operation
from operations.requests import Refused
from sessions import store
from sessions.errors import SessionAlreadyExists
from sessions.models import Session
from tests.operations.support import World
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)


def test_nobody_makes_a_session_with_an_id_that_a_fork_reserved(world: World) -> None:
    operation = world.prepare()

    with pytest.raises(SessionAlreadyExists):
        store.create(workspace=world.workspace, provider="hosted", session_id=operation.target_session_id)

    world.work(operation)
    assert Session.objects.get(pk=operation.target_session_id).fork_operation_id == operation.pk


def test_of_a_session_and_a_fork_that_want_one_id_at_once_exactly_one_gets_it(world: World) -> None:
    for _ in range(5):
        wanted = uuid.uuid4()

        def make(wanted: uuid.UUID = wanted) -> str:
            try:
                store.create(workspace=world.workspace, provider="hosted", session_id=wanted)
            except SessionAlreadyExists:
                return "refused"
            return "made"

        def ask(wanted: uuid.UUID = wanted) -> str:
            try:
                world.prepare(target_session_id=wanted)
            except Refused as refused:
                return refused.code
            return "prepared"

        answers = together([make, ask])

        made = Session.objects.filter(pk=wanted).count()
        prepared = Operation.objects.filter(target_session_id=wanted).count()
        assert made + prepared == 1
        assert answers in (["made", "target_reserved"], ["refused", "prepared"])
