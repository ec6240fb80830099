"""What a worker does for sessions: say that it lives, watch the homes, read transcripts, attest the agents.

Each loop runs in a thread of its own. What goes wrong in one round is logged and backed off; it ends no loop. Several
workers may serve one runner: homes and transcripts are claimed, so nothing is done twice.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from django.db import connections

from forkhost.kit import clock
from forkhost.kit.leases import LeaseKeeper, claim, release
from forkhost.kit.stopping import StopFlag
from forkhost.kit.wakeups import Listener
from sessions import disposal, indexing, runners
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Runner
from sessions.pacing import background
from sessions.providers import registry
from sessions.providers.base import Unreadable
from sessions.repeatable import repeatable_writes
from sessions.syncing import WAKE_UP, claim_next

log = structlog.get_logger(__name__)

SWITCH_SECONDS = 0.0005
HOME_LEASE_SECONDS = 20.0
SCAN_SECONDS = 1.0
SLOWEST_SCAN_SECONDS = 15.0
# A look takes at most this share of the time.
SCAN_SHARE = 0.2
MISSING_SECONDS = 10.0
HOMES_SECONDS = 5.0
IDLE_SECONDS = 1.0
# On SQLite any commit may mean that there is something to read; who waits for it does not see a tenth of a second.
TICK_SECONDS = 0.1
INDEX_IDLE_SECONDS = 1.0
INDEX_BESIDE_IMPORT_SECONDS = 1.0
RETENTION_SECONDS = 600.0
RETENTION_BUSY_SECONDS = 5.0
LONGEST_BACKOFF_SECONDS = 30.0


def start(runner: Runner, stop: StopFlag, extra_homes: Sequence[tuple[str, Path]] = ()) -> SessionWorker:
    """Start the loops in a process that does nothing else; they end once ``stop`` is requested."""
    settle()
    worker = SessionWorker(runner, stop, extra_homes)
    worker.start()
    return worker


def settle() -> None:
    """Make the most of a process that reads transcripts and serves nobody directly.

    A thread that holds the database's one write lock gets the interpreter back soon. And the garbage collector is spared
    what is loaded by now: it stays, and looking through it again and again costs an import a tenth.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    registry.adapters()
    gc.collect()
    gc.freeze()


