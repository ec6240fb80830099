"""What every request carries into the logs."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase


class RequestContextMiddleware:
    """Binds one id a request to every log record written while it runs, and names it in ``X-Request-Id``."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = uuid.uuid4().hex
        with structlog.contextvars.bound_contextvars(http_request_id=request_id):
            response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response
