"""``manage.py demo``: forkhost with sample sessions, apart from everything real on this machine."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from forkhost import preparing
from forkhost.demo.making import Maker, SampleFailed
from forkhost.management.commands.up import DEFAULT_BIND, bind_address
from sessions import workspaces


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Only warnings are logged while the samples are made: sentences say how far it is."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class Command(BaseCommand):
    """Makes the samples once, in a data folder of their own, and goes on as ``up``."""

    help = "Run forkhost with sample sessions of real agents, made offline in a private data folder."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bind", type=bind_address, default=bind_address(DEFAULT_BIND), metavar="HOST:PORT")
        parser.add_argument("--data", metavar="DIR", help="where the demo keeps its data (default: beside forkhost's)")
        parser.add_argument("--no-open", action="store_true", help="do not open a browser")

    def handle(self, *args: Any, **options: Any) -> None:
        preparing.require_writable_data()
        preparing.migrate()
        data = Path(settings.FORKHOST_DATA)
        maker = Maker(data / "agents", data / "shop", self._say)
        maker.use_homes()
        try:
            with _without_chatter():
                maker.make(preparing.first_user(workspaces.default_workspace()))
        except SampleFailed as error:
            raise CommandError(str(error)) from error
        self._say(f"A token for its API: ./manage.py token NAME --create --data {data}")
        call_command("up", bind=options["bind"], no_open=options["no_open"])

    def _say(self, sentence: str) -> None:
        self.stdout.write(sentence)
        self.stdout.flush()
