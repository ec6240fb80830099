"""``/metrics`` for Prometheus."""

from __future__ import annotations

import ipaddress
from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.request import Request
from rest_framework.views import APIView

from forkhost.auth.authentication import BearerAuthentication
from forkhost.kit.api import ApiView, ScopePermission
from forkhost.kit.scopes import Scope
from operations import metrics

# A proxy says with one of these that it asks for somebody else.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via")


class FromHereOrOperator(ScopePermission):
    """Lets programs on this very machine pass, and whoever holds a token with the scope ``operate``."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_from_here(request) or super().has_permission(request, view)


def is_from_here(request: Request) -> bool:
    """Whether a program on this machine asks for itself, and not as a proxy for somebody else."""
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


class MetricsView(ApiView):
    """Counts only: no name, title or id of anybody."""

    authentication_classes = (BearerAuthentication,)
    permission_classes = (FromHereOrOperator,)
    scopes: ClassVar[dict[str, Scope]] = {"GET": Scope.OPERATE}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Every number, read now."""
        return HttpResponse(metrics.exposition(), content_type=CONTENT_TYPE_LATEST)
