"""The workspace everything belongs to on a machine of one's own, and who is a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.choices import MemberRole
from sessions.models import Membership, Workspace

if TYPE_CHECKING:
    from django.contrib.auth.models import User

DEFAULT_SLUG = "default"
DEFAULT_NAME = "Default"


def default_workspace() -> Workspace:
    """The workspace that runners and new users join unless told otherwise; made when it is missing."""
    workspace, _ = Workspace.objects.get_or_create(slug=DEFAULT_SLUG, defaults={"name": DEFAULT_NAME})
    return workspace


def join(user: User, workspace: Workspace, role: MemberRole = MemberRole.MEMBER) -> Membership:
    """Make ``user`` a member. The role of somebody who already is one stays as it is."""
    membership, _ = Membership.objects.get_or_create(workspace=workspace, user=user, defaults={"role": role})
    return membership
