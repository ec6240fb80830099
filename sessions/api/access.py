"""What a caller may reach: every view of the API starts here, so that another tenant's id is a 404 everywhere."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User

from forkhost.kit.problems import Problem
from sessions import disposal
from sessions.api.projections import with_relations
from sessions.capabilities import is_hosted
from sessions.models import Session, Workspace

NOT_FOUND_SENTENCE = "There is nothing here, or it is not yours to see."
SESSION_NOT_HOSTED = "session_not_hosted"


def not_found(code: str) -> Problem:
    """The one answer for what does not exist and for what belongs to somebody else."""
    return Problem(code, 404, NOT_FOUND_SENTENCE)


def workspace_for(user: User, workspace_id: uuid.UUID) -> Workspace:
    """A workspace the user is a member of. Raises a 404."""
    workspace: Workspace | None = Workspace.objects.visible_to(user).filter(pk=workspace_id).first()
    if workspace is None:
        raise not_found("workspace_not_found")
    return workspace


def session_for(user: User, workspace_id: uuid.UUID, session_id: uuid.UUID) -> Session:
    """A living session the user may see, with its relations. Raises a 404."""
    visible = Session.objects.visible_to(user).living().filter(workspace_id=workspace_id, pk=session_id)
    session: Session | None = with_relations(visible).first()
    if session is None:
        raise not_found("session_not_found")
    return session


def deleted_session_for(user: User, workspace_id: uuid.UUID, session_id: uuid.UUID) -> Session:
    """A deleted session the user may see. Raises a 404, for a living one too."""
    deleted = disposal.bin_of(user).filter(workspace_id=workspace_id, pk=session_id)
    session: Session | None = with_relations(deleted).first()
    if session is None:
        raise not_found("session_not_found")
    return session


def hosted_session_for(user: User, workspace_id: uuid.UUID, session_id: uuid.UUID) -> Session:
    """The same, for writing its history. Raises a 404, or a 409 when an agent's own transcript is its history."""
    session = session_for(user, workspace_id, session_id)
    if not is_hosted(session):
        raise Problem(
            SESSION_NOT_HOSTED,
            409,
            "This session's history comes from its agent; only hosted sessions are written here.",
        )
    return session
