"""The API's description of itself, at ``/v1/openapi.json``."""

from __future__ import annotations

import functools
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response


@functools.cache
def description() -> dict[str, Any]:
    """The OpenAPI document; made once a process, because it cannot change while that runs."""
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return document


class OpenApiView(SpectacularJSONAPIView):
    """Readable without signing in: it holds nothing about anybody."""

    permission_classes = (AllowAny,)
    authentication_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The whole document."""
        return Response(description())
