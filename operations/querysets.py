"""Which operations somebody sees, and which need work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from operations.choices import OPEN_STATUSES, OperationStatus
from sessions.models import Membership

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


class OperationQuerySet(models.QuerySet[Any]):
    """Fork operations."""

    def visible_to(self, user: User | AnonymousUser) -> OperationQuerySet:
        """Those of the user's workspaces."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(workspace_id__in=Membership.objects.filter(user_id=user.pk).values("workspace_id"))

    def open(self) -> OperationQuerySet:
        """Still on their way: prepared, dispatching, accepted by the provider."""
        return self.filter(status__in=OPEN_STATUSES)

    def unknown(self) -> OperationQuerySet:
        """Nobody knows yet whether the provider made the child."""
        return self.filter(status=OperationStatus.UNKNOWN)
