"""A session's row beside its history: making it, naming it, hiding it."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from forkhost.kit import clock
from sessions import payloads, titles
from sessions.choices import Activity, AuditAction, Visibility
from sessions.errors import SessionAlreadyExists, SessionFenced, SessionNotFound
from sessions.models import EventLog, Family, Home, Session, SessionAudit, WorkClaim, Workspace
from sessions.store import guards
from sessions.store.reserving import take_id

FREE_FACTS = frozenset(
    {
        "activity",
        "observed_parent_id",
        "observed_parent_provider_id",
        "preview",
        "project",
        "provider_facts",
        "provider_version",
        "title",
        "updated_at_unix_ms",
        "visibility",
        "worktree_isolated",
    }
)
# What a fork under the strict contract needs unchanged.
FENCED_FACTS = frozenset({"cwd", "effort", "model", "provider_session_id", "runtime_context", "settings"})
CREATION_FACTS = (
    FREE_FACTS
    | FENCED_FACTS
    | {"kind", "parent_session_id", "parent_tool_call_id", "parent_turn_id", "pinned", "root_session_id"}
)


@transaction.atomic
def create(
    *,
    workspace: Workspace,
    provider: str,
    session_id: uuid.UUID | None = None,
    home: Home | None = None,
    provider_session_id: str | None = None,
    title: str = "",
    cwd: str = "",
    model: str = "",
    settings: dict[str, Any] | None = None,
    created_by: Any = None,
    created_at_unix_ms: int | None = None,
    **facts: Any,
) -> Session:
    """Make an empty session with a family of its own; ``facts`` are further columns (``CREATION_FACTS``).

    Raises :class:`SessionAlreadyExists` when the id is or was taken, or the home has a session of that provider id;
    TypeError for a fact that is none.
    """
    _refuse_unknown(facts, CREATION_FACTS)
    chosen = session_id or uuid.uuid4()
    take_id(chosen)
    created = clock.now_ms() if created_at_unix_ms is None else created_at_unix_ms
    facts = _stored({"activity": Activity.IDLE, "updated_at_unix_ms": created, **facts})
    session = Session(
        id=chosen,
        workspace=workspace,
        provider=provider,
        home=home,
        provider_session_id=provider_session_id or None,
        title=payloads.plain(title),
        cwd=payloads.plain(cwd),
        model=payloads.clip(model, 200),
        settings=payloads.plain_json(settings or {}),
        created_by=created_by,
        created_at_unix_ms=created,
        family=Family.objects.create(title=payloads.plain(title) or facts.get("preview", "")),
        log=EventLog.objects.create(first_seq=1, made_by=chosen),
        **facts,
    )
    try:
        with transaction.atomic():
            session.save(force_insert=True)
    except IntegrityError as error:
        raise SessionAlreadyExists(f"The session {chosen} or the provider's session exists already.") from error
    return session


def _refuse_unknown(facts: dict[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(facts) - known)
    if unknown:
        raise TypeError(f"not a fact that can be written here: {', '.join(unknown)}")


def _stored(facts: dict[str, Any]) -> dict[str, Any]:
    lengths = {"preview": 200, "model": 200, "effort": 64, "provider_version": 64}
    result: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, str):
            result[name] = payloads.clip(value, lengths[name]) if name in lengths else payloads.plain(value)
        else:
            result[name] = payloads.plain_json(value) if isinstance(value, dict) else value
    return result


@transaction.atomic
def update_facts(session_id: uuid.UUID, **facts: Any) -> None:
    """Write what the importer learned about a session (``FREE_FACTS``, ``FENCED_FACTS``).

    Raises SessionNotFound; :class:`SessionFenced` when a fenced fact changes under a fence; TypeError for others.
    """
    _refuse_unknown(facts, FREE_FACTS | FENCED_FACTS)
    session = guards.lock(session_id)
    changed = {name: value for name, value in _stored(facts).items() if getattr(session, name) != value}
    if not changed:
        return
    if {"title", "preview"} & set(changed):
        changed["search_due"] = True
    rows = Session.objects.filter(pk=session_id)
    if FENCED_FACTS & set(changed):
        rows = rows.filter(write_fence__isnull=True)
    if rows.update(version=F("version") + 1, **changed) != 1:
        raise SessionFenced("A fork that is under way needs this session's settings unchanged.")
    if {"title", "preview"} & set(changed):
        titles.name_family(session, changed.get("title", session.title) or changed.get("preview", session.preview))


def rename(session_id: uuid.UUID, title: str) -> None:
    """Give the session another title; free also under a fence. Raises SessionNotFound."""
    update_facts(session_id, title=title)


def set_pinned(session_id: uuid.UUID, pinned: bool) -> None:
    """Pin or unpin; free also under a fence. Raises SessionNotFound."""
    if not Session.objects.filter(pk=session_id).update(pinned=pinned, version=F("version") + 1):
        raise SessionNotFound(f"There is no session {session_id}.")


def set_visibility(session_id: uuid.UUID, visibility: Visibility | str) -> None:
    """Show the session, and its sub-agents' lanes, to the workspace or to its creator alone. Raises SessionNotFound."""
    rows = Session.objects.filter(Q(pk=session_id) | Q(root_session_id=session_id))
    if not rows.update(visibility=Visibility(visibility), version=F("version") + 1):
        raise SessionNotFound(f"There is no session {session_id}.")


