"""The loop that carries forks out on one runner: wake up or look every few seconds, claim, work, several at a time.

It takes what is queued for its own runner, and hosted forks, which need no machine. Work never moves to another runner.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import dataclass
from typing import Protocol

import structlog
from django.db import DatabaseError, close_old_connections, connections
from django.db.models import QuerySet

from forkhost.kit import alarms
from forkhost.kit.leases import Lease, claim
from forkhost.kit.wakeups import Listener
from operations import dispatch, hosted, notifications, recovery
from operations.choices import OperationStatus
from operations.models import Operation
from operations.saga.moves import WAKE_UP
from sessions.models import Runner

log = structlog.get_logger(__name__)

# A dispatching row belongs to the worker that marked it, or to the sweep.
CLAIMABLE = (
    OperationStatus.PREPARED,
    OperationStatus.PROVIDER_ACCEPTED,
    OperationStatus.UNKNOWN,
    OperationStatus.COMMITTED,
)


# A fork that is done sooner is better followed by the next one than joined by it: threads share one interpreter.
ALONE_SECONDS = 0.02
# Any commit may mean that there is something to deliver; nobody reads mail that fast.
COURIER_REST_SECONDS = 0.25


class Stop(Protocol):
    """When to end; :class:`forkhost.kit.stopping.StopFlag` is one."""

    @property
    def requested(self) -> bool:
        """Whether to stop."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker runs. ``lease_seconds`` is renewed at a third; ``parallel`` forks run at the same time."""

    lease_seconds: float = 60.0
    poll_seconds: float = 5.0
    sweep_seconds: float = recovery.SWEEP_SECONDS
    parallel: int = 4


def run(runner: Runner, stop: Stop, *, pace: Pace | None = None, listener: Listener | None = None) -> None:
    """Work until ``stop``; forks that are being sent are finished first.

    ``listener`` (for the channel of operations) can be given so that the caller can wake the loop when it sets
    ``stop``; otherwise stopping takes up to ``poll_seconds``. Database errors are waited out.
    """
    pace = pace or Pace()
    own = Listener(WAKE_UP) if listener is None else None
    hands = _Hands(runner, pace)
    try:
        with hands, _Courier(f"courier:{runner.name}:{runner.incarnation}") as courier:
            _attend(stop, pace, listener or own, hands, courier)  # type: ignore[arg-type]
    finally:
        if own is not None:
            own.close()
        log.info("operations_worker_stopped", runner=runner.name)


def _attend(stop: Stop, pace: Pace, listener: Listener, hands: _Hands, courier: _Courier) -> None:
    next_sweep = 0.0
    while not stop.requested:
        if time.monotonic() >= next_sweep:
            _sweep()
            next_sweep = time.monotonic() + pace.sweep_seconds
        hands.wake()
        courier.wake()
        listener.wait(max(0.0, min(pace.poll_seconds, next_sweep - time.monotonic())))


def _sweep() -> None:
    close_old_connections()
    try:
        recovery.sweep()
    except DatabaseError:
        log.exception("sweep_failed")


def claim_next(runner: Runner, owner: str, lease_seconds: float) -> Lease | None:
    """The next operation that this runner can take further; None when there is none."""
    rows: QuerySet[Operation] = Operation.objects.filter(queue__in=(str(runner.pk), hosted.QUEUE), status__in=CLAIMABLE)
    return claim(rows, owner, lease_seconds)


class _Hands:
    """The threads that work. Each claims for itself, so that nothing is claimed that nobody is free to do.

    One goes from fork to fork while the others rest; when a fork takes it longer, the next one takes over, and
    whoever sees that another goes on lets it.
    """

    def __init__(self, runner: Runner, pace: Pace) -> None:
        self._runner = runner
        self._pace = pace
        self._owner = f"worker:{runner.name}:{runner.incarnation}"
        # One wish a hand is enough: a busy hand looks for more work by itself.
        self._wanted: queue.Queue[None] = queue.Queue(maxsize=max(1, pace.parallel))
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # The hands that are at a fork and not late: each looks for more work when it is done, or wakes another.
        self._quick = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"fork-{number}") for number in range(max(1, pace.parallel))
        ]

    def __enter__(self) -> _Hands:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for _ in self._threads:
            self.wake()
        for thread in self._threads:
            thread.join()

    def wake(self) -> None:
        """Have one thread look; one whose work lasts has the next look, too."""
        with contextlib.suppress(queue.Full):
            self._wanted.put_nowait(None)

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wanted.get()
                # Asked once for all that is waiting; a connection that breaks meanwhile fails a claim, and is replaced here.
                close_old_connections()
                while not self._stopping.is_set() and self._take_one() and not self._another_goes_on():
                    pass
        finally:
            connections.close_all()

    def _take_one(self) -> bool:
        try:
            lease = claim_next(self._runner, self._owner, self._pace.lease_seconds)
        # A hand that dies would take its share of all later work with it.
        except Exception:
            log.exception("claim_failed")
            return False
        if lease is not None:
            self._carry_out(lease)
        return lease is not None

    def _carry_out(self, lease: Lease) -> None:
        try:
            late = alarms.ring(ALONE_SECONDS, self._be_relieved)
            self._add_quick(1)
            try:
                dispatch.work(lease, actor=self._owner, lease_seconds=self._pace.lease_seconds)
            finally:
                if late.call_off():
                    self._add_quick(-1)
        # The row's lease runs out by itself.
        except Exception:
            log.exception("work_failed")

    def _another_goes_on(self) -> bool:
        """A hand that is only looking does not count: what it has not seen became due after it began to look."""
        with self._lock:
            return self._quick > 0

    def _be_relieved(self) -> None:
        self._add_quick(-1)
        self.wake()

    def _add_quick(self, number: int) -> None:
        with self._lock:
            self._quick += number


class _Courier:
    """The thread that delivers notifications, so that a slow mail server or webhook keeps no fork waiting."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="courier")

    def __enter__(self) -> _Courier:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self.wake()
        self._thread.join()

    def wake(self) -> None:
        """Have it look for messages that are due."""
        self._wanted.set()

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wanted.wait()
                self._wanted.clear()
                self._deliver_all()
                self._stopping.wait(COURIER_REST_SECONDS)
        finally:
            connections.close_all()

    def _deliver_all(self) -> None:
        close_old_connections()
        try:
            while not self._stopping.is_set() and notifications.deliver_one(self._owner):
                pass
        except DatabaseError:
            log.exception("database_failed")
