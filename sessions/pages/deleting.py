"""Deleting a session, the bin, and the ways out of it; and showing a fork apart from its source. All are POSTs."""

from __future__ import annotations

import uuid
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from sessions import disposal, store
from sessions.errors import SessionNotFound, StoreError
from sessions.models import Session

BIN_SHOWN = 200


@require_safe
def deleted(request: HttpRequest) -> HttpResponse:
    """The newest deleted sessions that the reader may see."""
    user = cast("User", request.user)
    rows = [
        (session, disposal.may_purge(user, session))
        for session in disposal.bin_of(user).order_by("-tombstoned_at", "-pk")[:BIN_SHOWN]
    ]
    return render(request, "sessions/deleted.html", {"nav": "sessions", "rows": rows})


@require_POST
def delete(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Put a session into the bin."""
    session = _living(request, session_id)
    try:
        store.tombstone(session.pk, actor=_actor(request))
    except StoreError as error:
        return _refused(request, error, reverse("sessions:detail", args=[session.pk]))
    messages.success(request, "The session is deleted. It can be restored from here.")
    return _see(reverse("sessions:deleted"))


@require_POST
def restore(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Take a session out of the bin."""
    session = _deleted(request, session_id)
    try:
        store.restore(session.pk, actor=_actor(request))
    except SessionNotFound as error:
        # Removed for good since it was looked for.
        raise Http404 from error
    return _see(reverse("sessions:detail", args=[session.pk]))


@require_POST
def purge(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Remove a deleted session for good."""
    session = _deleted(request, session_id)
    if not disposal.may_purge(cast("User", request.user), session):
        raise PermissionDenied
    try:
        store.purge(session.pk, actor=_actor(request), deleted_only=True)
    except StoreError as error:
        return _refused(request, error, reverse("sessions:deleted"))
    messages.success(request, "The session is removed for good. Forks made of it stay as they are.")
    return _see(reverse("sessions:deleted"))


@require_POST
def detach(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Show a fork apart from its source (``detached`` = 1), or below it again."""
    session = _living(request, session_id)
    store.detach(session.pk, request.POST.get("detached") == "1", actor=_actor(request))
    return _see(reverse("sessions:detail", args=[session.pk]))


def _living(request: HttpRequest, session_id: uuid.UUID) -> Session:
    found: Session = get_object_or_404(
        Session.objects.visible_to(cast("User", request.user)).living().roots(), pk=session_id
    )
    return found


def _deleted(request: HttpRequest, session_id: uuid.UUID) -> Session:
    found: Session = get_object_or_404(disposal.bin_of(cast("User", request.user)), pk=session_id)
    return found


def _actor(request: HttpRequest) -> str:
    return cast("User", request.user).get_username()


def _refused(request: HttpRequest, error: StoreError, back: str) -> HttpResponse:
    messages.error(request, error.message)
    return _see(back)


def _see(path: str) -> HttpResponse:
    return HttpResponseRedirect(path, status=303)
