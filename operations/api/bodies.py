"""What callers send about forks."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from forkhost.kit.api import StrictCharField, StrictSerializer, whole
from forkhost.kit.ids import REQUEST_ID_LIMIT, REQUEST_ID_PATTERN
from operations.choices import PointType
from operations.points import ForkPoint, InvalidPoint, parse_point
from operations.requests import TITLE_LIMIT
from sessions.api.fields import HostileTextField, IdField

LARGEST_SEQ = 2**63 - 1

_SEQ = {"type": "integer", "minimum": 1, "maximum": LARGEST_SEQ}


def _shape(kind: PointType, description: str, members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "title": kind.value,
        "description": description,
        "properties": {"type": {"type": "string", "enum": [kind.value]}, **members},
        "required": ["type", *required],
        "additionalProperties": False,
    }


POINT_SCHEMA = {
    "oneOf": [
        _shape(
            PointType.THROUGH_TURN,
            "Everything through this turn, which has to be settled and bound.",
            {"turnId": {"type": "string", "format": "uuid"}},
            ["turnId"],
        ),
        _shape(
            PointType.AT_SEQ,
            "Through the first turn that ends at or after this event; without `seq`, or past the end, the last one.",
            {"seq": _SEQ},
            [],
        ),
        _shape(PointType.THROUGH_SEQ, "Exactly through this event; hosted sessions only.", {"seq": _SEQ}, ["seq"]),
        _shape(PointType.LATEST_SETTLED, "The whole settled conversation.", {}, []),
    ]
}


@extend_schema_field(POINT_SCHEMA)
class PointField(serializers.Field[ForkPoint, Any, Any, Any]):
    """A fork point; an error names the member of the point to blame."""

    def to_internal_value(self, data: Any) -> ForkPoint:
        members = {name: whole(member) for name, member in data.items()} if isinstance(data, dict) else data
        try:
            return parse_point(members)
        except InvalidPoint as error:
            detail = [serializers.ErrorDetail(error.sentence, error.code)]
            raise serializers.ValidationError({error.field[1:]: detail} if error.field else detail) from None


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": REQUEST_ID_LIMIT, "pattern": REQUEST_ID_PATTERN})
class RequestIdField(StrictCharField):
    """Printable characters; the saga checks them."""


class ForkBody(StrictSerializer):
    """A fork. Both ids are the caller's own and stable: the same body can be sent again without harm."""

    requestId = RequestIdField(min_length=1, max_length=REQUEST_ID_LIMIT, trim_whitespace=False)
    targetAgentSessionId = IdField()
    point = PointField()
    title = HostileTextField(required=False, allow_null=True, max_length=TITLE_LIMIT)
