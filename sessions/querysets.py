"""Who sees what, said once. Every page, API view and admin list starts from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from sessions.choices import SessionKind, Visibility

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


class WorkspaceQuerySet(models.QuerySet[Any]):
    """Workspaces."""

    def visible_to(self, user: User | AnonymousUser) -> WorkspaceQuerySet:
        """Those the user is a member of; membership alone decides, also for superusers."""
        return self.filter(memberships__user_id=user.pk) if user.is_authenticated else self.none()


class SessionQuerySet(models.QuerySet[Any]):
    """Sessions."""

    def visible_to(self, user: User | AnonymousUser) -> SessionQuerySet:
        """Those of the user's workspaces, private ones of others left out."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(workspace__memberships__user_id=user.pk).filter(
            Q(visibility=Visibility.WORKSPACE) | Q(created_by_id=user.pk)
        )

    def living(self) -> SessionQuerySet:
        """Not tombstoned."""
        return self.filter(tombstoned_at__isnull=True)

    def roots(self) -> SessionQuerySet:
        """Conversations of their own, forks included; sub-agents' lanes left out."""
        return self.filter(kind=SessionKind.ROOT)