class SessionWorker:
    """The loops of one worker. ``owner`` names it in the leases it holds."""

    def __init__(self, runner: Runner, stop: StopFlag, extra_homes: Sequence[tuple[str, Path]] = ()) -> None:
        self.runner = runner
        self.stop = stop
        self.extra_homes = extra_homes
        self.owner = f"{runner.name}:{os.getpid()}:{runner.incarnation}"
        self._threads: list[threading.Thread] = []
        self._watched: set[uuid.UUID] = set()
        # Advice to the search index: with two imports at once it may be wrong for a moment.
        self._importing = threading.Event()
        self._attested: dict[uuid.UUID, tuple[float, str]] = {}

    def start(self) -> None:
        """Start the loops."""
        self._loop("beat", self._beat)
        self._loop("homes", self._keep_homes)
        self._import_loop("import-hurried", hurried=True)
        self._import_loop("import", hurried=False)
        self._loop("search", self._index)
        self._loop("retention", self._purge)

    def join(self) -> None:
        """Wait for the loops to end; they do once a stop was requested."""
        for thread in list(self._threads):
            thread.join()

    def _loop(self, name: str, step: Callable[[], float], close: Callable[[], None] = lambda: None) -> None:
        """Call ``step`` again and again, each time after the seconds it returned."""

        def body() -> None:
            failures = 0
            try:
                while not self.stop.requested:
                    try:
                        wait = step()
                        failures = 0
                    except Exception:
                        failures += 1
                        log.exception("worker_step_failed", step=name, failures=failures)
                        connections.close_all()
                        wait = min(2.0**failures, LONGEST_BACKOFF_SECONDS)
                    if wait:
                        self.stop.wait(wait)
            finally:
                close()
                connections.close_all()

        thread = threading.Thread(target=body, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # The runner and its homes ---------------------------------------------------------------------------------------

    def _beat(self) -> float:
        with background:
            runners.beat(self.runner.pk)
        return runners.BEAT_SECONDS

    def _keep_homes(self) -> float:
        """Find homes that appeared, have each watched, and attest those that need it."""
        for home in runners.ensure_homes(self.runner, os.environ, self.extra_homes):
            if home.pk not in self._watched and home.provider in registry.adapters():
                self._watched.add(home.pk)
                self._loop(f"watch-{home.provider}", lambda home_id=home.pk: self._watch(home_id))  # type: ignore[misc]
            self._attest_if_needed(home)
            if self.stop.requested:
                break
        return HOMES_SECONDS

    def _attest_if_needed(self, home: Home) -> None:
        attestation = runners.stored_attestation(home)
        stamp = runners.executable_stamp(attestation)
        at, known = self._attested.get(home.pk, (0.0, ""))
        good_for = runners.attest_again_after(attestation)
        if home.pk in self._attested and known == stamp and time.monotonic() - at < good_for:
            return
        try:
            proven = runners.attest(home)
        except Exception:
            # An adapter of somebody else; the other homes have to be attested all the same.
            log.exception("attestation_failed", home=str(home.pk), provider=home.provider)
            self._attested.pop(home.pk, None)
            return
        self._attested[home.pk] = (time.monotonic(), runners.executable_stamp(proven))

    def _watch(self, home_id: uuid.UUID) -> float:
        """Look at one home, again and again, as long as this worker holds it."""
        lease = claim(Home.objects.filter(pk=home_id), self.owner, HOME_LEASE_SECONDS)
        if lease is None:
            return IDLE_SECONDS
        home = Home.objects.select_related("runner__workspace").get(pk=home_id)
        try:
            with LeaseKeeper(Home, lease, HOME_LEASE_SECONDS) as keeper:
                watch = HomeWatch(home)
                while not self.stop.requested and not keeper.lost:
                    self.stop.wait(watch.look())
        finally:
            release(Home, lease.pk, lease.token, again_in=0.0, reset_attempts=True)
        return 0.0

    # Transcripts ----------------------------------------------------------------------------------------------------

    def _import_loop(self, name: str, *, hurried: bool) -> None:
        listener = Listener(WAKE_UP, sqlite_tick=TICK_SECONDS)
        self.stop.on_request(listener.wake)

        def step() -> float:
            lease = claim_next(self.runner.pk, self.owner, hurried=hurried)
            if lease is None:
                listener.wait(IDLE_SECONDS)
            else:
                self._importing.set()
                try:
                    import_claimed(lease, lambda: self.stop.requested)
                finally:
                    self._importing.clear()
            return 0.0

        self._loop(name, step, listener.close)

    # Search ---------------------------------------------------------------------------------------------------------

    def _index(self) -> float:
        """Catch the search index up by one step, then leave the database to others for at least as long.

        What is imported is found a little later than it can be read.
        """
        began = time.monotonic()
        with background, repeatable_writes():
            found = indexing.step()
        if not found:
            return INDEX_IDLE_SECONDS
        return max(time.monotonic() - began, INDEX_BESIDE_IMPORT_SECONDS if self._importing.is_set() else 0.0)

    # Retention ------------------------------------------------------------------------------------------------------

    def _purge(self) -> float:
        """Remove what has lain in the bin long enough; the next look is soon while there is more."""
        return RETENTION_BUSY_SECONDS if disposal.sweep() else RETENTION_SECONDS


class HomeWatch:
    """One home under this worker's lease."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.scanner = Scanner(home, registry.adapter(home.provider))
        self._missing_at = 0.0

    def look(self) -> float:
        """Look once; the seconds until the next look."""
        began = time.monotonic()
        try:
            self.scanner.scan()
            if began - self._missing_at >= MISSING_SECONDS:
                self.scanner.note_missing()
                self._missing_at = began
                self._note(scanned_at=clock.now(), problem_code="", problem_text="")
        except Unreadable as error:
            self._note(problem_code=error.code[:64], problem_text=error.message)
            return MISSING_SECONDS
        took = time.monotonic() - began
        return min(max(SCAN_SECONDS, took / SCAN_SHARE), SLOWEST_SCAN_SECONDS)

    def _note(self, **changes: object) -> None:
        Home.objects.filter(pk=self.home.pk).update(**changes)
