"""How the public API describes itself: one problem component, and what every operation can answer besides success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiResponse
from rest_framework import serializers

from forkhost.kit.api import StrictSerializer
from forkhost.kit.problems import PROBLEM_CONTENT_TYPE

JSON_CONTENT_TYPE = "application/json"

SENTENCES: Mapping[int, str] = {
    400: "The request is not valid; `errors` names the fields or parameters to blame.",
    401: "No valid token or session.",
    403: "The token lacks the scope, or the CSRF token is missing.",
    404: "It does not exist, or belongs to somebody else.",
    409: "The state of things does not allow it; `code` says why.",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
}


class FieldErrorSerializer(serializers.Serializer[Any]):
    """One field to blame: an RFC 6901 pointer into the body, or the name of a query parameter."""

    pointer = serializers.CharField()
    code = serializers.CharField()
    detail = serializers.CharField()

    class Meta:
        ref_name = "FieldError"


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457 problem details. Programs decide by `code`, which is stable; `detail` is a sentence for people."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    operationId = serializers.UUIDField(required=False)
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]

    class Meta:
        ref_name = "Problem"


class StrictBodies(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A body that refuses members it does not know says so."""

    target_class = StrictSerializer
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        map_plainly: Any = auto_schema._map_serializer
        schema: dict[str, Any] = map_plainly(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}


def answers(
    success: Mapping[int, Any], *problems: int, media_type: str = JSON_CONTENT_TYPE
) -> dict[tuple[int, str], Any]:
    """The ``responses`` of one operation: the given successes, 401 and 403, and the problems named."""
    described: dict[tuple[int, str], Any] = {(status, media_type): body for status, body in success.items()}
    for status in sorted({401, 403, *problems}):
        described[(status, PROBLEM_CONTENT_TYPE)] = OpenApiResponse(ProblemSerializer, SENTENCES[status])
    return described
