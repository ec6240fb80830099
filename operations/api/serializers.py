"""The shapes of answers about forks, for OpenAPI only: ``operations.projections`` makes them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from operations.api.bodies import POINT_SCHEMA
from operations.choices import SETTLEMENTS, Phase, PublicStatus
from sessions.api.serializers import LineageSerializer, SessionSerializer, Shape, list_of
from sessions.choices import ForkContract


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


class ReceiptRequestSerializer(Shape):
    """What was asked, and by whom."""

    requestId = serializers.CharField()
    requestHash = serializers.CharField()
    requestedBy = serializers.CharField(allow_null=True)
    point = PointShapeField()
    title = serializers.CharField()
    contract = serializers.ChoiceField(ForkContract.choices)


class ReceiptEndSerializer(Shape):
    """One end of the fork; `seq` of a target is known once it is committed."""

    agentSessionId = serializers.UUIDField()
    providerSessionId = serializers.CharField()
    turnId = serializers.UUIDField(allow_null=True)
    seq = serializers.IntegerField(allow_null=True)


class ReceiptAgentSerializer(Shape):
    """Which agent was asked, where."""

    provider = serializers.CharField()
    driver = serializers.CharField()
    version = serializers.CharField()
    fingerprint = serializers.CharField()
    runner = serializers.CharField(allow_null=True)


class ReceiptTimesSerializer(Shape):
    """When each state was reached."""

    preparedAtUnixMs = serializers.IntegerField()
    dispatchedAtUnixMs = serializers.IntegerField(allow_null=True)
    acceptedAtUnixMs = serializers.IntegerField(allow_null=True)
    completedAtUnixMs = serializers.IntegerField(allow_null=True)
    observedAtUnixMs = serializers.IntegerField(allow_null=True)
    unknownSinceUnixMs = serializers.IntegerField(allow_null=True)


class SettlementSerializer(Shape):
    """What ended the uncertainty: evidence (`evidenceId`), or a person with a `reason`."""

    kind = serializers.ChoiceField([(act.value, act.label) for act in SETTLEMENTS])
    by = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    evidenceId = serializers.IntegerField(allow_null=True)
    atUnixMs = serializers.IntegerField()


class ReceiptActSerializer(Shape):
    """One change or remark. `act` may grow new values; `detail` holds what belongs to it."""

    sequence = serializers.IntegerField()
    act = serializers.CharField()
    to = serializers.CharField(allow_null=True)
    by = serializers.CharField()
    detail = serializers.DictField()
    atUnixMs = serializers.IntegerField()

    def get_fields(self) -> dict[str, Any]:
        # A keyword of Python cannot be the name of an attribute.
        return {**super().get_fields(), "from": serializers.CharField(allow_null=True)}


class ReceiptEvidenceSerializer(Shape):
    """What was read from the agent, never written; the shape of candidates and `detail` is the agent's."""

    id = serializers.IntegerField()
    method = serializers.CharField()
    candidates = serializers.ListField(child=serializers.DictField())
    absenceProves = serializers.BooleanField()
    contradicts = serializers.BooleanField()
    detail = serializers.DictField()
    atUnixMs = serializers.IntegerField()


class ReceiptSerializer(Shape):
    """Everything about one fork: what was asked, done, seen and decided."""

    operationId = serializers.UUIDField()
    workspaceId = serializers.UUIDField()
    status = serializers.ChoiceField(PublicStatus.choices)
    phase = serializers.ChoiceField(Phase.choices)
    calls = serializers.IntegerField(min_value=0, max_value=1)
    needsPerson = serializers.BooleanField()
    nextLookAtUnixMs = serializers.IntegerField(allow_null=True)
    request = ReceiptRequestSerializer()
    source = ReceiptEndSerializer()  # type: ignore[assignment]  # a field named like an attribute of fields
    target = ReceiptEndSerializer()
    agent = ReceiptAgentSerializer()
    times = ReceiptTimesSerializer()
    error = OperationErrorSerializer(allow_null=True)
    settlement = SettlementSerializer(allow_null=True)
    acts = ReceiptActSerializer(many=True)
    evidence = ReceiptEvidenceSerializer(many=True)
    providerReceipt = serializers.DictField(allow_null=True)
