"""One batch: forks are prepared, workers are killed over them, a clean worker finishes, and what is left is judged."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection

from forkhost.kit import clock
from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation, OperationAudit
from sessions.providers.crashpoints import VARIABLE, CrashPoint
from tests.faults import deeds
from tests.faults.invariants import Before, Findings, at_rest, check
from tests.faults.places import Place
from tests.faults.zygote import Worker, Zygote
from tests.postgres import Server

S = OperationStatus

LEASE_SECONDS = 2.0
KILL_SECONDS = 30.0
REST_SECONDS = 90.0
TICK_SECONDS = 0.02
# So often at most, because an agent's call takes longer than the database is left alone.
MOST_CUTS = 6
PATIENCE = 20
AGENT_KILLED = "fork_process_lost"
# A worker that is stopped before it listens for signals ends by the signal.
STOPPED = (0, -signal.SIGTERM)

IN_PREPARE = (CrashPoint.BEFORE_PREPARE_COMMITS, CrashPoint.AFTER_PREPARE)
IN_AGENT = (CrashPoint.AGENT_WRITES_CHILD, CrashPoint.AGENT_WROTE_CHILD)
IN_WORKER = tuple(
    point for point in CrashPoint if point not in (*IN_PREPARE, *IN_AGENT, CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS)
)

Disturb = Callable[["Batch"], int]


class Batch:
    """Forks of one place, and the processes that work on them."""

    def __init__(self, place: Place, zygote: Zygote, chance: random.Random) -> None:
        self.place = place
        self.zygote = zygote
        self.chance = chance
        self.asked: list[dict[str, Any]] = []

    def run(self, disturb: Disturb, forks: int, *, prepare: bool = True) -> Findings:
        """Prepare so many forks, let ``disturb`` kill what it kills and say how many, finish, and judge."""
        before = Before.of(self.place)
        requests = [self.place.request(self.place.sources[n % len(self.place.sources)]) for n in range(forks)]
        self.asked += requests
        if prepare:
            for request in requests:
                saga.prepare(deeds.request_of(request))
        kills = disturb(self)
        self.finish()
        found = check(self.place, self.asked, before)
        found.kills = kills
        return found

    def worker(self, **facts: Any) -> Worker:
        """A started worker; ``crash_at`` lets it die there."""
        environment = dict(self.place.agent.environment)
        if crash_at := facts.pop("crash_at", None):
            environment[VARIABLE] = crash_at
        return self.zygote.start(deeds.WORK, self.place.work(LEASE_SECONDS, **facts), **environment)

    def finish(self) -> None:
        """Let a clean worker, with the importer beside it, bring everything to rest. What does not is found later."""
        home = None if self.place.agent.provider == "fake" else [self.place.agent.provider, self.place.home.path]
        worker = self.worker(parallel=2, home=home)
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline and not all(at_rest(row) for row in self.operations()):
            assert worker.runs(), f"the clean worker ended with {worker.code}"
            time.sleep(TICK_SECONDS)
        code = worker.stop()
        assert code in STOPPED, f"the clean worker ended with {code}; see {self.zygote.log}"

    def operations(self) -> list[Operation]:
        """All of this place."""
        rows = Operation.objects.filter(workspace_id=self.place.workspace.pk)
        return list(rows.defer("snapshot", "result_session"))

    def prepared(self) -> bool:
        """Whether a fork still waits to be sent."""
        return Operation.objects.filter(workspace_id=self.place.workspace.pk, status=S.PREPARED).exists()


# --------------------------------------------------------------------------------------------------------------------
# What is done to the workers; each returns how many processes really died by SIGKILL


def kill_at(point: CrashPoint, parallel: Sequence[int] = (1,)) -> Disturb:
    """Workers that die at a point, one after the other, until no fork waits to be sent.

    Each makes so many forks at a time, by chance.
    """

    def disturb(batch: Batch) -> int:
        kills = 0
        while batch.prepared():
            worker = batch.worker(crash_at=point, parallel=batch.chance.choice(parallel))
            deadline = time.monotonic() + KILL_SECONDS
            while worker.runs() and (batch.prepared() or _busy(batch)):
                assert time.monotonic() < deadline, f"nobody died at {point}"
                time.sleep(TICK_SECONDS)
            kills += _end(worker)
        return kills

    return disturb


def _busy(batch: Batch) -> bool:
    """Whether a living lease is held: the worker is on its way to where it dies."""
    held = Operation.objects.filter(workspace_id=batch.place.workspace.pk, lease_until__gt=clock.database_now())
    return held.exists()


def _end(worker: Worker) -> int:
    code = worker.stop() if worker.runs() else worker.wait(1)
    assert code in (*STOPPED, -signal.SIGKILL), f"a worker ended with {code}; see {worker.zygote.log}"
    return int(code == -signal.SIGKILL)


def kill_agents_at(point: CrashPoint) -> Disturb:
    """The processes that make the calls die at a point; their worker lives."""

    def disturb(batch: Batch) -> int:
        worker = batch.worker(crash_at=point)
        _wait(lambda: not batch.prepared() and not _busy(batch), f"the calls killed at {point}")
        _end(worker)
        asked = [request["request"] for request in batch.asked]
        mine = Operation.objects.filter(request_id__in=asked).values_list("pk", flat=True)
        ends = OperationAudit.objects.filter(operation_id__in=list(mine), to_status=S.UNKNOWN)
        return sum(row.detail.get("code") == AGENT_KILLED for row in ends)

    return disturb


def kill_at_random(longest: float, parallel: int = 2) -> Disturb:
    """Workers that die at any moment."""

    def disturb(batch: Batch) -> int:
        kills = 0
        while batch.prepared():
            worker = batch.worker(parallel=parallel)
            # Longer and longer, so that a busy machine gets somewhere too.
            time.sleep(batch.chance.uniform(0.0, longest * (1 + kills / PATIENCE)))
            worker.send(signal.SIGKILL)
            kills += worker.wait(10) == -signal.SIGKILL
        return kills

    return disturb


def stall_at_random(longest: float) -> Disturb:
    """Workers that stop for longer than their lease at any moment, wake beside their successor, and die."""

    def disturb(batch: Batch) -> int:
        kills = 0
        while batch.prepared():
            stalled = batch.worker(parallel=2)
            time.sleep(batch.chance.uniform(0.0, longest))
            stalled.send(signal.SIGSTOP)
            successor = batch.worker(parallel=2)
            time.sleep(LEASE_SECONDS * 1.5)
            stalled.send(signal.SIGCONT)
            time.sleep(batch.chance.uniform(0.0, longest))
            for worker in (stalled, successor):
                worker.send(signal.SIGKILL)
                kills += worker.wait(10) == -signal.SIGKILL
        return kills

    return disturb


def kill_in_prepare(point: CrashPoint) -> Disturb:
    """Processes that die while they prepare; the same request is then made again, as a caller would."""

    def disturb(batch: Batch) -> int:
        kills = 0
        for request in batch.asked:
            doomed = batch.zygote.start(deeds.PREPARE, request, **{VARIABLE: point})
            kills += doomed.wait(KILL_SECONDS) == -signal.SIGKILL
            exists = Operation.objects.filter(request_id=request["request"]).exists()
            assert exists == (point is CrashPoint.AFTER_PREPARE)
            assert saga.prepare(deeds.request_of(request)).replayed == exists
        return kills

    return disturb


def kill_in_acknowledge(batch: Batch) -> int:
    """Processes that die while they acknowledge; the acknowledgement is then made again."""
    batch.finish()
    kills = 0
    for operation in batch.operations():
        if operation.status != S.COMMITTED:
            continue
        doomed = batch.zygote.start(
            deeds.ACKNOWLEDGE, {"operation": str(operation.pk)}, **{VARIABLE: CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS}
        )
        kills += doomed.wait(KILL_SECONDS) == -signal.SIGKILL
        assert Operation.objects.get(pk=operation.pk).observed_at is None
        assert saga.acknowledge(operation.pk, "user:member").observed_at is not None
    return kills


def kill_calls(longest_ms: float) -> Disturb:
    """Whatever process makes a call is killed at any moment from just before it; the worker lives."""

    def disturb(batch: Batch) -> int:
        log = batch.zygote.log.with_name(f"killed-{uuid.uuid4().hex}")
        log.touch()
        worker = batch.worker(kill_calls={"longest_ms": longest_ms, "seed": batch.chance.random(), "log": str(log)})
        _wait(lambda: not batch.prepared() and not _busy(batch), "the killed calls")
        _end(worker)
        return len(log.read_text().split())

    return disturb


def cut_connections(longest: float) -> Disturb:
    """PostgreSQL ends every connection but the driver's, again and again; the worker has to outlive it."""

    def disturb(batch: Batch) -> int:
        worker = batch.worker(parallel=2)
        left = list(range(MOST_CUTS))

        def cut() -> None:
            if left:
                left.pop()
                terminate_backends()

        _while_it_works(batch, worker, longest, cut)
        return 0

    return disturb


