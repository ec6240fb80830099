"""What every request meets: an id for the logs, and the door."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponseBase
from django_htmx.http import HttpResponseClientRefresh

HEADERS = ("Request-Id", "X-Request-Id")

# What may stand in a log line and a header without any care.
_HARMLESS = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)


class RequestContextMiddleware:
    """Binds one id a request to every log record written while it runs, and names it in ``Request-Id`` and its older
    name. It is the caller's own where that sent a harmless one, so that both sides' logs can be joined.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = _given(request) or uuid.uuid4().hex
        with structlog.contextvars.bound_contextvars(http_request_id=request_id):
            response = self.get_response(request)
        for header in HEADERS:
            response[header] = request_id
        return response


def _given(request: HttpRequest) -> str | None:
    for header in HEADERS:
        value = request.headers.get(header, "")
        if _HARMLESS.fullmatch(value):
            return value
    return None


class SignInRequiredMiddleware(LoginRequiredMiddleware):
    """Leads whoever is not signed in to the sign-in page.

    A part of a page that asks for news would follow a redirect by itself and show the sign-in form in its place, so it
    makes the whole page load again instead, and that is led.
    """

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        """None goes on to the view."""
        led = super().process_view(request, view_func, view_args, view_kwargs)
        if led is not None and request.headers.get("HX-Request") == "true":
            return HttpResponseClientRefresh()
        return led
