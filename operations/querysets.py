"""Which operations somebody sees, and which need work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from operations.choices import OPEN_STATUSES, OperationStatus
from sessions.choices import MemberRole, Visibility
from sessions.models import Membership, Session

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


class OperationQuerySet(models.QuerySet[Any]):
    """Fork operations."""

    def visible_to(self, user: User | AnonymousUser) -> OperationQuerySet:
        """Those of the user's workspaces; of others' private sessions only what the user asked for or has to settle."""
        if not user.is_authenticated:
            return self.none()
        memberships = Membership.objects.filter(user_id=user.pk)
        settled_by_user = memberships.filter(role=MemberRole.OPERATOR)
        hidden = Session.objects.filter(visibility=Visibility.PRIVATE).exclude(created_by_id=user.pk).values("pk")
        return self.filter(workspace_id__in=memberships.values("workspace_id")).filter(
            Q(requested_by_id=user.pk)
            | Q(workspace_id__in=settled_by_user.values("workspace_id"))
            | ~(Q(source_session_id__in=hidden) | Q(target_session_id__in=hidden))
        )

    def open(self) -> OperationQuerySet:
        """Still on their way: prepared, dispatching, accepted by the provider."""
        return self.filter(status__in=OPEN_STATUSES)

    def unknown(self) -> OperationQuerySet:
        """Nobody knows yet whether the provider made the child."""
        return self.filter(status=OperationStatus.UNKNOWN)

    def queue(self) -> OperationQuerySet:
        """What an operator looks after: unknown, or something that needs a person."""
        return self.filter(Q(unknown_since__isnull=False) | Q(needs_person=True))


class AppendOnly(Exception):
    """Somebody tried to change what was seen or done; a mistake in forkhost, never in a request."""


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Rows that are written once."""

    def update(self, **values: Any) -> int:
        raise AppendOnly(self.model.__name__)

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnly(self.model.__name__)
