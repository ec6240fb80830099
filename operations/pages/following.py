"""Following one fork until its end is known, and opening it."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any, cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from forkhost.kit import clock
from operations import handover, saga
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from operations.pages import presentation
from operations.pages.answers import DONE, NOT_CHANGED, NOT_COMMITTED, go, is_partial, varying
from operations.pages.opening import opening_url
from operations.templatetags.forks import Mark, children_of
from sessions.models import Session


@never_cache
@require_safe
def operation_detail(request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """One fork, live. A page that polls names the version it shows, and gets 204 while that is still true."""
    operation = _operation(request, operation_id)
    context = _operation_context(request, operation)
    if not is_partial(request):
        return varying(render(request, "operations/operation.html", context))
    shown = tuple(request.GET.get(name) for name in ("version", "every", "away"))
    if shown == (str(operation.version), str(context["every"]), "1" if context["away"] else "0"):
        return HttpResponse(status=NOT_CHANGED)
    context["follow"] = operation.status == OperationStatus.COMMITTED and context["child"] is not None
    return varying(render(request, "operations/operation_live.html", context))


def _operation_context(request: HttpRequest, operation: Operation) -> dict[str, Any]:
    user = cast("User", request.user)
    source = Session.objects.visible_to(user).filter(pk=operation.source_session_id).first()
    return {
        "nav": "forks",
        "operation": operation,
        "state": presentation.state_of(operation),
        "steps": presentation.steps(operation),
        "nothing_created": presentation.nothing_created(operation),
        "source": source,
        "child": children_of([operation], user).get(operation.target_session_id),
        "away": presentation.runner_away(operation),
        "every": presentation.poll_seconds(operation, clock.now()),
        "next_look": _next_look(operation),
        "evidence": list(Evidence.objects.filter(operation_id=operation.pk)) if operation.calls else [],
        "receipt": json.dumps(operation.receipt, indent=2, sort_keys=True) if operation.receipt else "",
    }


def _next_look(operation: Operation) -> dt.datetime | None:
    if operation.status != OperationStatus.UNKNOWN or operation.needs_person:
        return None
    due: dt.datetime | None = operation.next_run_at
    return due


@require_POST
def open_fork(request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """Take in a committed fork and go to it: the way without JavaScript."""
    operation = _operation(request, operation_id)
    child = children_of([operation], cast("User", request.user)).get(operation.target_session_id)
    here = reverse("operations:operation", args=[operation.pk])
    if operation.status != OperationStatus.COMMITTED:
        return go(request, here)
    saga.acknowledge(operation.pk, handover.actor(request.user))
    if child is None:
        return go(request, here)
    return go(request, opening_url(operation, acknowledged=True))


@require_POST
def acknowledge(request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """The browser has shown a committed fork: 204, however often it says so; 409 when it is not committed."""
    operation = _operation(request, operation_id)
    if operation.status != OperationStatus.COMMITTED:
        return HttpResponse(status=NOT_COMMITTED)
    saga.acknowledge(operation.pk, handover.actor(request.user))
    return HttpResponse(status=DONE)


@require_safe
def operation_mark(request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """The line that stands for a fork at its turn of the source; 204 while nothing changed."""
    operation = _operation(request, operation_id)
    if request.GET.get("version") == str(operation.version):
        return HttpResponse(status=NOT_CHANGED)
    child = children_of([operation], cast("User", request.user)).get(operation.target_session_id)
    mark = Mark(operation, presentation.state_of(operation), child)
    return varying(render(request, "operations/mark.html", {"mark": mark}))


def _operation(request: HttpRequest, operation_id: uuid.UUID) -> Operation:
    operations = Operation.objects.visible_to(cast("User", request.user)).defer("snapshot")
    found: Operation = get_object_or_404(operations, pk=operation_id)
    return found
