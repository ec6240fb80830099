"""The admin of both apps: everything can be looked at, nothing can be changed by hand.

History and operations each have one write path. What an operator may do is a named act with a page of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

JSON_LIMIT = 20_000


class ReadOnlyAdmin(admin.ModelAdmin[Any]):
    """Shows rows to staff, those of their own workspaces alone; membership decides, also for superusers."""

    actions: Sequence[Any] | None = None
    show_full_result_count = False
    list_per_page = 50

    def visible(self, rows: models.QuerySet[Any], user: User | AnonymousUser) -> models.QuerySet[Any]:
        """The rows this user may see."""
        raise NotImplementedError

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return self.visible(super().get_queryset(request), request.user)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_staff(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_staff(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _is_staff(request: HttpRequest) -> bool:
    user = cast("User", request.user)
    return user.is_active and user.is_staff


def pretty(value: Any) -> SafeString:
    """JSON for people, escaped, cut where it is very long; a string is taken as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return format_html('<pre tabindex="0">{}</pre>', _clean(value[:JSON_LIMIT]))
    text = json.dumps(value, indent=2, ensure_ascii=True, default=str)
    if len(text) > JSON_LIMIT:
        text = text[:JSON_LIMIT] + "\n… (cut here)"
    return format_html('<pre tabindex="0">{}</pre>', text)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")
