"""Names of agents, and what they used."""

from __future__ import annotations

import json
from typing import Any

from django import template

from sessions.pages.listing import provider_label
from sessions.usage import in_words, numbers

register = template.Library()

register.filter("provider_name", provider_label)

DAMAGE = {
    "not_json": "not a record, or half of one",
    "not_utf8": "bytes that are no text",
    "no_payload": "a record without content",
    "torn_tail": "never finished",
    "line_too_long": "longer than any record",
}


@register.filter
def damage(reason: str) -> str:
    """Why a line could not be read, in words; an adapter's own code as it is."""
    return DAMAGE.get(reason, reason)


@register.filter
def setting(value: object) -> str:
    """An agent's own setting for a reader: a plain value as it is, a structure as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def used(usage_of_turn: dict[str, Any]) -> list[str]:
    """A turn's or a session's usage in words."""
    return in_words(numbers(usage_of_turn))
