"""The wiring's own app: page chrome, sign-in, commands."""

from __future__ import annotations

from django.apps import AppConfig


class ForkhostConfig(AppConfig):
    """The project as an app, so that its commands and template tags are found."""

    name = "forkhost"
    verbose_name = "forkhost"
