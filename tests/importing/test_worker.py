"""The worker's loops: what an agent does in a terminal is here within seconds, and nothing ends them but a stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forkhost.kit.stopping import StopFlag
from sessions import history, runners, workspaces
from sessions.models import Home, Runner, Session, SessionSync
from sessions.worker import SessionWorker
from tests.importing.conftest import Desk
from tests.importing.told import ATTESTATION, PROVIDER, Told, ToldAdapter, turn

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk(transactional_db: None, tmp_path: Path) -> Desk:
    return Desk(runners.start(workspaces.default_workspace(), "here"), tmp_path)


@pytest.fixture
def start(desk: Desk) -> Iterator[Callable[[], SessionWorker]]:
    """Starts workers of the runner and stops them after the test."""
    workers: list[SessionWorker] = []

    def start_one() -> SessionWorker:
        worker = SessionWorker(desk.runner, StopFlag(), [(PROVIDER, desk.folder / "told")])
        workers.append(worker)
        worker.start()
        return worker

    yield start_one
    for worker in workers:
        worker.stop.request()
    for worker in workers:
        worker.join()


def until(look: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.02)


def turns() -> list[str]:
    session = Session.objects.filter(provider_session_id="s").first()
    return [each.prompt for each in history.turns(session)] if session else []


@pytest.mark.serial
def test_a_turn_finished_in_a_terminal_is_here_within_three_seconds(
    desk: Desk, told: ToldAdapter, told_home: Home, start: Callable[[], SessionWorker]
) -> None:
    one = Told("s", turn(1))
    told.homes[desk.folder / "told"].append(one)
    start()
    until(lambda: turns() == ["prompt 1"])
    one.grow(*turn(2))
    began = time.monotonic()
    until(lambda: turns() == ["prompt 1", "prompt 2"])
    assert time.monotonic() - began < 3.0


def test_two_workers_of_one_runner_double_nothing(
    desk: Desk, told: ToldAdapter, told_home: Home, start: Callable[[], SessionWorker]
) -> None:
    told.homes[desk.folder / "told"].extend(Told(f"s{number}", turn(1)) for number in range(30))
    start()
    start()
    until(lambda: SessionSync.objects.filter(state="imported").count() == 30)
    assert sorted(told.reads) == sorted(f"s{number}" for number in range(30))
    assert Session.objects.count() == 30


def test_what_fails_once_ends_no_loop(
    desk: Desk, told: ToldAdapter, told_home: Home, start: Callable[[], SessionWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    told.homes[desk.folder / "told"].append(Told("s", turn(1)))
    failures = threading.Semaphore(0)
    discover, attest = told.discover, told.attest
    broken = threading.Event()
    broken.set()

    def fail_while_broken(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object) -> object:
            if broken.is_set():
                failures.release()
                raise OSError("no space left on device")
            return call(*args)

        return wrapped

    monkeypatch.setattr(told, "discover", fail_while_broken(discover))
    monkeypatch.setattr(told, "attest", fail_while_broken(attest))
    start()
    for _ in range(2):
        assert failures.acquire(timeout=20)
    broken.clear()
    until(lambda: turns() == ["prompt 1"])
    until(lambda: runners.stored_attestation(Home.objects.get()) == ATTESTATION)


def test_the_heartbeat_and_the_attestation_are_stored(
    desk: Desk, told: ToldAdapter, told_home: Home, start: Callable[[], SessionWorker]
) -> None:
    Runner.objects.update(last_seen_at=None)
    start()
    until(lambda: runners.is_alive(Runner.objects.get()))
    until(lambda: runners.stored_attestation(Home.objects.get()) == ATTESTATION)
    assert told.attested == 1


def test_a_stop_is_quick_and_gives_everything_back(
    desk: Desk, told: ToldAdapter, told_home: Home, start: Callable[[], SessionWorker]
) -> None:
    told.homes[desk.folder / "told"].append(Told("s", turn(1)))
    worker = start()
    until(lambda: turns() == ["prompt 1"])
    began = time.monotonic()
    worker.stop.request()
    worker.join()
    assert time.monotonic() - began < 5.0
    assert Home.objects.get().lease_token is None
    assert SessionSync.objects.get().lease_token is None
