"""Tokens and sign-in links, to look at. Their secrets are not stored and their digests are not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models

from forkhost.kit.read_only import ReadOnlyAdmin
from forkhost.models import ApiToken, SignInLink

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

Rows = models.QuerySet[Any]


def _own_or_all(rows: Rows, user: User | AnonymousUser) -> Rows:
    return rows if user.is_superuser else rows.filter(user_id=user.pk)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """The reader's own; superusers see everybody's."""

    list_display = ("prefix", "name", "user", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__username")
    exclude = ("digest",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return _own_or_all(rows, user)


@admin.register(SignInLink)
class SignInLinkAdmin(ReadOnlyAdmin):
    """The reader's own; superusers see everybody's."""

    list_display = ("user", "created_at", "expires_at", "used_at")
    list_select_related = ("user",)
    exclude = ("digest",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return _own_or_all(rows, user)
