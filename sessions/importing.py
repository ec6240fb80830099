"""Reads a provider's transcript into the history of its session, in paced batches.

A batch and the cursor behind it are one transaction under the row's lease, so a worker that dies or loses its lease
leaves whole batches and nothing twice. Where the stream starts over, what is stored is compared, not written again
(:mod:`sessions.recorded`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog
from django.db import transaction

from forkhost.kit.leases import Lease, LeaseKeeper
from sessions import history, lanes, runners, store
from sessions.batches import Batch, Place
from sessions.choices import Activity, SyncState
from sessions.errors import SessionFenced, SessionGone, StaleSession
from sessions.models import Session, SessionSync
from sessions.pacing import Pace
from sessions.providers import registry
from sessions.providers.base import Adapter, ReadCursor, ReadRestart, TurnBinding, Unreadable
from sessions.recorded import Diverged
from sessions.repeatable import repeatable_writes
from sessions.segments import parts_of
from sessions.store.bindings import seed_turns
from sessions.syncing import LEASE_SECONDS, Hurry, give_back, transcript_missing

log = structlog.get_logger(__name__)

SLICE_SECONDS = 5.0
# A stretch lasts at least this many times as long as what it took to prepare it.
PREPARED_TIMES = 8.0
FENCED_SECONDS = 1.0
TOMBSTONED_SECONDS = 300.0
LONGEST_BACKOFF_SECONDS = 300.0
TRIES = 3

PREFIX_CHANGED = "inherited_prefix_changed"
TRANSCRIPT_MISSING = "source_transcript_missing"
IMPORT_FAILED = "import_failed"


class Stretch:
    """How long one transcript is read before the others have their turn.

    Before the first items come, an adapter may look through the whole file, and does so again in the next stretch: the
    reading that follows lasts several times as long as that, or a very long transcript would be looked through for ever.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._until: float | None = None

    def is_over(self) -> bool:
        """Asked at every cursor, so for the first time soon after the first items came."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + max(SLICE_SECONDS, PREPARED_TIMES * (now - self._began))
        return now > self._until


class LeaseLost(Exception):
    """Another worker owns the row now; nothing was written since."""


class Reading:
    """One transcript being read under one lease."""

    def __init__(self, sync: SessionSync, lease: Lease, adapter: Adapter, pace: Pace) -> None:
        self.pace = pace
        self.sync = sync
        self.lease = lease
        self.adapter = adapter
        self.session: Session = sync.session
        self.ref = runners.session_ref(self.session)
        self.after = _boundary_binding(self.session)
        self.began_at: int = self.session.last_seq

    def run(self, must_pause: Callable[[], bool]) -> bool:
        """Read on until the transcript's end (True) or until ``must_pause`` says so at a cursor (False).

        Raises :class:`Unreadable`, :class:`LeaseLost`, and the store's refusals (fenced, tombstoned, gone).
        """
        for _ in range(TRIES):
            try:
                return self._stream(must_pause)
            except Diverged as parting:
                self._rewind(parting.through_seq)
            except StaleSession:
                log.info("history_moved_while_importing", session=str(self.session.pk))
            except Unreadable as error:
                if error.code != PREFIX_CHANGED or self.after is None:
                    raise
                # A person went back in the fork to before the turn it was forked at: compare what it inherited, too.
                self.after = None
                self.save(cursor=None)
            self.session.refresh_from_db()
            self.sync.refresh_from_db(fields=["cursor"])
        raise Unreadable("history_unstable", "The transcript changed again each time it was compared with its history.")

    def _stream(self, must_pause: Callable[[], bool]) -> bool:
        place = self._place()
        batch = Batch(self.session, self.sync, place, self.save, self.pace)
        for item in self.adapter.read(self.ref, place.since, self.after):
            if isinstance(item, ReadRestart):
                batch = Batch(self.session, self.sync, self.beginning(), self.save, self.pace)
                continue
            batch.take(item)
            if batch.full:
                batch.write()
                self.pace.rest()
            if isinstance(item, ReadCursor) and item.done < item.total and must_pause():
                batch.write()
                return False
        batch.write()
        batch.recorded.finish()
        lanes.place(self.session.pk, after_seq=min(self.began_at, self.session.last_seq))
        if self.session.parent_session_id is not None and self.session.parent_turn_id is None:
            lanes.place(self.session.parent_session_id)
        return True

    def _place(self) -> Place:
        stored = self.sync.cursor
        if stored and stored["revision"] == self.session.history_revision and stored["seq"] <= self.session.last_seq:
            return Place(stored["since"], stored["seq"], stored["revision"])
        return self.beginning()

    def beginning(self) -> Place:
        """Where a stream without a cursor starts: after what was inherited, if the adapter leaves that out."""
        seq = self.session.seed_length if self.after is not None else 0
        return Place(None, seq, self.session.history_revision)

    def _rewind(self, through_seq: int) -> None:
        """Give up what the provider no longer has; forks made before keep it. The next reading compares and goes on."""
        log.info("history_rewound_outside", session=str(self.session.pk), through_seq=through_seq)
        with transaction.atomic():
            store.rewind(self.session.pk, through_seq)
            self.save(cursor=None)
        self.began_at = 0

    def save(self, **changes: Any) -> None:
        """Write to the sync row under the lease. Raises :class:`LeaseLost`, which undoes the transaction around it."""
        if not SessionSync.objects.filter(pk=self.lease.pk, lease_token=self.lease.token).update(**changes):
            raise LeaseLost


def _boundary_binding(session: Session) -> TurnBinding | None:
    """The last inherited turn as the child's provider knows it; None for a session that inherited nothing."""
    if not session.seed_length:
        return None
    turn = history.turn_by_ordinal(session, seed_turns(session, parts_of(session)))
    return turn.binding if turn is not None else None


