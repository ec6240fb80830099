"""Workspaces in the admin: their switches, the homes of their forks, and their webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse

from forkhost.kit.read_only import ReadOnlyAdmin
from sessions import disposal, switches
from sessions.admin_forms import ForkHomeForm, SwitchForm, WebhookForm
from sessions.choices import ForkContract, Settlement
from sessions.models import ForkHome, Workspace

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

Rows = models.QuerySet[Any]


@admin.register(Workspace)
class WorkspaceAdmin(ReadOnlyAdmin):
    """Workspaces, with pages for their switches, the homes of their forks, and their webhook."""

    list_display = ("name", "slug", "fork_contract", "forks_enabled", "settlement", "created_at")
    exclude = ("webhook_secret",)
    formfield_overrides = {models.URLField: {"assume_scheme": "https"}}
    search_fields = ("name", "slug")
    change_form_template = "admin/sessions/workspace_change.html"

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=Workspace.objects.visible_to(user).values("pk"))

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
        if not disposal.operates(cast("User", request.user), workspace.pk):
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
