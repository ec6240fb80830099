"""The few ways in which the pages of operations answer."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

NOT_CHANGED = 204
DONE = 204
NOT_COMMITTED = 409


class SeeOther(HttpResponseRedirect):
    """303: what was posted is done; look over there."""

    status_code = 303


def go(request: HttpRequest, address: str) -> HttpResponse:
    """Lead the reader to ``address``, the whole page also when htmx asked."""
    return HttpResponseClientRedirect(address) if _htmx(request) else SeeOther(address)


def is_partial(request: HttpRequest) -> bool:
    """Whether htmx asks for a piece of a page that is already there."""
    details = _htmx(request)
    return bool(details) and not details.boosted


def varying(response: HttpResponse) -> HttpResponse:
    """For addresses that answer a browser and htmx differently, so that the back button never shows a piece."""
    patch_vary_headers(response, ["HX-Request"])
    return response


def _htmx(request: HttpRequest) -> HtmxDetails:
    return cast("HtmxDetails", request.htmx)  # type: ignore[attr-defined]
