"""One time for a process, which a test can hold."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection
from django.db.models import DateTimeField, ExpressionWrapper

from forkhost.kit import clock
from tests.kit.conftest import Job

NOON = dt.datetime(2026, 7, 29, 12, 0, 0, 1999, tzinfo=dt.UTC)


def test_the_time_is_aware_and_agrees_in_both_forms() -> None:
    before, at, after = clock.now_ms(), clock.now(), clock.now_ms()
    assert at.utcoffset() == dt.timedelta(0)
    assert before <= clock.to_ms(at) <= after


def test_a_held_clock_stands_until_it_is_moved_and_then_runs_again() -> None:
    with clock.held(NOON) as held:
        assert clock.now() == NOON
        assert clock.now_ms() == clock.to_ms(NOON)
        held.advance(1.5)
        assert clock.now() == NOON + dt.timedelta(seconds=1.5)
    assert clock.now() != held.at


@pytest.mark.parametrize("at", [NOON, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)])
def test_milliseconds_round_down_and_come_back(at: dt.datetime) -> None:
    back = clock.from_ms(clock.to_ms(at))
    assert dt.timedelta(0) <= at - back < dt.timedelta(milliseconds=1)


def test_the_databases_clock_can_be_stored_moved_and_compared(jobs: type[Job]) -> None:
    job = Job.objects.create()
    Job.objects.update(next_run_at=clock.database_now(90))
    job.refresh_from_db()
    assert job.next_run_at is not None
    assert dt.timedelta(seconds=60) < job.next_run_at - dt.datetime.now(dt.UTC) < dt.timedelta(seconds=120)
    assert Job.objects.filter(next_run_at__gt=clock.database_now(60)).exists()
    assert not Job.objects.filter(next_run_at__gt=clock.database_now(120)).exists()


def test_holding_the_clock_holds_the_databases_too(jobs: type[Job]) -> None:
    Job.objects.create()
    with clock.held(NOON):
        Job.objects.update(next_run_at=clock.database_now(1))
        shown = ExpressionWrapper(clock.database_now(), output_field=DateTimeField())
        assert Job.objects.annotate(at=shown).get().at == NOON, connection.vendor
    assert Job.objects.get().next_run_at == NOON + dt.timedelta(seconds=1)
