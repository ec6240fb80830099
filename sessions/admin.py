"""Sessions and what belongs to them, to look at. Workspaces have a module of their own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from forkhost.kit.read_only import ReadOnlyAdmin, pretty
from sessions import admin_bin, admin_workspaces
from sessions.models import (
    Attachment,
    Blob,
    EventLog,
    Family,
    ForkHome,
    Home,
    Interaction,
    Lineage,
    Membership,
    Runner,
    Segment,
    Session,
    SessionAudit,
    SessionSync,
    Turn,
    WorkClaim,
    Workspace,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

__all__ = ["admin_workspaces"]

Rows = models.QuerySet[Any]


def _workspaces(user: User | AnonymousUser) -> Rows:
    return Workspace.objects.visible_to(user).values("pk")


def _sessions(user: User | AnonymousUser) -> Rows:
    return Session.objects.visible_to(user).values("pk")


def _logs(user: User | AnonymousUser) -> Rows:
    return Segment.objects.filter(session__in=_sessions(user)).values("log")


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    """Who is a member where."""

    list_display = ("user", "workspace", "role")
    list_select_related = ("user", "workspace")
    list_filter = ("role",)
    search_fields = ("user__username",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(workspace__in=_workspaces(user))


@admin.register(Runner)
class RunnerAdmin(ReadOnlyAdmin):
    """Machines."""

    list_display = ("name", "workspace", "last_seen_at", "incarnation")
    list_select_related = ("workspace",)
    search_fields = ("name",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(workspace__in=_workspaces(user))


@admin.register(Home)
class HomeAdmin(ReadOnlyAdmin):
    """The agents' state folders."""

    list_display = ("provider", "path", "runner", "attested_at", "scanned_at", "problem_code")
    list_select_related = ("runner",)
    list_filter = ("provider",)
    search_fields = ("path",)
    readonly_fields = ("what_it_proved",)
    exclude = ("attestation",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(runner__workspace__in=_workspaces(user))

    @admin.display(description="attestation")
    def what_it_proved(self, home: Home) -> SafeString:
        """The stored attestation."""
        return pretty(home.attestation)


@admin.register(ForkHome)
class ForkHomeAdmin(ReadOnlyAdmin):
    """Homes in which workspaces want their forks to live."""

    list_display = ("workspace", "provider", "home")
    list_select_related = ("workspace", "home")
    list_filter = ("provider",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(workspace__in=_workspaces(user))


@admin.register(Family)
class FamilyAdmin(ReadOnlyAdmin):
    """Families and their title counters."""

    list_display = ("title", "next_number")
    search_fields = ("title",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=Session.objects.visible_to(user).values("family"))


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Sessions, with pages to restore and to purge deleted ones; the conversation is on the session's own page."""

    list_display = ("shown_title", "provider", "kind", "turn_count", "activity", "workspace", "tombstoned_at")
    list_select_related = ("workspace",)
    list_filter = (admin_bin.InTheBin, "provider", "kind", "activity", "visibility")
    search_fields = ("title", "preview", "provider_session_id", "=id")
    readonly_fields = ("page", "settings_json", "provider_facts_json", "runtime_context_json")
    exclude = ("settings", "provider_facts", "runtime_context", "binding_map")
    change_form_template = "admin/sessions/session_change.html"

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_sessions(user)).defer("binding_map")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:session_id>/restore/", view(self.restore), name="agent_sessions_session_restore"),
            path("<uuid:session_id>/purge/", view(self.purge), name="agent_sessions_session_purge"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        offered = {"may_dispose": admin_bin.offered(self, request, object_id)}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **offered})

    def restore(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        """Take a session out of the bin, with a reason."""
        return admin_bin.restore(self, request, session_id)

    def purge(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        """Remove a deleted session for good, with a reason, after what goes and what stays was shown."""
        return admin_bin.purge(self, request, session_id)

    @admin.display(description="session", ordering="title")
    def shown_title(self, session: Session) -> str:
        """Its title, or what stands in for it."""
        return str(session)[:120]

    @admin.display(description="page")
    def page(self, session: Session) -> SafeString:
        """The way to the conversation."""
        return format_html('<a href="{}">Read it</a>', reverse("sessions:detail", args=[session.pk]))

    @admin.display(description="settings")
    def settings_json(self, session: Session) -> SafeString:
        """What it runs with."""
        return pretty(session.settings)

    @admin.display(description="provider facts")
    def provider_facts_json(self, session: Session) -> SafeString:
        """What the adapter keeps about it."""
        return pretty(session.provider_facts)

    @admin.display(description="runtime context")
    def runtime_context_json(self, session: Session) -> SafeString:
        """Where it runs."""
        return pretty(session.runtime_context)


@admin.register(SessionSync)
class SessionSyncAdmin(ReadOnlyAdmin):
    """How far each transcript is imported."""

    list_display = ("session", "state", "bytes_done", "bytes_total", "damage_count", "problem_code", "next_run_at")
    list_select_related = ("session",)
    list_filter = ("state",)
    search_fields = ("session__title", "path")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(session__in=_sessions(user))


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    """Which parts of which logs sessions show."""

    list_display = ("session", "position", "log", "first_seq", "last_seq", "first_turn", "last_turn")
    list_select_related = ("session", "log")
    search_fields = ("=session__id",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(session__in=_sessions(user))


@admin.register(EventLog)
class EventLogAdmin(ReadOnlyAdmin):
    """Logs. Their events have no page here; the session's page shows them."""

    list_display = ("id", "first_seq", "made_by")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_logs(user))


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin):
    """Turns as their logs hold them."""

    list_display = ("id", "log", "ordinal", "phase", "outcome", "binding_state", "shown_prompt")
    list_select_related = ("log",)
    list_filter = ("phase", "outcome", "binding_state")
    search_fields = ("=id", "prompt", "provider_turn_id")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(log__in=_logs(user))

    @admin.display(description="prompt")
    def shown_prompt(self, turn: Turn) -> str:
        """Its beginning."""
        return turn.prompt[:80]


@admin.register(Interaction)
class InteractionAdmin(ReadOnlyAdmin):
    """What waits, or waited, for a person."""

    list_display = ("id", "kind", "state", "log", "asked_seq", "closed_seq")
    list_select_related = ("log",)
    list_filter = ("kind", "state")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(log__in=_logs(user))


@admin.register(WorkClaim)
class WorkClaimAdmin(ReadOnlyAdmin):
    """What is unfinished on sessions."""

    list_display = ("session", "kind", "note", "created_at", "settled_at")
    list_select_related = ("session",)
    list_filter = ("kind",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(session__in=_sessions(user))


@admin.register(Lineage)
class LineageAdmin(ReadOnlyAdmin):
    """Where forks came from."""

    list_display = ("child_session_id", "source_session_id", "source_ordinal", "operation_id", "forked_at_unix_ms")
    search_fields = ("=child_session_id", "=source_session_id", "=operation_id")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(workspace_id__in=_workspaces(user))


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    """Which records point to which files."""

    list_display = ("name", "log", "seq", "position", "blob")
    list_select_related = ("log", "blob")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(log__in=_logs(user))


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    """Stored files."""

    list_display = ("sha256", "size", "media_type", "created_at")
    search_fields = ("=sha256",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=Attachment.objects.filter(log__in=_logs(user)).values("blob"))


@admin.register(SessionAudit)
class SessionAuditAdmin(ReadOnlyAdmin):
    """What people did to sessions and workspaces."""

    list_display = ("at", "action", "actor", "session_id")
    list_filter = ("action",)
    search_fields = ("actor", "=session_id")
    readonly_fields = ("detail_json",)
    exclude = ("detail",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(workspace_id__in=_workspaces(user))

    @admin.display(description="detail")
    def detail_json(self, row: SessionAudit) -> SafeString:
        """What exactly."""
        return pretty(row.detail)