def import_claimed(lease: Lease, must_stop: Callable[[], bool]) -> None:
    """Read one claimed transcript for at most a few seconds at a stretch, and give the row back with what came of it.

    Never raises for what is wrong with a transcript, a home or an adapter: the row says it, and is tried again later.
    """
    sync = SessionSync.objects.select_related("session__home__runner").get(pk=lease.pk)
    stretch, pace = Stretch(), Pace()
    with LeaseKeeper(SessionSync, lease, LEASE_SECONDS) as keeper:
        try:
            with repeatable_writes():
                result = _read(sync, lease, pace, lambda: keeper.lost or must_stop() or stretch.is_over())
        except LeaseLost:
            return
        except Exception as error:
            log.exception("import_failed", session=str(sync.pk))
            result = _failed(sync, IMPORT_FAILED, f"The import failed: {type(error).__name__}.")
    give_back(lease, **result)
    # Not before: until the row says that everything is read, nobody can fork the session.
    pace.rest()


def _read(sync: SessionSync, lease: Lease, pace: Pace, must_pause: Callable[[], bool]) -> dict[str, Any]:
    """Read, and say how the row is given back."""
    adapter = registry.adapters().get(sync.session.provider)
    if adapter is None:
        return _failed(sync, runners.ADAPTER_MISSING, "No adapter for this kind of agent is installed here.")
    stamp = sync.stamp_seen
    try:
        complete = Reading(sync, lease, adapter, pace).run(must_pause)
    except SessionFenced:
        return {"again_in": FENCED_SECONDS, "hurry": Hurry.LIVE, "state": SyncState.DEFERRED}
    except SessionGone:
        return {"again_in": TOMBSTONED_SECONDS}
    except Unreadable as error:
        if error.code == TRANSCRIPT_MISSING:
            return transcript_missing()
        return _failed(sync, error.code, error.message)
    if not complete:
        return {"again_in": 0.0, "hurry": Hurry.WANTED if sync.wanted_at else Hurry.BACKLOG}
    if sync.session.activity == Activity.UNKNOWN:
        Session.objects.filter(pk=sync.pk, activity=Activity.UNKNOWN).update(activity=Activity.IDLE)
    return {
        "unless_seen": stamp,
        "stamp_imported": stamp,
        "state": SyncState.IMPORTED,
        "wanted_at": None,
        "problem_code": "",
        "problem_text": "",
        "attempts": 0,
    }


def _failed(sync: SessionSync, code: str, sentence: str) -> dict[str, Any]:
    return {
        "again_in": min(2.0**sync.attempts, LONGEST_BACKOFF_SECONDS),
        "state": SyncState.FAILED,
        "problem_code": code[:64],
        "problem_text": sentence,
    }
