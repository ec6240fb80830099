"""How sessions, turns, events and what hangs on them look in the API. Plain dicts in camelCase, free of any request.

The ``*_page`` functions take many rows and ask for what they share at once; the single ones are the same for one.
Sessions come best from :func:`with_relations`, so that no row asks again for its home, runner and sync.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from forkhost.kit import clock
from sessions import usage
from sessions.capabilities import session_capability, turn_capability
from sessions.history import EventView, InteractionView, TurnView
from sessions.lineage import FamilyNode
from sessions.models import Home, Lineage, Runner, Session, SessionSync, WorkClaim, Workspace
from sessions.providers.base import HomeRef, SessionRef
from sessions.providers.registry import UnknownProvider, adapter
from sessions.querysets import SessionQuerySet
from sessions.search import Hit

Json = dict[str, Any]


def with_relations(sessions: SessionQuerySet) -> SessionQuerySet:
    """The same sessions with everything a projection reads, in one query."""
    return sessions.select_related("home__runner", "sync")


# --------------------------------------------------------------------------------------------------------------------
# Sessions


def session_json(session: Session, *, user: User | None = None, lineage: Lineage | None = None) -> Json:
    """One session. ``user`` None is the record's own view; a reader is not told ids of parents they may not see.

    ``lineage`` is the session's, where the caller has it.
    """
    return sessions_page([session], user=user, lineages=None if lineage is None else {session.pk: lineage})[0]


def sessions_page(
    sessions: Sequence[Session], *, user: User | None = None, lineages: Mapping[uuid.UUID, Lineage] | None = None
) -> list[Json]:
    """Sessions in the order given; at most two queries whatever their number. ``lineages`` saves one of them."""
    if lineages is None:
        forked = [session.pk for session in sessions if session.fork_operation_id is not None]
        lineages = Lineage.objects.in_bulk(forked) if forked else {}
    parents = {session.observed_parent_id for session in sessions if session.observed_parent_id is not None}
    if user is not None and parents:
        parents = set(Session.objects.visible_to(user).filter(pk__in=parents).values_list("pk", flat=True))
    return [_session(session, lineages.get(session.pk), parents) for session in sessions]


def _session(session: Session, lineage: Lineage | None, parents: set[uuid.UUID]) -> Json:
    capability = session_capability(session)
    return {
        "id": str(session.pk),
        "workspaceId": str(session.workspace_id),
        "provider": session.provider,
        "providerSessionId": session.provider_session_id,
        "runner": _runner_of(session),
        "kind": session.kind,
        "rootAgentSessionId": _id(session.root_session_id),
        "parentAgentSessionId": _id(session.parent_session_id),
        "parentTurnId": _id(session.parent_turn_id),
        "parentToolCallId": session.parent_tool_call_id,
        "title": session.title,
        "preview": session.preview,
        "cwd": session.cwd,
        "model": session.model,
        "settings": session.settings,
        "visibility": session.visibility,
        "pin": session.pinned,
        "detached": session.detached,
        "deletedAtUnixMs": _ms(session.tombstoned_at),
        "createdAtUnixMs": session.created_at_unix_ms,
        "updatedAtUnixMs": session.updated_at_unix_ms,
        "turnCount": session.turn_count,
        "lastSeq": session.last_seq,
        "seedLength": session.seed_length,
        "historyRevision": session.history_revision,
        "activity": session.activity,
        "lifecycleCapabilities": {
            "fork": capability.fork,
            "forkThroughTurn": capability.fork_through_turn,
            "reason": capability.reason or None,
        },
        "forkedFrom": lineage_json(lineage) if lineage is not None else None,
        "observedParent": _observed_parent(session, parents),
        "resumeCommand": resume_command(session) or None,
    }


def _runner_of(session: Session) -> Json | None:
    if session.home is None:
        return None
    return {"id": str(session.home.runner_id), "name": session.home.runner.name}


def _observed_parent(session: Session, visible: set[uuid.UUID]) -> Json | None:
    if not session.observed_parent_provider_id:
        return None
    known = session.observed_parent_id if session.observed_parent_id in visible else None
    return {"agentSessionId": _id(known), "providerSessionId": session.observed_parent_provider_id}


def resume_command(session: Session) -> str:
    """What a person types in a terminal to go on with the session, "" where there is none. Starts no process."""
    if session.home is None or not session.provider_session_id:
        return ""
    try:
        found = adapter(session.provider)
    except UnknownProvider:
        return ""
    return found.resume_command(_ref(session, session.home, session.provider_session_id))


def _ref(session: Session, home: Home, provider_session_id: str) -> SessionRef:
    sync = getattr(session, "sync", None)
    path = Path(sync.path) if sync is not None and sync.path else None
    return SessionRef(HomeRef(home.provider, Path(home.path)), provider_session_id, path, session.cwd)


def lineage_json(lineage: Lineage) -> Json:
    """Where a fork came from."""
    return {
        "sourceAgentSessionId": str(lineage.source_session_id),
        "sourceTurnId": _id(lineage.source_turn_id),
        "targetTurnId": _id(lineage.target_turn_id),
        "operationId": str(lineage.operation_id),
        "forkedAtUnixMs": lineage.forked_at_unix_ms,
    }


def family_page(nodes: Sequence[FamilyNode], *, user: User) -> list[Json]:
    """A family as an indented list. ``session`` is the whole projection."""
    shown = sessions_page([node.session for node in nodes], user=user)
    return [
        {
            "depth": node.depth,
            "relation": node.relation,
            "lineage": lineage_json(node.lineage) if node.lineage is not None else None,
            "session": session,
        }
        for node, session in zip(nodes, shown, strict=True)
    ]


def session_detail_json(session: Session, *, user: User) -> Json:
    """One session with what its turns used, those it inherited apart, and how far its transcript is read."""
    used = usage.of_session(session)
    shown = session_json(session, user=user)
    return {
        **shown,
        "usage": {"own": used.own, "inherited": used.inherited},
        "transcript": _transcript(getattr(session, "sync", None)),
    }


def _transcript(sync: SessionSync | None) -> Json | None:
    if sync is None:
        return None
    problem = {"code": sync.problem_code, "message": sync.problem_text} if sync.problem_code else None
    return {
        "state": sync.state,
        "bytesDone": sync.bytes_done,
        "bytesTotal": sync.bytes_total,
        "damagedLines": sync.damage_count,
        "problem": problem,
    }


def hit_json(hit: Hit, session: Json) -> Json:
    """Where a search found its words; ``session`` is the whole projection. ``snippet`` is plain text."""
    return {
        "session": session,
        "seq": hit.seq,
        "kind": hit.kind or None,
        "turnOrdinal": hit.turn_ordinal,
        "prompt": hit.prompt,
        "snippet": hit.snippet,
    }


# --------------------------------------------------------------------------------------------------------------------
# Turns and events


def turns_page(session: Session, turns: Sequence[TurnView], *, user: User) -> list[Json]:
    """Turns in the order given, each with whether it can be forked at and the forks made there; two queries."""
    capability = session_capability(session)
    forks = _forks_by_turn(session, turns, user) if turns else {}
    page = []
    for turn in turns:
        forkable, reason, _ = turn_capability(session, turn, capability)
        page.append(turn_json(turn, forkable=forkable, reason=reason, forks=forks.get(turn.ordinal, [])))
    return page


def turn_json(turn: TurnView, *, forkable: bool, reason: str, forks: Sequence[Json]) -> Json:
    """One turn. ``reason`` is the stable code why it cannot be forked at."""
    return {
        "id": str(turn.id),
        "ordinal": turn.ordinal,
        "phase": turn.phase,
        "outcome": turn.outcome,
        "prompt": turn.prompt,
        "model": turn.model,
        "firstSeq": turn.first_seq,
        "lastSeq": turn.last_seq,
        "startedAtUnixMs": turn.started_at_unix_ms,
        "settledAtUnixMs": turn.settled_at_unix_ms,
        "usage": usage.numbers(turn.usage),
        "bindingState": turn.binding_state,
        "forkable": forkable,
        "reason": reason or None,
        "inherited": turn.inherited,
        "forks": list(forks),
    }


def _forks_by_turn(session: Session, turns: Sequence[TurnView], user: User) -> Mapping[int, list[Json]]:
    """The living forks the user may see, by the ordinal of the source's turn."""
    ordinals = [turn.ordinal for turn in turns]
    lineages = list(
        Lineage.objects.filter(
            source_session_id=session.pk, source_ordinal__gte=min(ordinals), source_ordinal__lte=max(ordinals)
        ).order_by("forked_at_unix_ms", "child_session_id")
    )
    if not lineages:
        return {}
    children = Session.objects.visible_to(user).living().in_bulk([lineage.child_session_id for lineage in lineages])
    forks: dict[int, list[Json]] = defaultdict(list)
    for lineage in lineages:
        child = children.get(lineage.child_session_id)
        if child is not None and lineage.source_ordinal is not None:
            forks[lineage.source_ordinal].append(
                {
                    "agentSessionId": str(child.pk),
                    "title": child.title,
                    "operationId": str(lineage.operation_id),
                    "forkedAtUnixMs": lineage.forked_at_unix_ms,
                }
            )
    return forks


