"""Finds the provider sessions of a home and lists them, before anything of their content is read.

A listed session has its title, preview, folder and times; its transcript waits in its :class:`SessionSync` row. What is
found is compared with what is known by stamp, so a look at an unchanged home writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from forkhost.kit import clock, wakeups
from sessions import families, holdings, runners, store
from sessions.choices import Activity, AuditAction, SessionKind, SyncState
from sessions.errors import SessionFenced, StoreError
from sessions.models import Home, Session, SessionAudit, SessionSync
from sessions.providers.base import Adapter, DiscoveredSession
from sessions.syncing import HEAD_START, WAKE_UP, Hurry, transcript_missing

log = structlog.get_logger(__name__)

BATCH = 50
PAUSE_SECONDS = 0.002
PROVIDER_TITLE = "providerTitle"


class Scanner:
    """Looks at one home again and again. Keeps the known stamps in memory; the rows stay the truth.

    Two scanners of one home (a lease that ran out) do the same work twice and change nothing the second time.
    """

    def __init__(self, home: Home, adapter: Adapter) -> None:
        self.home = home
        self.adapter = adapter
        self.ref = runners.home_ref(home)
        rows = SessionSync.objects.filter(session__home=home).exclude(stamp_seen="")
        self.known: dict[str, str] = {
            str(provider_id): stamp
            for provider_id, stamp in rows.values_list("session__provider_session_id", "stamp_seen")
        }
        self._orphans: dict[str, str] = {}
        _queue_unfinished(home)

    def scan(self) -> int:
        """List what is new and note what changed; how many. Raises ``Unreadable`` when the home is gone."""
        seen = 0
        lanes: list[DiscoveredSession] = []
        batch: list[DiscoveredSession] = []
        for found in self.adapter.discover(self.ref, {**self._orphans, **self.known}):
            seen += 1
            (lanes if found.parent_provider_session_id else batch).append(found)
            if len(batch) >= BATCH:
                self._record(batch)
                batch = []
        self._record(batch)
        # A lane may be newer than its parent and nested in another lane, so parents come first, level by level.
        self._record_lanes(lanes)
        if seen:
            families.link_observed_parents(self.home.pk)
        return seen

    def note_missing(self) -> int:
        """Mark the sessions whose transcripts are gone; how many. Raises ``Unreadable``."""
        present = self.adapter.present(self.ref)
        gone = [provider_id for provider_id in self.known if provider_id not in present]
        for provider_id in gone:
            self.known.pop(provider_id)
            # By the id alone: an update through a join would not ask again who holds the row once it has waited for it.
            session_ids = Session.objects.filter(home=self.home, provider_session_id=provider_id).values("pk")
            sync = SessionSync.objects.filter(session_id__in=session_ids, lease_token__isnull=True)
            sync.exclude(state=SyncState.MISSING).update(**transcript_missing(), stamp_seen="", next_run_at=None)
        self._orphans.clear()
        return len(gone)

    def _record(self, batch: list[DiscoveredSession], parents: Mapping[str, Session] | None = None) -> None:
        if not batch:
            return
        existing = self._sessions(found.ref.provider_session_id for found in batch)
        listable = self._listable([found for found in batch if found.ref.provider_session_id not in existing])
        wanted = [found for found in batch if found.ref.provider_session_id in existing.keys() | listable]
        with transaction.atomic():
            for found in wanted:
                session = existing.get(found.ref.provider_session_id)
                if session is None:
                    self._list(found, (parents or {}).get(found.parent_provider_session_id))
                else:
                    self._note(session, found)
            wakeups.notify(WAKE_UP)
        self.known.update({found.ref.provider_session_id: found.stamp for found in wanted})
        time.sleep(PAUSE_SECONDS)

    def _record_lanes(self, lanes: list[DiscoveredSession]) -> None:
        while lanes:
            parents = self._sessions(lane.parent_provider_session_id for lane in lanes)
            ready = [lane for lane in lanes if lane.parent_provider_session_id in parents]
            if not ready:
                self._orphans.update({lane.ref.provider_session_id: lane.stamp for lane in lanes})
                return
            for start in range(0, len(ready), BATCH):
                self._record(ready[start : start + BATCH], parents)
            lanes = [lane for lane in lanes if lane.parent_provider_session_id not in parents]

    def _purged(self, batch: list[DiscoveredSession]) -> set[str]:
        """Those that somebody removed for good: they are not listed again, whatever their transcripts do."""
        stamps = {found.ref.provider_session_id: found.stamp for found in batch}
        if not stamps:
            return set()
        purges = SessionAudit.objects.filter(
            action=AuditAction.PURGE,
            detail__homeId=str(self.home.pk),
            detail__providerSessionId__in=list(stamps),
        )
        purged = {str(detail["providerSessionId"]) for detail in purges.values_list("detail", flat=True)}
        self.known.update({provider_id: stamps[provider_id] for provider_id in purged})
        return purged

    def _listable(self, batch: list[DiscoveredSession]) -> set[str]:
        """Those that become sessions: nobody removed them for good, and no unfinished fork claims them."""
        purged = self._purged(batch)
        left = [found for found in batch if found.ref.provider_session_id not in purged]
        held = holdings.claims(self.home.pk, left)
        for provider_id, claim in held.items():
            log.debug("provider_session_held", session=provider_id, by=str(claim.operation_id), reason=claim.reason)
        lasting = {provider_id for provider_id, claim in held.items() if claim.lasting}
        stamps = {found.ref.provider_session_id: found.stamp for found in left}
        self.known.update({provider_id: stamps[provider_id] for provider_id in lasting})
        return stamps.keys() - held.keys()

    def _sessions(self, provider_ids: Iterable[str]) -> dict[str, Session]:
        rows = Session.objects.filter(home=self.home, provider_session_id__in=set(provider_ids))
        return {str(session.provider_session_id): session for session in rows}

    def _list(self, found: DiscoveredSession, parent: Session | None) -> None:
        """Make the session's row; somebody else may have made it a moment ago."""
        try:
            with transaction.atomic():
                session = store.create(**_facts_of_new(self.home, found, parent))
                SessionSync.objects.create(session=session, **self._seen(found, Hurry.BACKLOG))
        except (IntegrityError, StoreError):
            made = Session.objects.get(home=self.home, provider_session_id=found.ref.provider_session_id)
            self._note(made, found)

    def _note(self, session: Session, found: DiscoveredSession) -> None:
        """Bring a known session's facts up to what was found, and queue what there is to read."""
        _update_facts(session, found)
        sync, _ = SessionSync.objects.get_or_create(session=session)
        state = sync.state
        if state == SyncState.MISSING:
            state = SyncState.IMPORTED if sync.stamp_imported else SyncState.LISTED
        hurry = Hurry.LIVE if sync.stamp_imported or session.seed_length else Hurry.BACKLOG
        seen = {**self._seen(found, hurry), "bytes_total": Greatest(F("bytes_done"), found.size)}
        SessionSync.objects.filter(pk=sync.pk).update(state=state, attempts=0, **seen)

    def _seen(self, found: DiscoveredSession, hurry: Hurry) -> dict[str, Any]:
        return {
            "queue": str(self.home.runner_id),
            "path": str(found.ref.path or ""),
            "stamp_seen": found.stamp,
            "bytes_total": found.size,
            "next_run_at": clock.database_now(-HEAD_START[hurry]),
        }


