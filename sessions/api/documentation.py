"""Parameters that many operations share, as OpenAPI shows them."""

from __future__ import annotations

from collections.abc import Sequence

from drf_spectacular.utils import OpenApiParameter

from forkhost.kit.api import LARGEST_INTEGER
from sessions.api.pagination import CURSOR_LIMIT, DEFAULT_LIMIT, MOST_ITEMS


def limit_parameter(*, default: int = DEFAULT_LIMIT, most: int = MOST_ITEMS) -> OpenApiParameter:
    """``limit`` with its bounds."""
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return OpenApiParameter("limit", schema, description="How many items at most.")


def integer_parameter(name: str, description: str) -> OpenApiParameter:
    """A whole number from 0 on."""
    return OpenApiParameter(
        name, {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER}, description=description
    )


def text_parameter(name: str, description: str, *, most: int, least: int = 0) -> OpenApiParameter:
    """Text of a bounded length; required when it may not be empty."""
    schema = {"type": "string", "maxLength": most, **({"minLength": least} if least else {})}
    return OpenApiParameter(name, schema, description=description, required=least > 0)


CURSOR = OpenApiParameter(
    "cursor",
    {"type": "string", "maxLength": CURSOR_LIMIT},
    description="`nextCursor` of the page before. A cursor that was not made by the same list is a 400.",
)


def choice_parameter(
    name: str, description: str, choices: Sequence[str], *, default: str | None = None
) -> OpenApiParameter:
    """One of some words."""
    return OpenApiParameter(name, str, enum=list(choices), description=description, default=default)