def event_json(event: EventView) -> Json:
    """One event; ids inside the payload are those of the session it is shown in."""
    return {
        "seq": event.seq,
        "messageId": _id(event.message_id),
        "turnId": _id(event.turn_id),
        "kind": event.kind,
        "atUnixMs": event.at_unix_ms,
        "payload": event.payload,
        "inherited": event.inherited,
    }


# --------------------------------------------------------------------------------------------------------------------
# What waits, what is unfinished


def interaction_json(interaction: InteractionView) -> Json:
    """A question, approval or plan; what was asked and answered is in the events at the two seqs."""
    return {
        "id": str(interaction.id),
        "key": interaction.key,
        "turnOrdinal": interaction.turn_no,
        "kind": interaction.kind,
        "state": interaction.state,
        "askedSeq": interaction.asked_seq,
        "closedSeq": interaction.closed_seq,
        "inherited": interaction.inherited,
    }


def claim_json(claim: WorkClaim) -> Json:
    """Something unfinished on a session; open while ``settledAtUnixMs`` is null."""
    return {
        "id": str(claim.pk),
        "agentSessionId": str(claim.session_id),
        "kind": claim.kind,
        "note": claim.note,
        "createdAtUnixMs": clock.to_ms(claim.created_at),
        "settledAtUnixMs": _ms(claim.settled_at),
    }


