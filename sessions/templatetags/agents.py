"""Names of agents."""

from __future__ import annotations

from django import template

from sessions.pages.listing import provider_label

register = template.Library()

register.filter("provider_name", provider_label)
