"""The list of forks, the machines, and two sessions side by side."""

from __future__ import annotations

import uuid
from typing import cast

from django.contrib.auth.models import User
from django.db.models import Q, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from operations.choices import OPEN_STATUSES, OperationStatus
from operations.models import Operation
from operations.pages import presentation
from operations.pages.comparing import compare_sessions
from operations.pages.machines import machines
from operations.templatetags.forks import Mark, children_of
from sessions.models import Session

PAGE_SIZE = 40
TABS: dict[str, tuple[str, tuple[OperationStatus, ...]]] = {
    "pending": ("Pending", OPEN_STATUSES),
    "unknown": ("Unknown", (OperationStatus.UNKNOWN,)),
    "failed": ("Failed", (OperationStatus.FAILED,)),
    "committed": ("Committed", (OperationStatus.COMMITTED,)),
}


@require_safe
def operation_list(request: HttpRequest) -> HttpResponse:
    """All forks, newest first; ``?state=`` one of the tabs, ``?before=`` an operation of the list."""
    user = cast("User", request.user)
    state = request.GET.get("state", "")
    operations = Operation.objects.visible_to(user)
    if state in TABS:
        operations = operations.filter(status__in=TABS[state][1])
    before = _anchor(request)
    if before is not None:
        # The database compares its own values: SQLite's clock writes fewer digits than Python would compare with.
        at = Subquery(Operation.objects.filter(pk=before.pk).values("prepared_at")[:1])
        operations = operations.filter(Q(prepared_at__lt=at) | Q(prepared_at=at, pk__lt=before.pk))
    found = list(operations.order_by("-prepared_at", "-id").defer("snapshot", "result_session")[: PAGE_SIZE + 1])
    shown = found[:PAGE_SIZE]
    children = children_of(shown, user)
    sources = Session.objects.visible_to(user).in_bulk({operation.source_session_id for operation in shown})
    context = {
        "nav": "forks",
        "tabs": [(name, label) for name, (label, _) in TABS.items()],
        "state": state if state in TABS else "",
        "rows": [
            (
                Mark(operation, presentation.state_of(operation), children.get(operation.target_session_id)),
                sources.get(operation.source_session_id),
            )
            for operation in shown
        ],
        "next": shown[-1].pk if len(found) > PAGE_SIZE else None,
        "paged": before is not None,
    }
    return render(request, "operations/list.html", context)


def _anchor(request: HttpRequest) -> Operation | None:
    try:
        wanted = uuid.UUID(request.GET.get("before", ""))
    except ValueError:
        return None
    return Operation.objects.visible_to(cast("User", request.user)).filter(pk=wanted).first()


@require_safe
def runner_list(request: HttpRequest) -> HttpResponse:
    """The machines, whether a worker is alive on them, and what the agents there proved they can do."""
    context = {"nav": "runners", "machines": machines(cast("User", request.user))}
    return render(request, "operations/runners.html", context)


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Two sessions side by side from where they part: ``?a=`` and ``?b=``."""
    user = cast("User", request.user)
    comparison = compare_sessions(_side(user, request.GET.get("a", "")), _side(user, request.GET.get("b", "")))
    return render(request, "operations/compare.html", {"nav": "sessions", "comparison": comparison})


def _side(user: User, text: str) -> Session:
    try:
        wanted = uuid.UUID(text)
    except ValueError:
        raise Http404 from None
    found: Session = get_object_or_404(Session.objects.visible_to(user).living(), pk=wanted)
    return found
