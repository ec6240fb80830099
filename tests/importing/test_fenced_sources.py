"""While a strict fork needs its source unchanged, the importer waits, and catches up on release."""

from __future__ import annotations

import uuid

from forkhost.kit import clock
from sessions import store
from sessions.choices import SyncState
from sessions.models import Home, SessionSync
from tests.importing.conftest import Desk, only_session, sessions_of, texts
from tests.importing.told import Told, ToldAdapter, turn


def test_a_fenced_source_is_deferred_and_catches_up(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    operation_id = uuid.uuid4()
    assert store.set_fence(only_session(told_home).pk, operation_id)
    one.grow(*turn(2))
    one.facts["settings"] = {"model": "another"}
    desk.scan(told_home)
    deferred = desk.read_one()
    assert deferred is not None
    assert deferred.sync.state == SyncState.DEFERRED
    assert texts(deferred) == ["prompt 1", "answer 1"]
    assert deferred.settings == {}
    assert deferred.sync.next_run_at is not None, "it is tried again soon"
    assert store.release_fence(deferred.pk, operation_id)
    SessionSync.objects.update(next_run_at=clock.database_now(-1.0))
    caught_up = desk.read_one()
    assert caught_up is not None
    assert caught_up.sync.state == SyncState.IMPORTED
    assert texts(caught_up) == ["prompt 1", "answer 1", "prompt 2", "answer 2"]


def test_a_tombstoned_session_takes_nothing_until_it_is_restored(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    store.tombstone(only_session(told_home).pk)
    one.grow(*turn(2))
    desk.bring_in(told_home)
    assert texts(only_session(told_home)) == ["prompt 1", "answer 1"]
    store.restore(only_session(told_home).pk)
    SessionSync.objects.update(next_run_at=clock.database_now(-1.0))
    desk.read_all()
    assert texts(only_session(told_home)) == ["prompt 1", "answer 1", "prompt 2", "answer 2"]
