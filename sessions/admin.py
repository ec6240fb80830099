"""Sessions and what belongs to them, to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from forkhost.kit.read_only import ReadOnlyAdmin, pretty
from sessions import switches
from sessions.admin_forms import ForkHomeForm, SwitchForm, WebhookForm
from sessions.choices import ForkContract, MemberRole, Settlement
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

Rows = models.QuerySet[Any]


def _workspaces(user: User | AnonymousUser) -> Rows:
    return Workspace.objects.visible_to(user).values("pk")


def _sessions(user: User | AnonymousUser) -> Rows:
    return Session.objects.visible_to(user).values("pk")


def _logs(user: User | AnonymousUser) -> Rows:
    return Segment.objects.filter(session__in=_sessions(user)).values("log")


@admin.register(Workspace)
class WorkspaceAdmin(ReadOnlyAdmin):
    """Workspaces, with pages for their switches, the homes of their forks, and their webhook."""

    list_display = ("name", "slug", "fork_contract", "forks_enabled", "settlement", "created_at")
    exclude = ("webhook_secret",)
    formfield_overrides = {models.URLField: {"assume_scheme": "https"}}
    search_fields = ("name", "slug")
    change_form_template = "admin/sessions/workspace_change.html"

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_workspaces(user))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:workspace_id>/switch/", view(self.switch), name="agent_sessions_workspace_switch"),
            path("<uuid:workspace_id>/fork-home/", view(self.fork_home), name="agent_sessions_workspace_fork_home"),
            path("<uuid:workspace_id>/webhook/", view(self.webhook), name="agent_sessions_workspace_webhook"),
            *super().get_urls(),
        ]

    def _operated(self, request: HttpRequest, workspace_id: Any) -> Workspace:
        workspace: Workspace = get_object_or_404(self.get_queryset(request), pk=workspace_id)
        user = cast("User", request.user)
        if not Membership.objects.filter(workspace=workspace, user=user, role=MemberRole.OPERATOR).exists():
            raise Http404
        return workspace

    def webhook(self, request: HttpRequest, workspace_id: Any) -> HttpResponse:
        """Set or remove the webhook, with a reason. Its new secret is shown in the answer, once."""
        workspace = self._operated(request, workspace_id)
        form = WebhookForm(request.POST or None, initial={"url": workspace.webhook_url})
        secret = ""
        if request.method == "POST" and form.is_valid():
            actor = f"user:{cast('User', request.user).get_username()}"
            chosen = form.cleaned_data
            secret = switches.set_webhook(workspace, chosen["url"], actor=actor, reason=chosen["reason"])
            if not secret:
                messages.success(request, "Nobody is told any more.")
                return HttpResponseRedirect(reverse("admin:agent_sessions_workspace_change", args=[workspace.pk]))
        context = {**self.admin_site.each_context(request), "title": f"Webhook of {workspace}", "form": form}
        context |= {"workspace": workspace, "secret": secret}
        response = render(request, "admin/sessions/workspace_webhook.html", context)
        response["Cache-Control"] = "no-store"
        return response

    def fork_home(self, request: HttpRequest, workspace_id: Any) -> HttpResponse:
        """Say where later forks of an agent's sessions are to live, with a reason."""
        workspace = self._operated(request, workspace_id)
        form = ForkHomeForm(workspace, request.POST or None)
        if request.method == "POST" and form.is_valid():
            chosen = form.cleaned_data
            actor = f"user:{cast('User', request.user).get_username()}"
            changed = switches.set_fork_home(
                workspace, chosen["provider"], chosen["home"], actor=actor, reason=chosen["reason"]
            )
            _tell(request, changed)
            return HttpResponseRedirect(reverse("admin:agent_sessions_workspace_change", args=[workspace.pk]))
        named = ForkHome.objects.filter(workspace=workspace).select_related("home__runner").order_by("provider")
        context = {**self.admin_site.each_context(request), "title": f"Homes of the forks of {workspace}"}
        context |= {"workspace": workspace, "form": form, "named": named}
        return render(request, "admin/sessions/workspace_fork_home.html", context)

    def switch(self, request: HttpRequest, workspace_id: Any) -> HttpResponse:
        """Turn a switch, with a reason."""
        workspace = self._operated(request, workspace_id)
        facts = {
            "forks_enabled": workspace.forks_enabled,
            "fork_contract": workspace.fork_contract,
            "settlement": workspace.settlement,
        }
        form = SwitchForm(request.POST or None, initial=facts)
        if request.method == "POST" and form.is_valid():
            _turn(request, workspace, form.cleaned_data)
            return HttpResponseRedirect(reverse("admin:agent_sessions_workspace_change", args=[workspace.pk]))
        context = {**self.admin_site.each_context(request), "title": f"Switches of {workspace}", "form": form}
        return render(request, "admin/sessions/workspace_switch.html", {**context, "workspace": workspace})


def _turn(request: HttpRequest, workspace: Workspace, chosen: dict[str, Any]) -> None:
    actor = f"user:{cast('User', request.user).get_username()}"
    reason = chosen["reason"]
    changed = switches.switch_forks(workspace, chosen["forks_enabled"], actor=actor, reason=reason)
    contract = ForkContract(chosen["fork_contract"])
    changed |= switches.switch_contract(workspace, contract, actor=actor, reason=reason)
    settlement = Settlement(chosen["settlement"])
    changed |= switches.switch_settlement(workspace, settlement, actor=actor, reason=reason)
    _tell(request, changed)


def _tell(request: HttpRequest, changed: bool) -> None:
    if changed:
        messages.success(request, "Changed, and recorded with its reason.")
    else:
        messages.warning(request, "It was so already; nothing was changed.")


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
    """Sessions; the conversation itself is on the session's own page."""

    list_display = ("shown_title", "provider", "kind", "turn_count", "activity", "workspace", "tombstoned_at")
    list_select_related = ("workspace",)
    list_filter = ("provider", "kind", "activity", "visibility")
    search_fields = ("title", "preview", "provider_session_id", "=id")
    readonly_fields = ("page", "settings_json", "provider_facts_json", "runtime_context_json")
    exclude = ("settings", "provider_facts", "runtime_context", "binding_map")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_sessions(user)).defer("binding_map")

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
