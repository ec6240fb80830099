"""The bin in the admin: an operator restores a deleted session, or removes it for good after seeing what that does.

Both go through ``sessions.store`` like everybody's, and are kept with their reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from forkhost.kit import ids
from forkhost.kit.read_only import ReadOnlyAdmin
from sessions import disposal, lineage, store
from sessions.admin_forms import ReasonForm
from sessions.errors import SessionNotFound, StoreError
from sessions.models import Session

if TYPE_CHECKING:
    from django.contrib.auth.models import User

CONFLICT, UNPROCESSABLE = 409, 422


class InTheBin(admin.SimpleListFilter):
    """Deleted sessions alone, or the others alone."""

    title = "bin"
    parameter_name = "bin"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return (("in", "Deleted"), ("out", "Not deleted"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(tombstoned_at__isnull=chosen != "in")


def offered(admin: ReadOnlyAdmin, request: HttpRequest, session_id: str) -> bool:
    """Whether the reader may restore and purge this session now."""
    user = cast("User", request.user)
    try:
        session = _in_the_bin(user, admin.get_queryset(request).filter(pk=ids.parse_id(session_id)).first())
    except ValueError:
        return False
    return session is not None and disposal.operates(user, session.workspace_id)


def restore(admin: ReadOnlyAdmin, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Say what restoring does (GET), or do it (POST)."""
    session = _operated(admin, request, session_id)
    here = reverse("admin:agent_sessions_session_change", args=[session.pk])
    form = ReasonForm(request.POST or None)
    if _in_the_bin(cast("User", request.user), session) is None:
        return _gone(request, here)
    if request.method == "POST" and form.is_valid():
        try:
            store.restore(session.pk, actor=_actor(request), reason=form.cleaned_data["reason"])
        except SessionNotFound as error:
            # Removed for good since the page was asked for.
            raise Http404 from error
        messages.success(request, "The session is restored, and that is recorded with its reason.")
        return HttpResponseRedirect(here)
    lanes = store.foresee(session.pk).lanes
    context = {"title": f"Restore {session}", "session": session, "form": form, "lanes": lanes}
    return _page(admin, request, "admin/sessions/session_restore.html", context, UNPROCESSABLE if form.errors else 200)


def purge(admin: ReadOnlyAdmin, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Say what will go and what survives (GET), or remove it for good (POST)."""
    session = _operated(admin, request, session_id)
    form = ReasonForm(request.POST or None)
    if _in_the_bin(cast("User", request.user), session) is None:
        return _gone(request, reverse("admin:agent_sessions_session_change", args=[session.pk]))
    status, refused = 200, ""
    if request.method == "POST" and form.is_valid():
        try:
            store.purge(session.pk, actor=_actor(request), reason=form.cleaned_data["reason"], deleted_only=True)
        except StoreError as error:
            status, refused = CONFLICT, error.message
        else:
            messages.success(request, f"“{session}” is removed for good, and that is recorded with its reason.")
            return HttpResponseRedirect(reverse("admin:agent_sessions_session_changelist"))
    elif form.errors:
        status = UNPROCESSABLE
    forks = _forks(cast("User", request.user), session)
    context = {
        "title": f"Purge {session}",
        "session": session,
        "form": form,
        "refused": refused,
        "foreseen": store.foresee(session.pk),
        "forks": forks,
        "hidden_forks": len(lineage.forks_of(session.pk)) - len(forks),
    }
    return _page(admin, request, "admin/sessions/session_purge.html", context, status)


def _forks(user: User, session: Session) -> list[Session]:
    """The sessions forked from it that the reader may see."""
    children = [row.child_session_id for row in lineage.forks_of(session.pk)]
    return list(Session.objects.visible_to(user).filter(pk__in=children).order_by("created_at_unix_ms", "pk"))


def _operated(admin: ReadOnlyAdmin, request: HttpRequest, session_id: uuid.UUID) -> Session:
    session: Session = get_object_or_404(admin.get_queryset(request).select_related("home"), pk=session_id)
    if not disposal.operates(cast("User", request.user), session.workspace_id):
        raise PermissionDenied
    return session


def _in_the_bin(user: User, session: Session | None) -> Session | None:
    found: Session | None = disposal.bin_of(user).filter(pk=session.pk).first() if session is not None else None
    return found


def _gone(request: HttpRequest, back: str) -> HttpResponse:
    messages.warning(request, "This session is not in the bin; nothing was changed.")
    return HttpResponseRedirect(back)


def _actor(request: HttpRequest) -> str:
    return f"user:{cast('User', request.user).get_username()}"


def _page(
    admin: ReadOnlyAdmin, request: HttpRequest, template: str, context: dict[str, Any], status: int
) -> HttpResponse:
    whole = {**admin.admin_site.each_context(request), "opts": Session._meta, **context}
    return render(request, template, whole, status=status)
