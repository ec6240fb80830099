"""Making a child from a frozen source."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from forkhost.kit import clock
from sessions import identities, lineage, payloads, titles
from sessions.choices import Activity, SessionKind
from sessions.errors import HistoryGone, SessionAlreadyExists
from sessions.models import Event, EventLog, Segment, Session
from sessions.store import bindings, freezing
from sessions.store.reserving import hold_id, take_id
from sessions.store.snapshots import Snapshot

# What a child takes over as it stood at its source when it was frozen.
INHERITED = (
    "provider",
    "provider_version",
    "preview",
    "project",
    "cwd",
    "model",
    "effort",
    "settings",
    "runtime_context",
    "visibility",
    "worktree_isolated",
)


def materialise(
    snapshot: Snapshot,
    child_session_id: uuid.UUID,
    *,
    operation_id: uuid.UUID,
    title: str,
    family_id: uuid.UUID | None = None,
    provider_session_id: str | None = None,
    binding_map: Mapping[Any, Any] | None = None,
    binding_kept: bool = False,
    home_id: uuid.UUID | None = None,
    created_by_id: int | None = None,
    at_unix_ms: int | None = None,
    provider_facts: dict[str, Any] | None = None,
) -> Session:
    """Make the child from the snapshot alone, inside the caller's transaction, which has to end when this raises.

    The live source is never read.

    ``binding_map`` maps inherited turn ordinals to their own binding in the child (TurnBinding or
    ``[provider_turn_id, data]``); with ``binding_kept`` the other turns keep the source's, without it they stay
    unbound. ``family_id`` and ``home_id`` default to the source's. Writes one session, one log and a row per segment,
    whatever the length of the history. Lineage is the caller's.

    Raises :class:`SessionAlreadyExists`, :class:`HistoryGone` (purged, or not what was frozen),
    :class:`BindingConflict`.
    """
    hold_id(child_session_id, operation_id)
    _hold_logs(snapshot)
    at_unix_ms = clock.now_ms() if at_unix_ms is None else at_unix_ms
    log = EventLog.objects.create(
        first_seq=snapshot.boundary + 1, seed_digest=bytes.fromhex(snapshot.digest), made_by=child_session_id
    )
    facts = snapshot.session
    child = Session(
        id=child_session_id,
        workspace_id=uuid.UUID(facts["workspace_id"]),
        home_id=home_id or (uuid.UUID(facts["home_id"]) if facts["home_id"] else None),
        created_by_id=created_by_id,
        kind=SessionKind.ROOT,
        family_id=family_id or uuid.UUID(facts["family_id"]),
        fork_operation_id=operation_id,
        title=payloads.plain(title),
        log=log,
        last_seq=snapshot.boundary,
        seed_length=snapshot.boundary,
        turn_count=snapshot.turn_count,
        activity=Activity.IDLE,
        binding_map=_child_map(snapshot, binding_map, kept=binding_kept),
        binding_kept=binding_kept,
        provider_session_id=provider_session_id or None,
        provider_facts=provider_facts or {},
        created_at_unix_ms=at_unix_ms,
        updated_at_unix_ms=at_unix_ms,
        **{name: facts[name] for name in INHERITED},
    )
    try:
        with transaction.atomic(savepoint=False):
            child.save(force_insert=True)
    except IntegrityError as error:
        raise SessionAlreadyExists(
            f"The session {child_session_id} or the provider's session {provider_session_id} exists already."
        ) from error
    Segment.objects.bulk_create(
        Segment(
            session_id=child.pk,
            position=position,
            log_id=part.log_id,
            first_seq=part.first_seq,
            last_seq=part.last_seq,
            first_turn=part.first_turn if part.last_turn >= part.first_turn else None,
            last_turn=part.last_turn if part.last_turn >= part.first_turn else None,
        )
        for position, part in enumerate(snapshot.segments)
    )
    return child


def _hold_logs(snapshot: Snapshot) -> None:
    """Keep a purge away from the frozen logs until the child shows them, and prove that they are what was frozen."""
    ids = sorted(snapshot.shown)
    if connection.vendor == "postgresql" and ids:
        # Shared among forks, excluded by the FOR UPDATE of a purge.
        table = connection.ops.quote_name(EventLog._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", [ids])  # noqa: S608
    ends = Q(pk__in=[])
    for segment in snapshot.segments:
        ends |= Q(log_id=segment.log_id, seq=segment.last_seq)
    found = {row["seq"]: bytes(row["digest"]).hex() for row in Event.objects.filter(ends).values("seq", "digest")}
    if len(found) != len(snapshot.segments) or found.get(snapshot.boundary, "") != snapshot.digest:
        raise HistoryGone("The frozen history is gone, or is not what was frozen.")


def _child_map(snapshot: Snapshot, binding_map: Mapping[Any, Any] | None, *, kept: bool) -> dict[str, list[Any]] | None:
    given = bindings.normalised_map(binding_map, snapshot.turn_count)
    if not kept:
        return given
    # "Kept" means the source's own view: what the source itself inherited comes from its map, never from its source.
    inherited: dict[str, list[Any]] = {}
    if not snapshot.bindings_kept:
        inherited = {str(ordinal): ["", {}] for ordinal in range(1, snapshot.seed_turns + 1)}
    return {**inherited, **(snapshot.binding_map or {}), **(given or {})} or None


@transaction.atomic(durable=True)
def fork(
    source: uuid.UUID | Session,
    boundary: int | None = None,
    child_session_id: uuid.UUID | None = None,
    *,
    title: str | None = None,
    created_by_id: int | None = None,
    binding_kept: bool = False,
) -> Session:
    """Freeze and materialise in one transaction, with lineage: the fork of a session that no provider holds.

    ``title`` defaults to the family's next number. Raises, checked in this order: SessionNotFound,
    :class:`StaleSession`, :class:`SessionAlreadyExists`, :class:`InvalidForkBoundary`, :class:`ForkInsideTurn`.
    """
    session = freezing.lock_source(source)
    child_id = child_session_id or uuid.uuid4()
    operation_id = identities.direct_fork_id(child_id)
    take_id(child_id, operation_id)
    snapshot = freezing.take(session, freezing.checked_boundary(session, boundary))
    at_unix_ms = clock.now_ms()
    child = materialise(
        snapshot,
        child_id,
        operation_id=operation_id,
        title=titles.fork_title(session.family_id) if title is None else title,
        binding_kept=binding_kept,
        created_by_id=created_by_id,
        at_unix_ms=at_unix_ms,
    )
    lineage.record_from(snapshot, child, operation_id=operation_id, at_unix_ms=at_unix_ms)
    return child
