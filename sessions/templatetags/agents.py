"""Names of agents, and what they used."""

from __future__ import annotations

from typing import Any

from django import template

from sessions.pages.listing import provider_label
from sessions.usage import in_words, numbers

register = template.Library()

register.filter("provider_name", provider_label)


@register.filter
def used(usage_of_turn: dict[str, Any]) -> list[str]:
    """A turn's or a session's usage in words."""
    return in_words(numbers(usage_of_turn))
