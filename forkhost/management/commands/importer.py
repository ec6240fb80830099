"""``manage.py importer``: the part of a worker that finds and reads sessions, in a process of its own."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from forkhost.kit import processes
from forkhost.kit.stopping import StopFlag
from forkhost.management.commands.worker import provider_home
from sessions import worker as sessions_worker
from sessions.models import Runner

# Beside a fork or a page that needs the processor, reading transcripts gets about a quarter of it; alone, all of it.
NICENESS = 5
ORPHAN_SECONDS = 1.0


class Command(BaseCommand):
    """What ``manage.py worker`` starts for itself.

    Reading a transcript keeps the interpreter busy, and a thread that carries out a fork would have to wait for it
    after each of its statements.
    """

    help = "Find and import sessions for a worker, which starts this by itself."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runner", help="id of the worker's runner")
        parser.add_argument("worker", type=int, help="process id of the worker, without which this ends")
        parser.add_argument("--home", type=provider_home, action="append", default=[], metavar="PROVIDER=FOLDER")

    def handle(self, *args: Any, **options: Any) -> None:
        processes.yield_to_others(NICENESS)
        runner = Runner.objects.filter(pk=options["runner"]).first()
        if runner is None:
            raise CommandError("There is no such runner. Start this with: ./manage.py worker")
        with StopFlag() as stop:
            loops = sessions_worker.start(runner, stop, options["home"])
            # A worker that was killed could not say so, and it may have been before this process could look.
            while os.getppid() == options["worker"] and not stop.wait(ORPHAN_SECONDS):
                pass
            stop.request()
            loops.join()
