"""``manage.py worker``: the worker of one machine alone."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from forkhost import preparing, supervision
from forkhost.kit.stopping import StopFlag
from forkhost.kit.wakeups import Listener
from operations import worker as operations_worker
from operations.saga.moves import WAKE_UP as OPERATIONS_WAKE_UP
from sessions import runners, workspaces
from sessions.models import Runner
from sessions.providers import registry

log = structlog.get_logger(__name__)


def provider_home(text: str) -> tuple[str, Path]:
    """``PROVIDER=FOLDER`` as its two parts."""
    provider, equals, folder = text.partition("=")
    if not equals or not folder or provider not in registry.adapters():
        known = ", ".join(registry.adapters()) or "none is installed"
        raise argparse.ArgumentTypeError(f"{text!r} is not PROVIDER=FOLDER with one of the providers ({known})")
    return provider, Path(folder).expanduser().absolute()


class Command(BaseCommand):
    """Finds and imports the sessions of this machine's agents, and makes the forks that are asked of them."""

    help = "Run the worker of this machine until it is told to stop."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--runner", metavar="NAME", default="", help="name of this machine (default: host name)")
        parser.add_argument("--data", metavar="DIR", help="where forkhost keeps its data (default: FORKHOST_DATA)")
        parser.add_argument(
            "--home",
            type=provider_home,
            action="append",
            default=[],
            metavar="PROVIDER=FOLDER",
            help="a further state folder of an agent on this machine; may be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        preparing.require_writable_data()
        preparing.refuse_unmigrated()
        runner = runners.start(workspaces.default_workspace(), options["runner"] or runners.default_name())
        with StopFlag() as stop:
            forks = ForkThread(runner, stop)
            forks.start()
            log.info("worker_started", runner=runner.name)
            try:
                supervision.keep_running([importer_part(runner, options["home"])], stop)
            except supervision.PartFailed as error:
                raise CommandError(f"The worker stopped: {error}") from error
            finally:
                stop.request()
                forks.join()
        if forks.error is not None:
            raise CommandError(f"The worker stopped: {type(forks.error).__name__}: {forks.error}") from forks.error
        log.info("worker_stopped", runner=runner.name)


def importer_part(runner: Runner, homes: Sequence[tuple[str, Path]]) -> supervision.Part:
    """The other half: it finds and reads sessions. It ends by itself when this process does."""
    argv = [sys.executable, "-m", "django", "importer", str(runner.pk), str(os.getpid())]
    for provider, folder in homes:
        argv += ["--home", f"{provider}={folder}"]
    return supervision.own_part("importer", argv, watches_parent=True)


class ForkThread(threading.Thread):
    """The operations' half. When it ends with an error the whole worker stops, so that whoever started it notices."""

    def __init__(self, runner: Runner, stop: StopFlag) -> None:
        super().__init__(name="forks", daemon=True)
        self.runner = runner
        self.stop = stop
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with Listener(OPERATIONS_WAKE_UP) as listener:
                self.stop.on_request(listener.wake)
                pace = operations_worker.Pace(lease_seconds=settings.FORKHOST_LEASE_SECONDS)
                operations_worker.run(self.runner, self.stop, pace=pace, listener=listener)
        except Exception as error:
            log.exception("fork_worker_failed")
            self.error = error
        finally:
            self.stop.request()
            connections.close_all()
