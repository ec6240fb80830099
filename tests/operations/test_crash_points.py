"""kill -9 at ten places, and what the next worker finds. Not one of them leads to a second call or a lost fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from operations import recovery, saga
from operations.choices import OperationStatus
from operations.models import Operation, OperationAudit, RequestAlias
from sessions.models import Session
from sessions.providers.crashpoints import VARIABLE, CrashPoint
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db(transaction=True)

S = OperationStatus


@dataclass
class Doomed:
    """Processes that die where they are told to."""

    world: World
    database_url: str

    def kill(self, point: CrashPoint, action: str, **facts: Any) -> None:
        """Carry out ``action`` in a process that is killed at ``point``."""
        world = self.world
        values = {"runner": str(world.runner.pk), "user": world.user.pk, "source": str(world.source.pk), "lease": 60.0}
        done = subprocess.run(
            [sys.executable, "-m", "tests.agents.one_process", action, json.dumps({**values, **facts})],
            env={**os.environ, "DATABASE_URL": self.database_url, VARIABLE: point},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    def kill_worker(self, point: CrashPoint) -> Operation:
        """A prepared fork whose worker is killed at ``point``; its lease has run out and the sweep has been there."""
        operation = self.world.prepare()
        self.kill(point, "work")
        Operation.objects.filter(lease_token__isnull=False).update(lease_until=operation.prepared_at)
        recovery.sweep()
        operation.refresh_from_db()
        return operation

    def look(self, operation: Operation) -> None:
        """The first look-up, now."""
        Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
        self.world.work(operation)


@pytest.fixture
def doomed(world: World, database_url: str) -> Doomed:
    """Processes on the test's database."""
    return Doomed(world, database_url)


def the_only_child(operation: Operation) -> Session:
    """The child: there is one, and it is whole."""
    child = Session.objects.get(fork_operation_id=operation.pk)
    assert (child.turn_count, child.last_seq) == (operation.resolved_ordinal, operation.resolved_seq)
    return child


def test_1_before_the_row_commits_nothing_is_there_and_the_same_key_works(doomed: Doomed) -> None:
    request = doomed.world.request()
    facts = {"request": request.request_id, "target": str(request.target_session_id)}
    doomed.kill(CrashPoint.BEFORE_PREPARE_COMMITS, "prepare", **facts)
    assert not Operation.objects.exists()
    assert not RequestAlias.objects.exists()
    assert not saga.prepare(request).replayed


def test_2_a_prepared_row_goes_on(doomed: Doomed) -> None:
    request = doomed.world.request()
    facts = {"request": request.request_id, "target": str(request.target_session_id)}
    doomed.kill(CrashPoint.AFTER_PREPARE, "prepare", **facts)
    answer = saga.prepare(request)
    assert answer.replayed
    doomed.world.work(answer.operation)
    assert answer.operation.status == S.COMMITTED
    assert len(doomed.world.agent.calls) == 1


def test_3_after_the_mark_and_before_the_call(doomed: Doomed) -> None:
    operation = doomed.kill_worker(CrashPoint.AFTER_DISPATCH_MARK)
    assert (operation.status, operation.error_code, operation.process) == (S.UNKNOWN, "worker_lost", None)
    assert doomed.world.agent.calls == []
    doomed.look(operation)
    assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    assert doomed.world.agent.calls == []


def test_4_during_the_call(doomed: Doomed) -> None:
    doomed.world.agent.configure(absence_proves=False)
    operation = doomed.kill_worker(CrashPoint.DURING_CALL)
    assert operation.status == S.UNKNOWN
    doomed.look(operation)
    assert operation.status == S.UNKNOWN
    doomed.world.agent.configure(absence_proves=True)
    doomed.look(operation)
    assert (operation.status, operation.error_code) == (S.FAILED, "proven_not_created")
    assert len(doomed.world.agent.calls) == 1


@pytest.mark.parametrize("point", [CrashPoint.AFTER_CHILD_MADE, CrashPoint.AFTER_CALL])
def test_5_and_6_the_child_is_made_and_its_id_is_not_kept(doomed: Doomed, point: CrashPoint) -> None:
    operation = doomed.kill_worker(point)
    assert (operation.status, operation.child_provider_session_id) == (S.UNKNOWN, "")
    doomed.look(operation)
    doomed.world.work(operation)
    assert operation.status == S.COMMITTED
    assert the_only_child(operation).provider_session_id == doomed.world.agent.children[0]["id"]
    assert len(doomed.world.agent.calls) == len(doomed.world.agent.children) == 1


@pytest.mark.parametrize("point", [CrashPoint.AFTER_ACCEPT, CrashPoint.DURING_MATERIALISE])
def test_7_and_8_local_work_is_finished_by_the_next_worker(doomed: Doomed, point: CrashPoint) -> None:
    operation = doomed.kill_worker(point)
    assert operation.status == S.PROVIDER_ACCEPTED
    assert not Session.objects.filter(fork_operation_id=operation.pk).exists()
    doomed.world.work(operation)
    assert operation.status == S.COMMITTED
    the_only_child(operation)
    assert len(doomed.world.agent.calls) == 1
    assert acts(operation) == ["prepared", "dispatching", "accepted", "committed"]


def test_9_committed_and_the_reply_lost(doomed: Doomed) -> None:
    operation = doomed.kill_worker(CrashPoint.AFTER_COMMIT)
    assert operation.status == S.COMMITTED
    the_only_child(operation)
    replay = doomed.world.request(request_id=operation.request_id, target_session_id=operation.target_session_id)
    assert saga.prepare(replay).operation.pk == operation.pk


def test_10_an_acknowledgement_that_was_lost_is_repeated(doomed: Doomed) -> None:
    operation = doomed.world.fork()
    doomed.kill(CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS, "acknowledge", operation=str(operation.pk))
    assert not OperationAudit.objects.filter(operation_id=operation.pk, reason="acknowledged").exists()
    assert saga.acknowledge(operation.pk, "user:member").observed_at is not None


def test_a_crash_point_nobody_names_does_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(uuid.uuid4()))
    assert world.fork().status == S.COMMITTED