def _queue_unfinished(home: Home) -> None:
    """Give work that nobody waits for any more (a restore, a lost wake-up) back to the queue."""
    of_home = Session.objects.filter(home=home).values("pk")
    waiting = SessionSync.objects.filter(session_id__in=of_home, next_run_at__isnull=True).exclude(
        state=SyncState.MISSING
    )
    waiting.exclude(stamp_seen=F("stamp_imported")).filter(~Q(stamp_seen="")).update(next_run_at=clock.database_now())


def _facts_of_new(home: Home, found: DiscoveredSession, parent: Session | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "workspace": home.runner.workspace,
        "provider": home.provider,
        "home": home,
        "provider_session_id": found.ref.provider_session_id,
        "title": found.title,
        "created_at_unix_ms": found.created_at_ms,
        "updated_at_unix_ms": found.updated_at_ms,
        "observed_parent_provider_id": found.observed_parent_id,
        "activity": Activity.UNKNOWN,
        "model": found.model,
        "provider_facts": {**found.extra, PROVIDER_TITLE: found.title},
        **_facts_that_change(found),
    }
    if parent is not None:
        facts |= {
            "kind": SessionKind.CHILD,
            "parent_session_id": parent.pk,
            "root_session_id": parent.root_session_id or parent.pk,
            "parent_tool_call_id": found.parent_tool_call_id or None,
            "visibility": parent.visibility,
        }
    return facts


def _facts_that_change(found: DiscoveredSession) -> dict[str, Any]:
    return {
        "preview": found.preview,
        "cwd": found.ref.cwd,
        "provider_version": found.provider_version,
        "settings": found.settings,
        "worktree_isolated": found.worktree_isolated,
    }


def title_facts(session: Session, title: str) -> dict[str, Any]:
    """What to write when the agent calls its session ``title``: a name given here outlives the agent's own."""
    if not title or title == session.provider_facts.get(PROVIDER_TITLE):
        return {}
    facts: dict[str, Any] = {"provider_facts": {**session.provider_facts, PROVIDER_TITLE: title}}
    if session.title in ("", session.provider_facts.get(PROVIDER_TITLE)):
        facts["title"] = title
    return facts


def _update_facts(session: Session, found: DiscoveredSession) -> None:
    titled = title_facts(session, found.title)
    before = session.provider_facts.get(PROVIDER_TITLE, "")
    facts = {name: value for name, value in _facts_that_change(found).items() if value}
    facts["provider_facts"] = {**found.extra, PROVIDER_TITLE: found.title or before}
    if "title" in titled:
        facts["title"] = titled["title"]
    try:
        store.update_facts(session.pk, **facts)
    except SessionFenced:
        # The settings wait for the next change; a running fork needs them as they were frozen.
        free = ("title", "preview", "provider_version", "provider_facts", "worktree_isolated")
        store.update_facts(session.pk, **{name: facts[name] for name in free if name in facts})
