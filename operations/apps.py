"""What we are doing about it: durable fork operations."""

from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Fork operations, their recovery and their evidence."""

    name = "operations"
    verbose_name = "Fork operations"

    def ready(self) -> None:
        from operations import holdings, rebinding
        from sessions import holdings as found
        from sessions import opening, retention

        found.register(holdings.answer, waits=holdings.waits)
        retention.register(holdings.keep)
        opening.register(rebinding.want)
