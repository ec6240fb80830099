"""``manage.py after_restore``: once, after a backup was put back and before any worker starts."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from forkhost import preparing
from operations import restoring


class Command(BaseCommand):
    """Keeps a restored database from sending forks that may have been sent after its backup was made."""

    help = "Run once after putting a backup back, while no worker runs: waiting forks are looked up instead of sent."

    def handle(self, *args: Any, **options: Any) -> None:
        preparing.refuse_unmigrated()
        held = restoring.hold_back()
        self.stdout.write(
            f"{held} waiting fork{'' if held == 1 else 's'} will be looked up instead of sent. Workers can start now."
        )
