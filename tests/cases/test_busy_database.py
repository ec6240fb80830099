"""A database that is away for a moment while a fork is being made costs time, and no certainty."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from operations import dispatch
from operations.choices import OperationStatus
from operations.saga import transitions
from tests.operations.support import World


@pytest.mark.parametrize("fact", ["record_process", "record_announced", "accept"])
@pytest.mark.django_db(transaction=True)
def test_a_fact_that_could_not_be_written_at_once_is_written_again_and_the_call_is_made_once(
    world: World, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    write = getattr(transitions, fact)
    asked: list[str] = []

    def busy_twice(*args: Any) -> Any:
        asked.append(fact)
        if len(asked) <= 2:
            raise OperationalError("database is locked")
        return write(*args)

    monkeypatch.setattr(transitions, fact, busy_twice)
    monkeypatch.setattr(dispatch, "WRITE_PAUSES", (0.0, 0.0, 0.0))
    world.agent.script({"do": "accept", "announce": True})
    operation = world.fork()
    assert operation.status == OperationStatus.COMMITTED
    assert len(asked) == 3
    assert len(world.agent.calls) == len(world.agent.children) == 1


@pytest.mark.django_db(transaction=True)
def test_a_database_that_stays_away_before_the_call_means_no_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any) -> Any:
        raise OperationalError("database is locked")

    monkeypatch.setattr(transitions, "record_process", away)
    monkeypatch.setattr(dispatch, "WRITE_PAUSES", (0.0,))
    operation = world.fork()
    assert operation.status == OperationStatus.UNKNOWN
    assert world.agent.calls == []
