"""Who may decide about unknown forks."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from operations.models import Operation
from sessions.choices import MemberRole
from sessions.models import Membership

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

PERMISSION = "operations.settle_operation"


def workspaces_of(user: User | AnonymousUser) -> set[uuid.UUID]:
    """The workspaces in which the user may decide: an operator there, with the permission."""
    if user.pk is None or not user.has_perm(PERMISSION):
        return set()
    memberships = Membership.objects.filter(user_id=user.pk, role=MemberRole.OPERATOR)
    return set(memberships.values_list("workspace_id", flat=True))


def may_settle(user: User | AnonymousUser, operation: Operation) -> bool:
    """Whether the user may decide about this operation."""
    return operation.workspace_id in workspaces_of(user)
