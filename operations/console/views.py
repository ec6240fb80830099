"""The console's pages. Each verb has a page that says what it does (GET) and does it (POST)."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from forkhost.kit.read_only import ReadOnlyAdmin
from operations import receipts, saga
from operations.choices import OperationStatus
from operations.console import card as cards
from operations.console.forms import VersionForm
from operations.console.rights import PERMISSION, may_settle, workspaces_of
from operations.console.verbs import VERBS, Verb, carry_out
from operations.models import Operation
from operations.requests import Refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User


CONFLICT, UNPROCESSABLE = 409, 422


def card(admin: ReadOnlyAdmin, request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """The evidence about one fork, and what can be done about it."""
    operation = _operation(admin, request, operation_id)
    context = cards.context(operation, cast("User", request.user))
    title = f"Evidence: {operation.title}"
    return _page(admin, request, "admin/operations/card.html", {**context, "title": title})


def record(admin: ReadOnlyAdmin, request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """The raw record as a file."""
    operation = _operation(admin, request, operation_id)
    text = json.dumps(receipts.receipt_json(operation), indent=2)
    return HttpResponse(
        text,
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="fork-{operation.pk}.json"'},
    )


def act(admin: ReadOnlyAdmin, request: HttpRequest, operation_id: uuid.UUID, name: str) -> HttpResponse:
    """Confirm a verb, or carry it out. 403 without the right, 409 when somebody else was first."""
    operation = _operation(admin, request, operation_id)
    user = cast("User", request.user)
    verb = VERBS.get(name)
    if verb is None:
        raise Http404
    if not may_settle(user, operation):
        raise PermissionDenied
    here = HttpResponseRedirect(reverse("admin:operations_operation_settle", args=[operation.pk]))
    if request.method != "POST":
        if not verb.offered(operation, user):
            messages.warning(request, f"“{verb.label}” is not possible any more.")
            return here
        return _confirm(admin, request, operation, verb, verb.form(operation))
    form = verb.form(operation, request.POST)
    if not form.is_valid():
        refused = saga.conflict(operation.pk, form.cleaned_data["version"]) if _outdated(operation, form) else None
        return _confirm(admin, request, operation, verb, form, refused)
    try:
        carry_out(verb, operation, form, user)
    except Refused as refusal:
        return _confirm(admin, request, operation, verb, form, refusal)
    messages.success(request, verb.said)
    return here


def look_again_at(admin: ReadOnlyAdmin, request: HttpRequest, rows: Any) -> HttpResponse | None:
    """Look again at several: the exact list first, then each on its own, under the version that was shown."""
    user = cast("User", request.user)
    if not user.has_perm(PERMISSION):
        raise PermissionDenied
    chosen = rows.filter(status=OperationStatus.UNKNOWN, workspace_id__in=workspaces_of(user))
    if not request.POST.get("confirmed"):
        operations = list(chosen)
        context = {"title": "Look again", "operations": operations, "left_out": rows.count() - len(operations)}
        return _page(admin, request, "admin/operations/look_again.html", context)
    seen = dict(pair.rsplit(":", 1) for pair in request.POST.getlist("seen") if ":" in pair)
    done, late = 0, 0
    for operation in chosen:
        form = VersionForm(operation, {"version": seen.get(str(operation.pk), "")})
        try:
            if not form.is_valid():
                raise saga.conflict(operation.pk)
            carry_out(VERBS["look-again"], operation, form, user)
            done += 1
        except Refused:
            late += 1
    messages.success(request, f"The runners look again at {done}.")
    if late:
        messages.warning(request, f"{late} changed meanwhile and were left alone.")
    return None


def _confirm(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    operation: Operation,
    verb: Verb,
    form: VersionForm,
    refused: Refused | None = None,
) -> HttpResponse:
    context = {"title": verb.label, "operation": operation, "verb": verb, "form": form, "refused": refused}
    status = refused.status if refused is not None else UNPROCESSABLE if form.errors else 200
    return _page(admin, request, "admin/operations/verb.html", context, status)


def _outdated(operation: Operation, form: VersionForm) -> bool:
    return form.cleaned_data.get("version") not in (None, operation.version)


def _operation(admin: ReadOnlyAdmin, request: HttpRequest, operation_id: uuid.UUID) -> Operation:
    operation: Operation = get_object_or_404(admin.get_queryset(request), pk=operation_id)
    return operation


def _page(
    admin: ReadOnlyAdmin, request: HttpRequest, template: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    whole = {**admin.admin_site.each_context(request), "opts": Operation._meta, **context}
    return render(request, template, whole, status=status)
