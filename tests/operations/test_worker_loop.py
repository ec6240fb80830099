"""The loop that carries forks out: woken at once, several at a time, never for another runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections

from forkhost.kit.leases import Lease
from forkhost.kit.stopping import StopFlag
from forkhost.kit.wakeups import Listener
from operations import dispatch, saga, worker
from operations.choices import OperationStatus
from operations.models import Operation
from operations.saga import WAKE_UP
from operations.worker import Pace
from sessions import runners
from sessions.models import Home
from sessions.providers import registry
from tests.agents.fake_provider import PROVIDER
from tests.operations.support import World

pytestmark = pytest.mark.django_db(transaction=True)

S = OperationStatus
# Far longer than a test: what happens sooner was woken, not polled.
SLOW = Pace(poll_seconds=60, sweep_seconds=60, parallel=3)


@contextmanager
def running(world: World, pace: Pace = SLOW) -> Iterator[None]:
    """A worker of the world's runner in a thread."""
    stop = StopFlag()
    listener = Listener(WAKE_UP)
    stop.on_request(listener.wake)

    def run() -> None:
        try:
            worker.run(world.runner, stop, pace=pace, listener=listener)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.request()
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def until(met: Callable[[], bool], timeout: float = 20) -> None:
    """Wait for a condition of the database."""
    deadline = time.monotonic() + timeout
    while not met():
        assert time.monotonic() < deadline, list(Operation.objects.values("status", "error_code", "next_run_at"))
        time.sleep(0.01)


def committed(count: int) -> Callable[[], bool]:
    """Whether so many forks are committed."""
    return lambda: Operation.objects.filter(status=S.COMMITTED).count() == count


def test_work_that_waited_is_done_at_the_start_and_new_work_wakes_the_worker(world: World) -> None:
    world.prepare()
    with running(world):
        until(committed(1))
        world.prepare()
        until(committed(2))
    assert len(world.agent.calls) == 2


def test_what_an_operator_wants_wakes_the_worker(world: World) -> None:
    world.agent.script("lose_answer")
    unknown = world.fork()
    assert unknown.status == S.UNKNOWN
    with running(world):
        world.prepare()
        until(committed(1))
        saga.look_again(unknown.pk, actor="user:operator", expected_version=unknown.version)
        until(committed(2))
    assert len(world.agent.calls) == 2


def test_several_forks_run_at_the_same_time(world: World) -> None:
    world.agent.script({"do": "accept", "gate": "a"}, {"do": "accept", "gate": "b"}, {"do": "accept", "gate": "c"})
    for _ in range(3):
        world.prepare()
    with running(world):
        for gate in "abc":
            world.agent.wait_for(gate)
        for gate in "abc":
            world.agent.open(gate)
        until(committed(3))


def test_stopping_lets_a_fork_that_is_being_sent_finish(world: World) -> None:
    world.agent.script({"do": "accept", "gate": "inside"})
    operation = world.prepare()
    opener = threading.Timer(0.3, world.agent.open, ["inside"])
    with running(world):
        world.agent.wait_for("inside")
        opener.start()
    opener.join()
    operation.refresh_from_db()
    assert operation.status == S.COMMITTED


def test_work_of_a_runner_that_is_away_waits_and_moves_to_nobody(world: World, tmp_path: Path) -> None:
    away = runners.start(world.workspace, "away")
    world.home = Home.objects.create(runner=away, provider=PROVIDER, path=str(world.agent.folder), queue=str(away.pk))
    world.attest()
    waiting = world.prepare(source_session_id=world.new_source().pk)
    world.prepare()
    with running(world):
        until(committed(1))
    waiting.refresh_from_db()
    assert (waiting.status, waiting.lease_token, waiting.attempts) == (S.PREPARED, None, 0)


def test_a_mistake_in_one_fork_ends_no_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from operations import handover

    build = handover.fork_request

    def broken_once(operation: Operation, *rest: object, **more: object) -> object:
        if operation.title == "broken":
            raise KeyError("a mistake of ours")
        return build(operation, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(handover, "fork_request", broken_once)
    broken = world.prepare(title="broken")
    world.prepare()
    with running(world, Pace(poll_seconds=60, sweep_seconds=60, parallel=1)):
        until(committed(1))
        until(lambda: Operation.objects.get(pk=broken.pk).status == S.FAILED)
    assert len(world.agent.calls) == 1


@pytest.fixture
def hands(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[worker._Hands]:
    """Threads that nobody else wakes, and that no fork keeps for too long."""
    monkeypatch.setattr(worker, "ALONE_SECONDS", 60)
    with worker._Hands(world.runner, SLOW) as hands:
        yield hands


def test_nothing_is_left_to_a_hand_that_began_to_look_before_it_was_due(
    world: World, hands: worker._Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looked, go_on = worker.claim_next, threading.Event(), threading.Event()

    def slow_once(*arguments: Any) -> Lease | None:
        found = look(*arguments)
        if not looked.is_set():
            looked.set()
            go_on.wait(30)
        return found

    monkeypatch.setattr(worker, "claim_next", slow_once)
    hands.wake()
    assert looked.wait(10)
    for _ in range(3):
        world.prepare()
    hands.wake()
    try:
        until(committed(3))
    finally:
        go_on.set()


def test_what_was_left_to_a_hand_whose_work_failed_is_done_all_the_same(
    world: World, hands: worker._Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, failing, fail = dispatch.work, threading.Event(), threading.Event()

    def broken_once(lease: Lease, **more: Any) -> None:
        if failing.is_set():
            work(lease, **more)
        else:
            failing.set()
            fail.wait(30)
            raise OperationalError("gone for a moment")

    monkeypatch.setattr(dispatch, "work", broken_once)
    for _ in range(3):
        world.prepare()
    hands.wake()
    assert failing.wait(10)
    hands.wake()
    until(committed(1))
    fail.set()
    until(committed(2))


def test_a_worker_killed_inside_the_call_leaves_an_unknown_that_the_next_worker_settles(
    world: World, database_url: str, tmp_path: Path
) -> None:
    """The whole way with real processes: one is killed with -9 while the provider works, another comes after it."""
    world.agent.script({"do": "accept", "gate": "inside"})
    operation = world.prepare()
    facts = {"runner": str(world.runner.pk), "lease": 1.0, "until": str(tmp_path / "stop")}
    command = [sys.executable, "-m", "tests.agents.one_process", "serve", json.dumps(facts)]
    environment = {**os.environ, "DATABASE_URL": database_url}
    first = subprocess.Popen(command, env=environment)
    try:
        world.agent.wait_for("inside", timeout=60)
    finally:
        first.kill()
        first.wait()
    second = subprocess.Popen(command, env=environment)
    try:
        until(lambda: Operation.objects.get(pk=operation.pk).status == S.UNKNOWN, timeout=60)
        Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
        until(lambda: Operation.objects.get(pk=operation.pk).status == S.FAILED, timeout=60)
    finally:
        (tmp_path / "stop").touch()
        assert second.wait(timeout=30) == 0
    operation.refresh_from_db()
    assert operation.error_code == "proven_not_created"
    assert len(world.agent.calls) == 1


def test_the_worker_uses_the_installed_adapters(world: World) -> None:
    """Without its adapter a runner sends nothing, and says what is missing."""
    operation = world.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "registry", lambda: registry.Registry({}))
        world.work(operation)
    assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, "adapter_missing", 0)