def workspace_json(workspace: Workspace, *, role: str) -> Json:
    """A workspace as one of its members sees it."""
    return {
        "id": str(workspace.pk),
        "name": workspace.name,
        "slug": workspace.slug,
        "forkContract": workspace.fork_contract,
        "forksEnabled": workspace.forks_enabled,
        "role": role,
    }


def runner_json(runner: Runner, homes: Iterable[Home]) -> Json:
    """A machine and the agents' state folders on it."""
    return {
        "id": str(runner.pk),
        "workspaceId": str(runner.workspace_id),
        "name": runner.name,
        "lastSeenAtUnixMs": _ms(runner.last_seen_at),
        "homes": [_home(home) for home in homes],
    }


def _home(home: Home) -> Json:
    attestation = home.attestation or {}
    return {
        "id": str(home.pk),
        "provider": home.provider,
        "path": home.path,
        "driverKind": attestation.get("driver_kind"),
        "driverVersion": attestation.get("driver_version"),
        "points": attestation.get("points"),
        "reason": attestation.get("reason") or home.problem_code or None,
        "detail": attestation.get("detail") or home.problem_text or None,
        "attestedAtUnixMs": _ms(home.attested_at),
    }


def _id(value: uuid.UUID | None) -> str | None:
    return str(value) if value is not None else None


def _ms(at: dt.datetime | None) -> int | None:
    return clock.to_ms(at) if at is not None else None
