"""Which session came from which, and the family that this makes."""

from __future__ import annotations

import enum
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions.models import Lineage, Session

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from sessions.store.snapshots import Snapshot


class Relation(enum.StrEnum):
    """How a session of a family hangs below the one above it."""

    ROOT = "root"
    FORK = "fork"
    OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class FamilyNode:
    """One row of the indented list. ``lineage`` is set for forks made here, also when their source is gone."""

    session: Session
    depth: int
    relation: Relation
    lineage: Lineage | None


def record(
    *,
    child_session_id: uuid.UUID,
    workspace_id: uuid.UUID,
    source_session_id: uuid.UUID,
    source_turn_id: uuid.UUID | None,
    source_seq: int,
    source_ordinal: int | None,
    target_turn_id: uuid.UUID | None,
    operation_id: uuid.UUID,
    forked_at_unix_ms: int,
) -> Lineage:
    """Write the lineage of a new child, inside the transaction that makes it."""
    return Lineage.objects.create(
        child_session_id=child_session_id,
        workspace_id=workspace_id,
        source_session_id=source_session_id,
        source_turn_id=source_turn_id,
        source_seq=source_seq,
        source_ordinal=source_ordinal,
        target_turn_id=target_turn_id,
        operation_id=operation_id,
        forked_at_unix_ms=forked_at_unix_ms,
    )


def record_from(snapshot: Snapshot, child: Session, *, operation_id: uuid.UUID, at_unix_ms: int) -> Lineage:
    """The lineage of a child just made from ``snapshot``, at the last turn of the prefix."""
    from sessions import history

    source = Session.objects.filter(pk=snapshot.source_session_id).first()
    ordinal = snapshot.turn_count or None
    source_turn = history.turn_by_ordinal(source, ordinal) if source is not None and ordinal else None
    target_turn = history.turn_by_ordinal(child, ordinal) if ordinal else None
    return record(
        child_session_id=child.pk,
        workspace_id=child.workspace_id,
        source_session_id=snapshot.source_session_id,
        source_turn_id=source_turn.id if source_turn else None,
        source_seq=snapshot.boundary,
        source_ordinal=ordinal,
        target_turn_id=target_turn.id if target_turn else None,
        operation_id=operation_id,
        forked_at_unix_ms=at_unix_ms,
    )


def lineage_of(session_id: uuid.UUID) -> Lineage | None:
    """Where the session was forked from, None for a plain root."""
    return Lineage.objects.filter(pk=session_id).first()


def forks_of(session_id: uuid.UUID) -> list[Lineage]:
    """The forks made of the session, oldest first; their sessions may be gone."""
    return list(Lineage.objects.filter(source_session_id=session_id).order_by("forked_at_unix_ms", "child_session_id"))


def family(session: Session, user: User | AnonymousUser) -> list[FamilyNode]:
    """The living sessions of the family that ``user`` may see, each below the one it came from, oldest first.

    A session whose parent is gone, hidden, detached from, or part of a cycle stands at the top.
    """
    members = {
        member.pk: member
        for member in Session.objects.visible_to(user)
        .living()
        .roots()
        .filter(family_id=session.family_id)
        .order_by("created_at_unix_ms", "pk")
        .defer("binding_map")
    }
    lineages = Lineage.objects.in_bulk(list(members))
    children: dict[uuid.UUID | None, list[uuid.UUID]] = defaultdict(list)
    for pk, member in members.items():
        parent = _parent(member, lineages.get(pk))
        children[parent if parent in members and parent != pk and not member.detached else None].append(pk)
    placed: set[uuid.UUID] = set()
    nodes: list[FamilyNode] = []
    # What no walk from the top reaches is part of a cycle; its oldest member goes to the top.
    for top in [*children[None], *members]:
        for pk, depth in _walk(top, children, placed):
            member = members[pk]
            nodes.append(FamilyNode(member, depth, _relation(member, lineages.get(pk)), lineages.get(pk)))
    return nodes


def _parent(session: Session, lineage: Lineage | None) -> uuid.UUID | None:
    parent: uuid.UUID | None = lineage.source_session_id if lineage else session.observed_parent_id
    return parent


def _relation(session: Session, lineage: Lineage | None) -> Relation:
    if lineage is not None:
        return Relation.FORK
    return Relation.OBSERVED if session.observed_parent_id else Relation.ROOT


def _walk(
    top: uuid.UUID, children: dict[uuid.UUID | None, list[uuid.UUID]], placed: set[uuid.UUID]
) -> Iterator[tuple[uuid.UUID, int]]:
    waiting = [(top, 0)]
    while waiting:
        pk, depth = waiting.pop()
        if pk in placed:
            continue
        placed.add(pk)
        yield pk, depth
        waiting.extend((child, depth + 1) for child in reversed(children.get(pk, [])))
