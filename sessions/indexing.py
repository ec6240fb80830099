"""Keeping the search index up with histories and titles: a step of the worker, never part of an import.

A session says that it is due in the update that changes it; how far a log is indexed stands on the log, so what forks
share is indexed once. Each step is short, and several workers may take steps at the same time: whoever comes second
finds the log or the session moved, and writes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction

from sessions import search_index, words
from sessions.models import Event, EventLog, SearchDocument, Segment, Session
from sessions.payloads import parse
from sessions.places import TITLE, Place

SESSIONS_A_STEP = 40
# One step holds SQLite's only write lock for some milliseconds.
EVENTS_A_STEP = 60
BYTES_A_STEP = 120_000
# Reading skips what is not indexed, so a step may move further than it writes.
SEQS_A_STEP = 2_000


@dataclass(frozen=True, slots=True)
class _Lag:
    """A log that the index is behind of, through ``shown``; ``searched`` is how far it stood, 0 before its first event."""

    log_id: int
    first_seq: int
    searched: int
    shown: int
    workspace_id: uuid.UUID


@dataclass(slots=True)
class _Batch:
    """What one step writes of one log."""

    lag: _Lag
    through: int
    documents: list[SearchDocument]
    size: int


def step() -> bool:
    """Index some of what is due, newest activity first; False: nothing is due, or others are at it."""
    due = list(
        Session.objects.filter(search_due=True)
        .order_by("-updated_at_unix_ms")
        .only("pk", "log_id", "workspace_id", "title", "preview", "last_seq", "version")[:SESSIONS_A_STEP]
    )
    if not due:
        return False
    lags = _lags(due)
    behind = {session_id for session_id, lag in lags if lag is not None}
    indexed = _index({lag.log_id: lag for _, lag in lags if lag is not None}.values())
    return _finish([session for session in due if session.pk not in behind]) or indexed


def catch_up() -> None:
    """Index everything that is due, now."""
    while step():
        pass


def _lags(due: Sequence[Session]) -> list[tuple[uuid.UUID, _Lag | None]]:
    sessions = {session.pk: session for session in due}
    rows = Segment.objects.filter(session_id__in=sessions).order_by("log_id", "last_seq")
    found: list[tuple[uuid.UUID, _Lag | None]] = []
    for session_id, log_id, first_seq, searched, last_seq in rows.values_list(
        "session_id", "log_id", "first_seq", "log__searched_seq", "last_seq"
    ):
        session = sessions[session_id]
        shown = session.last_seq if last_seq is None else last_seq
        lag = _Lag(log_id, first_seq, searched, shown, session.workspace_id) if searched < shown else None
        found.append((session_id, lag))
    return found


def _index(lags: Iterable[_Lag]) -> bool:
    batches: list[_Batch] = []
    events, size = EVENTS_A_STEP, BYTES_A_STEP
    for lag in lags:
        batch = _read(lag, events, size)
        batches.append(batch)
        events -= len(batch.documents) + 1
        size -= batch.size
        if events <= 0 or size <= 0:
            break
    with transaction.atomic():
        written = [_write(batch) for batch in batches]
    return any(written)


def _read(lag: _Lag, events: int, size: int) -> _Batch:
    """The next events of a log as documents; at least one of them, however large."""
    first = max(lag.searched + 1, lag.first_seq)
    through = min(lag.shown, first + SEQS_A_STEP)
    rows = Event.objects.filter(log_id=lag.log_id, seq__gte=first, seq__lte=through).order_by("seq")
    batch = _Batch(lag, lag.searched, [], 0)
    mine = words.workspace_word(lag.workspace_id)
    for seq, kind, payload in rows.values_list("seq", "kind", "payload").iterator(chunk_size=100):
        if batch.documents and (len(batch.documents) >= events or batch.size >= size):
            return batch
        batch.through = seq
        text = words.normalised(words.event_text(kind, parse(payload))) if words.is_indexed(kind) else ""
        if text:
            batch.documents.append(SearchDocument(id=Place(lag.log_id, seq).number, words=f"{mine} {text}"))
            batch.size += len(text)
    return batch


def _write(batch: _Batch) -> bool:
    """The log's row keeps other workers and a purge out; where a purge cut the log meanwhile, nothing is written."""
    if batch.through == batch.lag.searched:
        return False
    log_id = batch.lag.log_id
    rows = EventLog.objects.filter(pk=log_id, searched_seq=batch.lag.searched)
    if not rows.update(searched_seq=batch.through):
        return False
    if not Event.objects.filter(log_id=log_id, seq=batch.through).exists():
        EventLog.objects.filter(pk=log_id).update(searched_seq=batch.lag.searched)
        return False
    SearchDocument.objects.bulk_create(batch.documents)
    return True


@transaction.atomic
def _finish(sessions: Sequence[Session]) -> bool:
    """Index the titles of sessions whose history is indexed; one that changed meanwhile stays due."""
    done = [
        session
        for session in sorted(sessions, key=lambda session: session.pk)
        if Session.objects.filter(pk=session.pk, version=session.version, search_due=True).update(search_due=False)
    ]
    if not done:
        return False
    made = EventLog.objects.filter(made_by__in=[session.pk for session in done])
    search_index.forget_titles(set(made.values_list("pk", flat=True)) | {session.log_id for session in done})
    SearchDocument.objects.bulk_create(_title(session) for session in done)
    return True


def _title(session: Session) -> SearchDocument:
    text = words.normalised(f"{session.title} {session.preview}")
    number = Place(session.log_id, TITLE).number
    return SearchDocument(id=number, words=f"{words.workspace_word(session.workspace_id)} {text}")
