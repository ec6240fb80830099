"""What happened: workspaces, sessions and their histories."""

from __future__ import annotations

from sessions.models.history import Event, EventLog, Segment, Turn
from sessions.models.interactions import Interaction, WorkClaim
from sessions.models.lineage import Attachment, Blob, Lineage, SessionAudit
from sessions.models.search import SearchDocument
from sessions.models.sessions import Family, Session, SessionSync, TakenId
from sessions.models.workspaces import ForkHome, Home, Membership, Runner, Workspace

__all__ = [
    "Attachment",
    "Blob",
    "Event",
    "EventLog",
    "Family",
    "ForkHome",
    "Home",
    "Interaction",
    "Lineage",
    "Membership",
    "Runner",
    "SearchDocument",
    "Segment",
    "Session",
    "SessionAudit",
    "SessionSync",
    "TakenId",
    "Turn",
    "WorkClaim",
    "Workspace",
]
