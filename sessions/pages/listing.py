"""The list of sessions: what it can be narrowed by, and its pages by key."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from sessions import search
from sessions.capabilities import Capability, session_capability
from sessions.choices import Activity, SyncState
from sessions.filters import TEXT_LIMIT, SessionFilterSet
from sessions.models import Lineage, Session, SessionSync, Workspace
from sessions.payloads import plain
from sessions.providers import registry
from sessions.querysets import SessionQuerySet

PAGE_SIZE = 30
RECENT_FOR_CHOICES = 400
FOLDERS_SHOWN = 60

IMPORTING, MISSING, FORKED = "importing", "missing", "forked"
STATES: tuple[tuple[str, str], ...] = (
    (Activity.RUNNING.value, "Running"),
    (Activity.WAITING.value, "Waiting for a person"),
    (Activity.IDLE.value, "Idle"),
    (IMPORTING, "Being imported"),
    (MISSING, "Transcript gone"),
    (FORKED, "Forks only"),
)


@dataclass(slots=True)
class Row:
    """A session in the list."""

    session: Session
    capability: Capability
    sync: SessionSync | None
    lineage: Lineage | None
    hit: search.Hit | None

    @property
    def importing(self) -> bool:
        """Whether its history is not here yet, or is being read."""
        return self.sync is not None and self.sync.state in (SyncState.LISTED, SyncState.IMPORTING)


@dataclass(slots=True)
class Listing:
    """One page. ``narrowed``: a filter is in force, so that an empty list means something else.

    ``truncated``: the words looked for are so common that not all of their places were looked at.
    """

    rows: list[Row]
    next_cursor: str
    previous: bool
    narrowed: bool
    truncated: bool
    providers: list[tuple[str, str]]
    folders: list[str]
    workspaces: list[Workspace]
    workspace: Workspace | None


def listing(user: User, query: QueryDict) -> Listing:
    """The page that ``query`` asks for: ``workspace``, ``q``, ``provider``, ``cwd``, ``state``, ``cursor``.

    Values that mean nothing narrow nothing; a cursor that cannot be read starts at the top.
    """
    workspaces = list(Workspace.objects.visible_to(user))
    workspace = _chosen(workspaces, query.get("workspace", ""))
    if workspace is None:
        return Listing([], "", False, False, False, [], [], workspaces, None)
    # One workspace at a time: the index behind this list starts with it.
    everything: SessionQuerySet = Session.objects.visible_to(user).living().roots().filter(workspace=workspace)
    asked = _text(query, "q").strip()
    found = search.find(user, asked, workspace) if asked else None
    narrowed = _narrow(found.sessions if found is not None else everything, query, few=found is not None)
    cursor = _decode(query.get("cursor", ""))
    page = _after(narrowed, cursor).select_related("home__runner", "sync").order_by("-updated_at_unix_ms", "-id")
    sessions = list(page[: PAGE_SIZE + 1])
    more = len(sessions) > PAGE_SIZE
    sessions = sessions[:PAGE_SIZE]
    recent = list(everything.order_by("-updated_at_unix_ms", "-id").values_list("provider", "cwd")[:RECENT_FOR_CHOICES])
    return Listing(
        _rows(sessions, found),
        _encode(sessions[-1]) if more else "",
        cursor is not None,
        any(query.get(name, "").strip() for name in ("q", "provider", "cwd", "state")),
        found is not None and found.truncated,
        _providers({provider for provider, _ in recent} | ({_text(query, "provider")} - {""})),
        _folders([cwd for _, cwd in recent], query.get("cwd", "")),
        workspaces,
        workspace,
    )


@dataclass(slots=True)
class Results:
    """One page of what was found across the reader's workspaces. ``asked`` is the text as it can be looked for."""

    asked: str
    rows: list[Row]
    next_cursor: str
    previous: bool
    truncated: bool


def results(user: User, query: QueryDict) -> Results:
    """The page of a search that ``query`` asks for: ``q``, ``cursor``; nothing is found for no words."""
    asked = _text(query, "q").strip()[:TEXT_LIMIT]
    found = search.find(user, asked)
    cursor = _decode(query.get("cursor", ""))
    page = _after(found.sessions.roots(), cursor).select_related("home__runner", "sync")
    sessions = list(page.order_by("-updated_at_unix_ms", "-id")[: PAGE_SIZE + 1])
    more = len(sessions) > PAGE_SIZE
    sessions = sessions[:PAGE_SIZE]
    return Results(
        asked, _rows(sessions, found), _encode(sessions[-1]) if more else "", cursor is not None, found.truncated
    )


def _chosen(workspaces: Sequence[Workspace], wanted: str) -> Workspace | None:
    return next((workspace for workspace in workspaces if workspace.slug == wanted), next(iter(workspaces), None))


def _narrow(sessions: SessionQuerySet, query: QueryDict, *, few: bool) -> SessionQuerySet:
    data: MultiValueDict[str, str] = MultiValueDict(
        {name: [_text(query, name)] for name in ("provider", "cwd") if query.get(name)}
    )
    chosen = SessionFilterSet(data, queryset=sessions, few=few)
    if chosen.is_valid():
        sessions = chosen.qs
    return sessions.filter(_state(query.get("state", "")))


def _text(query: QueryDict, name: str) -> str:
    """A value as both databases can take it."""
    return plain(str(query.get(name, "")))


def _state(state: str) -> Q:
    if state in Activity.values:
        return Q(activity=state)
    if state == FORKED:
        return Q(fork_operation_id__isnull=False) | Q(observed_parent_id__isnull=False)
    if state in (IMPORTING, MISSING):
        states = [SyncState.MISSING] if state == MISSING else [SyncState.LISTED, SyncState.IMPORTING]
        return Q(pk__in=SessionSync.objects.filter(state__in=states).values("session"))
    return Q()


def _rows(sessions: list[Session], found: search.Found | None) -> list[Row]:
    lineages = Lineage.objects.in_bulk([session.pk for session in sessions if session.fork_operation_id is not None])
    hits = {hit.session.pk: hit for hit in found.hits(sessions)} if found is not None else {}
    return [
        Row(
            session,
            session_capability(session),
            getattr(session, "sync", None),
            lineages.get(session.pk),
            hits.get(session.pk),
        )
        for session in sessions
    ]


def provider_label(provider: str) -> str:
    """The name people know the agent by."""
    adapter = registry.adapters().get(provider)
    return adapter.label if adapter is not None else provider.capitalize()


def _providers(found: set[str]) -> list[tuple[str, str]]:
    return sorted(((provider, provider_label(provider)) for provider in found), key=lambda pair: pair[1].lower())


def _folders(recent: Sequence[str], chosen: str) -> list[str]:
    folders = dict.fromkeys(folder for folder in [chosen, *recent] if folder)
    return sorted(list(folders)[:FOLDERS_SHOWN])


# --------------------------------------------------------------------------------------------------------------------
# The cursor: the last row's key


Key = tuple[int, uuid.UUID]


def _encode(session: Session) -> str:
    key = json.dumps([session.updated_at_unix_ms, str(session.pk)])
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _decode(cursor: str) -> Key | None:
    try:
        at, pk = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return (at, uuid.UUID(pk)) if isinstance(at, int) and abs(at) < 2**62 else None
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
        return None


def _after(sessions: SessionQuerySet, cursor: Key | None) -> SessionQuerySet:
    if cursor is None:
        return sessions
    at, pk = cursor
    return sessions.filter(Q(updated_at_unix_ms__lte=at), Q(updated_at_unix_ms__lt=at) | Q(pk__lt=pk))
