"""The wiring's own app: page chrome, sign-in, commands."""

from __future__ import annotations

from django.apps import AppConfig
from django.urls import register_converter

from forkhost.kit import durability
from forkhost.kit.ids import IdConverter


class ForkhostConfig(AppConfig):
    """The project as an app, so that its commands and template tags are found."""

    name = "forkhost"
    verbose_name = "forkhost"

    def ready(self) -> None:
        """Make ``<id:...>`` known before the first route is read, and commits durable before the first connection."""
        register_converter(IdConverter, "id")
        durability.install()
