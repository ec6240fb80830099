"""What was imported stays readable when the transcript, the home or the adapter is gone."""

from __future__ import annotations

import pytest

from sessions import capabilities, runners
from sessions.choices import SyncState
from sessions.models import Home, SessionSync
from sessions.providers import registry
from sessions.providers.base import ReadDamage
from sessions.worker import HomeWatch
from tests.importing.conftest import Desk, only_session, sessions_of, texts
from tests.importing.told import Told, ToldAdapter, turn


@pytest.fixture
def one(desk: Desk, told: ToldAdapter, told_home: Home) -> Told:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    return one


def test_a_missing_transcript_is_noticed_and_leaves_the_session_readable(
    desk: Desk, told: ToldAdapter, told_home: Home, one: Told
) -> None:
    told.missing.add("s")
    assert desk.scanner(told_home).note_missing() == 1
    session = only_session(told_home)
    assert (session.sync.state, session.sync.problem_code) == (SyncState.MISSING, "source_transcript_missing")
    assert texts(session) == ["prompt 1", "answer 1"]
    runners.attest(told_home)
    session = only_session(told_home)
    assert capabilities.session_capability(session).reason == "source_transcript_missing"


def test_a_transcript_that_goes_while_it_is_to_be_read_is_missing_at_once(
    desk: Desk, told: ToldAdapter, told_home: Home, one: Told
) -> None:
    one.grow(*turn(2))
    desk.scan(told_home)
    told.missing.add("s")
    desk.read_all()
    assert only_session(told_home).sync.state == SyncState.MISSING
    assert desk.read_one() is None


def test_a_transcript_that_comes_back_is_read_on(desk: Desk, told: ToldAdapter, told_home: Home, one: Told) -> None:
    told.missing.add("s")
    scanner = desk.scanner(told_home)
    scanner.note_missing()
    told.missing.clear()
    one.grow(*turn(2))
    scanner.scan()
    desk.read_all()
    session = only_session(told_home)
    assert (session.sync.state, session.sync.problem_code, session.turn_count) == (SyncState.IMPORTED, "", 2)


def test_damaged_lines_are_counted_and_the_first_hundred_are_named(
    desk: Desk, told: ToldAdapter, told_home: Home, one: Told
) -> None:
    one.grow(*(ReadDamage(line, "not_json") for line in range(1, 151)), *turn(2))
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert (session.sync.damage_count, len(session.sync.damage)) == (150, 100)
    assert session.sync.damage[0] == {"line": 1, "reason": "not_json"}
    assert session.turn_count == 2
    assert capabilities.session_facts(session).damaged


def test_a_home_that_is_gone_says_so_and_recovers(desk: Desk, told: ToldAdapter, told_home: Home, one: Told) -> None:
    watch = HomeWatch(told_home)
    kept = told.homes.copy()
    told.homes.clear()
    watch.look()
    told_home.refresh_from_db()
    assert (told_home.problem_code, told_home.problem_text) == ("home_missing", "The home is gone.")
    told.homes.update(kept)
    watch.look()
    told_home.refresh_from_db()
    assert told_home.problem_code == ""
    assert told_home.scanned_at is not None


def test_an_adapter_that_fails_is_tried_again_later_and_later(
    desk: Desk, told: ToldAdapter, told_home: Home, one: Told
) -> None:
    one.grow(*turn(2))
    one.stops_after = 5
    desk.scan(told_home)
    session = desk.read_one()
    assert session is not None
    assert (session.sync.state, session.sync.problem_text) == (SyncState.FAILED, "The import failed: RuntimeError.")
    assert session.sync.next_run_at is not None
    assert desk.read_one() is None
    assert texts(only_session(told_home)) == ["prompt 1", "answer 1"]


def test_without_its_adapter_a_session_stays_and_says_what_is_missing(
    desk: Desk, told_home: Home, one: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.grow(*turn(2))
    desk.scan(told_home)
    monkeypatch.setattr(registry, "adapters", dict)
    session = desk.read_one()
    assert session is not None
    assert (session.sync.state, session.sync.problem_code) == (SyncState.FAILED, "adapter_missing")
    assert capabilities.session_capability(session).reason == "adapter_missing"
    assert SessionSync.objects.count() == 1
