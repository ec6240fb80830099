"""``manage.py purge``: remove deleted sessions for good."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sessions import disposal

EVERYTHING = 10**9


class Command(BaseCommand):
    """Purge what has lain in the bin long enough; ``--dry-run`` only says what that would be."""

    help = "Remove sessions for good that were deleted at least so many days ago. Agents' own files stay."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=float, required=True, metavar="DAYS", help="days in the bin, 0: all")
        parser.add_argument("--dry-run", action="store_true", help="list them, remove nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["older_than"]
        if not 0 <= days <= 36500:
            raise CommandError("--older-than has to be a number of days from 0 to 36500.")
        if options["dry_run"]:
            for session in disposal.expired(days):
                self.stdout.write(f"{session.pk}  {session}")
            return
        for session_id in disposal.purge_expired(days, actor="purge command", most=EVERYTHING):
            self.stdout.write(str(session_id))
