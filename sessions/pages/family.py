"""Where a session came from and what it is related to, as far as the reader may see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.contrib.auth.models import User

from sessions import lineage, usage
from sessions.choices import SessionKind
from sessions.models import Lineage, Session

DEEPEST_INDENT = 4
NODES_SHOWN = 60
LANES_SHOWN = 50


@dataclass(slots=True)
class Origin:
    """The source of a fork. ``session`` is None when it is gone or not for this reader; ``gone`` says which."""

    lineage: Lineage
    session: Session | None
    gone: bool

    @property
    def title(self) -> str:
        """The source's title, or what to call it when there is none to show."""
        return str(self.session) if self.session is not None else ""


@dataclass(slots=True)
class Node:
    """A member of the family in the indented list."""

    session: Session
    depth: int
    relation: str
    lineage: Lineage | None
    current: bool


def origin_of(agent_session: Session, user: User) -> Origin | None:
    """Where our fork came from; None for a session that is none."""
    if agent_session.fork_operation_id is None:
        return None
    row = lineage.lineage_of(agent_session.pk)
    if row is None:
        return None
    source = Session.objects.visible_to(user).living().filter(pk=row.source_session_id).first()
    gone = source is None and not Session.objects.living().filter(pk=row.source_session_id).exists()
    return Origin(row, source, gone)


def nodes(agent_session: Session, user: User) -> list[Node]:
    """The family as an indented list, empty when the session stands alone. Long families show the neighbourhood."""
    members = lineage.family(agent_session, user)
    if len(members) < 2:
        return []
    here = next((index for index, node in enumerate(members) if node.session.pk == agent_session.pk), 0)
    start = max(0, min(here - NODES_SHOWN // 2, len(members) - NODES_SHOWN))
    return [
        Node(
            node.session,
            min(node.depth, DEEPEST_INDENT),
            node.relation,
            node.lineage,
            node.session.pk == agent_session.pk,
        )
        for node in members[start : start + NODES_SHOWN]
    ]


def totals(agent_session: Session, user: User) -> usage.Totals:
    """What the family's turns used, each counted once; nothing for a session that stands alone."""
    members = lineage.family(agent_session, user)
    return usage.of_family([node.session for node in members]) if len(members) > 1 else {}


def lanes_of(agent_session: Session, user: User) -> list[Session]:
    """The lanes of sub-agents that this session started."""
    lanes = Session.objects.visible_to(user).living().filter(kind=SessionKind.CHILD, parent_session_id=agent_session.pk)
    return list(lanes.order_by("created_at_unix_ms", "id")[:LANES_SHOWN])


def parent_of(agent_session: Session, user: User) -> Session | None:
    """The session that started this lane of a sub-agent."""
    parent: uuid.UUID | None = agent_session.parent_session_id
    if parent is None:
        return None
    found: Session | None = Session.objects.visible_to(user).living().filter(pk=parent).first()
    return found
