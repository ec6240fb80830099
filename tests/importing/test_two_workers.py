"""Two workers on one home never double anything."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from django.db import transaction

from forkhost.kit.leases import Lease
from sessions import history, runners, syncing, workspaces
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Family, Home, Session, SessionSync
from tests.importing.conftest import Desk, only_session, sessions_of, texts
from tests.importing.told import Told, ToldAdapter, turn
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk(transactional_db: None, tmp_path: Path) -> Desk:
    return Desk(runners.start(workspaces.default_workspace(), "here"), tmp_path)


def test_two_that_look_at_the_same_moment_list_each_session_once(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    sessions_of(told, told_home).extend(Told(f"s{number}", turn(1)) for number in range(120))
    scanners = [Scanner(told_home, told) for _ in range(3)]  # type: ignore[arg-type]
    together([scanner.scan for scanner in scanners])
    assert Session.objects.count() == SessionSync.objects.count() == 120
    assert Family.objects.filter(sessions__isnull=True).count() == 0


def test_two_that_read_at_the_same_moment_share_the_transcripts(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).extend(Told(f"s{number}", [*turn(1), *turn(2)]) for number in range(20))
    desk.scan(told_home)
    together([desk.read_all, desk.read_all, desk.read_all])
    assert sorted(told.reads) == sorted(f"s{number}" for number in range(20))
    assert {session.turn_count for session in Session.objects.all()} == {2}


def test_a_worker_that_lost_its_lease_writes_nothing_more(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    answers = [f"answer {number}" for number in range(500)]
    sessions_of(told, told_home).append(Told("s", turn(1, *answers)))
    desk.scan(told_home)
    slow = syncing.claim_next(desk.runner.pk, "slow", hurried=False)
    assert slow is not None
    reading, taken = threading.Event(), threading.Event()

    def wait_until_taken(provider_session_id: str) -> None:
        told.before_read = lambda provider_session_id: None
        reading.set()
        assert taken.wait(20)

    told.before_read = wait_until_taken

    def be_slow() -> None:
        import_claimed(slow, lambda: False)

    def be_quick() -> None:
        assert reading.wait(20)
        with transaction.atomic():
            SessionSync.objects.update(lease_until=None)
        quick = syncing.claim_next(desk.runner.pk, "quick", hurried=False)
        assert isinstance(quick, Lease)
        import_claimed(quick, lambda: False)
        taken.set()

    together([be_slow, be_quick])
    session = only_session(told_home)
    assert texts(session) == ["prompt 1", *answers]
    assert session.turn_count == len(history.turns(session)) == 1
    assert session.sync.lease_token is None