# Hiding ---------------------------------------------------------------------------------------------------------------


@transaction.atomic
def tombstone(session_id: uuid.UUID, *, actor: str = "system") -> None:
    """Hide the session and its sub-agents' lanes; restore undoes it. Nothing happens when it is hidden already.

    Raises SessionNotFound, :class:`SessionFenced`.
    """
    session = guards.lock(session_id)
    if session.write_fence is not None:
        raise SessionFenced("A fork that is under way needs this session.")
    rows = _with_lanes(session_id).filter(tombstoned_at__isnull=True, write_fence__isnull=True)
    if rows.update(tombstoned_at=clock.now(), version=F("version") + 1):
        audit(session, AuditAction.TOMBSTONE, actor)


@transaction.atomic
def restore(session_id: uuid.UUID, *, actor: str = "system", reason: str = "") -> None:
    """Show a hidden session and its lanes again. Raises SessionNotFound."""
    session = guards.lock(session_id)
    if _with_lanes(session_id).filter(tombstoned_at__isnull=False).update(tombstoned_at=None, version=F("version") + 1):
        audit(session, AuditAction.RESTORE, actor, reason)


@transaction.atomic
def detach(session_id: uuid.UUID, detached: bool = True, *, actor: str = "system") -> None:
    """Show the session apart from its source; lineage stays. Raises SessionNotFound."""
    session = guards.lock(session_id)
    rows = Session.objects.filter(pk=session_id).exclude(detached=detached)
    if rows.update(detached=detached, version=F("version") + 1):
        audit(session, AuditAction.DETACH if detached else AuditAction.ATTACH, actor)


def _with_lanes(session_id: uuid.UUID) -> Any:
    return Session.objects.filter(Q(pk=session_id) | Q(root_session_id=session_id))


def audit(session: Session, action: AuditAction, actor: str, reason: str = "", **detail: Any) -> None:
    """Keep what somebody did to a session, in the transaction that does it; the reason where one was asked for."""
    SessionAudit.objects.create(
        workspace_id=session.workspace_id,
        session_id=session.pk,
        actor=payloads.clip(actor, 200),
        action=action,
        detail={**detail, "reason": reason} if reason else detail,
    )


# Work claims ----------------------------------------------------------------------------------------------------------


@transaction.atomic
def open_claim(session_id: uuid.UUID, kind: str, note: str = "") -> WorkClaim:
    """Note something unfinished on the session. Raises the refusals of a history write."""
    guards.advance(guards.writable(session_id))
    return WorkClaim.objects.create(session_id=session_id, kind=kind, note=payloads.plain(note))


@transaction.atomic
def settle_claim(session_id: uuid.UUID, claim_id: uuid.UUID) -> bool:
    """Mark a claim as finished; False: it is finished already, or not of this session. Raises as a history write."""
    guards.advance(guards.writable(session_id))
    rows = WorkClaim.objects.filter(pk=claim_id, session_id=session_id, settled_at__isnull=True)
    return rows.update(settled_at=clock.now()) == 1
