"""The one guarded update that every history write begins with."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.db.models import F

from sessions.errors import SessionFenced, SessionGone, SessionNotFound, StaleSession, StoreError
from sessions.models import Session

P = ParamSpec("P")
R = TypeVar("R")


def in_transaction(function: Callable[P, R]) -> Callable[P, R]:
    """Run in the caller's transaction, or in one of its own; without a savepoint, so only for what writes at most once."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if transaction.get_connection().in_atomic_block:
            return function(*args, **kwargs)
        with transaction.atomic():
            return function(*args, **kwargs)

    return run


def lock(session_id: uuid.UUID, *, key: bool = False) -> Session:
    """The session with its row locked until the transaction ends, without its binding map.

    ``key`` locks it for removal. SQLite needs no row lock: the transaction already holds the one write lock.
    Raises :class:`SessionNotFound`. Lock order everywhere: session, log, operation.
    """
    # Without the log: a join would lose the row when a rewind that was waited for gave it another log.
    session = Session.objects.select_for_update(no_key=not key).defer("binding_map").filter(pk=session_id).first()
    if session is None:
        raise SessionNotFound(f"There is no session {session_id}.")
    found: Session = session
    return found


def writable(
    session_id: uuid.UUID, *, expected_last_seq: int | None = None, expected_revision: int | None = None
) -> Session:
    """The locked session, proven free for a history write.

    Raises SessionNotFound, :class:`StaleSession`, :class:`SessionGone` or :class:`SessionFenced`.
    """
    session = lock(session_id)
    refuse_unwritable(session, expected_last_seq=expected_last_seq, expected_revision=expected_revision)
    return session


def refuse_unwritable(
    session: Session, *, expected_last_seq: int | None = None, expected_revision: int | None = None
) -> None:
    """Raise what :func:`writable` raises when ``session``, as it was read, is not free for a history write."""
    if expected_revision is not None and session.history_revision != expected_revision:
        raise StaleSession("The session was rewound since it was read.")
    if expected_last_seq is not None and session.last_seq != expected_last_seq:
        raise StaleSession(f"The session ends at event {session.last_seq}, not at {expected_last_seq}.")
    if session.tombstoned_at is not None:
        raise SessionGone("The session is in the bin.")
    if session.write_fence is not None:
        raise SessionFenced("A fork that is under way needs this session unchanged.")


def advance(session: Session, *, unchanged: bool = False, **changes: Any) -> None:
    """Write ``changes`` to the session row, provided that nobody fenced, binned or moved it; one row or an error.

    ``unchanged`` demands that nothing at all was written to the row since it was read: for a session that was read
    without locking it.
    """
    rows = Session.objects.filter(
        pk=session.pk,
        write_fence__isnull=True,
        tombstoned_at__isnull=True,
        last_seq=session.last_seq,
        history_revision=session.history_revision,
    )
    if unchanged:
        rows = rows.filter(version=session.version)
    if rows.update(version=F("version") + 1, search_due=True, **changes) != 1:
        raise _refusal(session)


def _refusal(session: Session) -> StoreError:
    now = Session.objects.filter(pk=session.pk).values("write_fence", "tombstoned_at").first()
    if now is None:
        return SessionNotFound(f"There is no session {session.pk}.")
    if now["tombstoned_at"] is not None:
        return SessionGone("The session is in the bin.")
    if now["write_fence"] is not None:
        return SessionFenced("A fork that is under way needs this session unchanged.")
    return StaleSession("The session changed while it was being written.")