def restart_database(server: Server, longest: float) -> Disturb:
    """PostgreSQL dies as in a power cut and comes back, once in the middle; the worker has to outlive it."""

    def disturb(batch: Batch) -> int:
        worker = batch.worker(parallel=2)
        left = [1]

        def restart() -> None:
            if left:
                left.clear()
                connection.close()
                server.restart()

        _while_it_works(batch, worker, longest, restart)
        return 0

    return disturb


def terminate_backends() -> None:
    """PostgreSQL ends every connection to this database but the caller's."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _while_it_works(batch: Batch, worker: Worker, longest: float, disturb: Callable[[], None]) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while batch.prepared() or _busy(batch):
        assert time.monotonic() < deadline, "the worker does not get on"
        time.sleep(batch.chance.uniform(0.0, longest))
        disturb()
    assert worker.stop() in STOPPED, f"the worker ended; see {batch.zygote.log}"


def limit_files(size: int) -> Disturb:
    """A worker whose agent's processes cannot write a whole child."""

    def disturb(batch: Batch) -> int:
        worker = batch.worker(file_limit=size)
        _wait(lambda: not batch.prepared() and not _busy(batch), "the calls on a full disk")
        _end(worker)
        return 0

    return disturb


def _wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(TICK_SECONDS)


def disturbance(point: CrashPoint, parallel: Sequence[int] = (1,)) -> tuple[Disturb, bool]:
    """The one that kills at a point, and whether the forks have to be prepared before."""
    if point in IN_PREPARE:
        return kill_in_prepare(point), False
    if point is CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS:
        return kill_in_acknowledge, True
    if point in IN_AGENT:
        return kill_agents_at(point), True
    return kill_at(point, parallel), True
