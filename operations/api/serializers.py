"""The shapes of answers about forks, for OpenAPI only: ``operations.projections`` makes them."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from operations.api.bodies import POINT_SCHEMA
from operations.choices import Phase, PublicStatus
from sessions.api.serializers import LineageSerializer, SessionSerializer, Shape, list_of


@extend_schema_field(POINT_SCHEMA)
class PointShapeField(serializers.JSONField):
    """A fork point as the caller wrote it."""


class ResolvedPointSerializer(Shape):
    """What the point meant: everything through `seq`; `turnId` is null for a sequence point outside of turns."""

    turnId = serializers.UUIDField(allow_null=True)
    seq = serializers.IntegerField()


class OperationErrorSerializer(Shape):
    """Why it failed, or why nobody knows; `code` is stable."""

    code = serializers.CharField()
    message = serializers.CharField()


class OperationSerializer(Shape):
    """One fork. Treat a `status` that is not listed here as not final.

    `unknown`: the provider may or may not have made the child. It is never sent again; evidence settles it later.
    """

    operationId = serializers.UUIDField()
    requestId = serializers.CharField()
    sourceAgentSessionId = serializers.UUIDField()
    targetAgentSessionId = serializers.UUIDField()
    point = PointShapeField()
    resolvedPoint = ResolvedPointSerializer()
    status = serializers.ChoiceField(PublicStatus.choices)
    phase = serializers.ChoiceField(Phase.choices)
    session = SessionSerializer(allow_null=True)
    lineage = LineageSerializer(allow_null=True)
    error = OperationErrorSerializer(allow_null=True)
    calls = serializers.IntegerField(min_value=0, max_value=1)
    preparedAtUnixMs = serializers.IntegerField()
    dispatchedAtUnixMs = serializers.IntegerField(allow_null=True)
    acceptedAtUnixMs = serializers.IntegerField(allow_null=True)
    completedAtUnixMs = serializers.IntegerField(allow_null=True)
    observedAtUnixMs = serializers.IntegerField(allow_null=True)
    unknownSinceUnixMs = serializers.IntegerField(allow_null=True)


OperationList = list_of(OperationSerializer, "Operation")
