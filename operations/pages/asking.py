"""Asking for a fork, in two steps that both have an address."""

from __future__ import annotations

import uuid
from typing import cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from operations import saga
from operations.models import RequestAlias
from operations.pages import fork_form
from operations.pages.answers import SeeOther
from operations.pages.fork_form import ForkForm, Plan
from operations.points import InvalidPoint
from operations.requests import PrepareRequest, Refused
from sessions.models import Session

FORBIDDEN, NOT_FOUND, CONFLICT, UNPROCESSABLE = 403, 404, 409, 422


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def new_fork(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """GET shows what would be forked; POST prepares it and leads (303) to the operation. A refusal is this page again,
    with the sentence and everything the reader had typed.
    """
    source = _source(request, session_id)
    try:
        point = fork_form.point_of(request.GET)
    except InvalidPoint as invalid:
        return _refused_address(request, source, invalid)
    planned = fork_form.plan(source, point, cast("User", request.user))
    if request.method != "POST":
        return _form_page(request, source, planned)
    form = ForkForm(request.POST)
    if not form.is_valid():
        return _form_page(request, source, planned, form=form, status=UNPROCESSABLE)
    if _moved(source, planned, form):
        return _form_page(request, source, planned, form=form, moved=True, status=CONFLICT)
    return _prepare(request, source, planned, form)


def _moved(source: Session, planned: Plan, form: ForkForm) -> bool:
    """Whether the point now means another turn than the reader saw. A request that was answered before is answered again."""
    if planned.resolved is None or planned.resolved.seq == form.cleaned_data["resolved_seq"]:
        return False
    request_id = str(form.cleaned_data["request_id"])
    return not RequestAlias.objects.filter(workspace_id=source.workspace_id, request_id=request_id).exists()


def _prepare(request: HttpRequest, source: Session, planned: Plan, form: ForkForm) -> HttpResponse:
    asked = PrepareRequest(
        workspace_id=source.workspace_id,
        user=cast("User", request.user),
        source_session_id=source.pk,
        request_id=str(form.cleaned_data["request_id"]),
        target_session_id=form.cleaned_data["target_session_id"],
        point=planned.point,
        title=form.cleaned_data["title"],
    )
    try:
        prepared = saga.prepare(asked)
    except Refused as refused:
        status = refused.status if refused.status in (FORBIDDEN, NOT_FOUND, CONFLICT) else UNPROCESSABLE
        return _form_page(request, source, planned, form=form, refused=refused, status=status)
    return SeeOther(reverse("operations:operation", args=[prepared.operation.pk]))


def _form_page(
    request: HttpRequest,
    source: Session,
    planned: Plan,
    *,
    form: ForkForm | None = None,
    refused: Refused | None = None,
    moved: bool = False,
    status: int = 200,
) -> HttpResponse:
    context = {
        "nav": "sessions",
        "agent_session": source,
        "plan": planned,
        "form": form,
        "refused": refused,
        "moved": moved,
        "title_value": form["title"].value() if form is not None else "",
    }
    response = render(request, "operations/new_fork.html", context, status=status)
    if refused is not None and refused.retry_after is not None:
        response["Retry-After"] = str(refused.retry_after)
    return response


def _refused_address(request: HttpRequest, source: Session, invalid: InvalidPoint) -> HttpResponse:
    context = {"nav": "sessions", "agent_session": source, "sentence": invalid.sentence}
    return render(request, "operations/bad_point.html", context, status=400)


def _source(request: HttpRequest, session_id: uuid.UUID) -> Session:
    sessions = Session.objects.visible_to(cast("User", request.user)).living()
    found: Session = get_object_or_404(sessions.select_related("home__runner", "sync", "workspace"), pk=session_id)
    return found
