"""Fields of bodies that know our ids and what a transcript may hold."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.validators import ProhibitNullCharactersValidator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from forkhost.kit.api import StrictCharField, StrictIntegerField
from forkhost.kit.ids import parse_id
from sessions import payloads

# The end of year 9999, the last time a database column holds.
LAST_UNIX_MS = 253_402_300_799_999


@extend_schema_field(OpenApiTypes.UUID)
class IdField(StrictCharField):
    """One of our ids, in any case; never nil."""

    default_error_messages = {"malformed": "This has to be a UUID, and not the nil one."}

    def to_internal_value(self, data: Any) -> uuid.UUID:  # type: ignore[override]
        try:
            return parse_id(super().to_internal_value(data))
        except ValueError:
            self.fail("malformed")


class HostileTextField(StrictCharField):
    """Any text, kept as typed but for what no column holds (NUL and lone surrogates become U+FFFD)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, allow_blank=True, **kwargs)
        prohibits = (ProhibitNullCharactersValidator, ProhibitSurrogateCharactersValidator)
        self.validators = [check for check in self.validators if not isinstance(check, prohibits)]

    def to_internal_value(self, data: Any) -> str:
        return payloads.plain(super().to_internal_value(data))


class UnixMsField(StrictIntegerField):
    """A time in Unix milliseconds, up to the end of year 9999."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_value=LAST_UNIX_MS, **kwargs)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class ObjectField(serializers.JSONField):
    """Any JSON object."""

    default_error_messages = {"not_an_object": "This has to be an object."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        return data
