"""``manage.py doctor``: what is installed, attested, reachable, stuck, and what to do about it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from forkhost.checkup import Level, findings

SIGNS = {Level.OK: "ok  ", Level.NOTE: "note", Level.PROBLEM: "!!  "}


class Command(BaseCommand):
    """Prints one line per finding, with advice below it. Exits non-zero when there is a problem."""

    help = "Check this installation and say what to do about what is wrong."
    requires_migrations_checks = False
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data", metavar="DIR", help="where forkhost keeps its data (default: FORKHOST_DATA)")

    def handle(self, *args: Any, **options: Any) -> None:
        problems = 0
        for finding in findings():
            problems += finding.level is Level.PROBLEM
            self.stdout.write(f"{SIGNS[finding.level]}  {finding.subject}: {finding.text}")
            if finding.advice:
                self.stdout.write(f"      -> {finding.advice}")
        if problems:
            raise CommandError("One thing needs attention." if problems == 1 else f"{problems} things need attention.")
        self.stdout.write("Everything is fine.")
