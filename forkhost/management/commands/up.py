"""``manage.py up``: everything on one machine, with one command."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import webbrowser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.urls import reverse

from forkhost import preparing, supervision
from forkhost.kit.stopping import StopFlag
from forkhost.models import SignInLink
from sessions import workspaces

DEFAULT_BIND = "127.0.0.1:8000"
THREADS = 12
MOST_PROCESSES = 4


def bind_address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` as its two parts; the host of an IPv6 address stands in brackets. Port 0 takes a free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as {DEFAULT_BIND}")
    return host.strip("[]"), int(port)


class Command(BaseCommand):
    """Migrates, makes the first user, starts web and worker, and keeps them running until it is told to stop."""

    help = "Run forkhost on this machine: database, sign-in link, web server and worker in one."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bind", type=bind_address, default=bind_address(DEFAULT_BIND), metavar="HOST:PORT")
        parser.add_argument("--data", metavar="DIR", help="where forkhost keeps its data (default: FORKHOST_DATA)")
        parser.add_argument("--no-open", action="store_true", help="do not open a browser")
        parser.add_argument("--runner", metavar="NAME", default="", help="name of this machine (default: host name)")

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = options["bind"]
        preparing.require_writable_data()
        port = free_port(host, port)
        preparing.migrate()
        preparing.collect_static()
        link = self._sign_in_link(host, port)
        connections.close_all()
        parts = [web_part(host, port), worker_part(options["runner"])]
        with StopFlag() as stop:
            try:
                supervision.keep_running(
                    parts,
                    stop,
                    ready=lambda: accepts(host, port),
                    on_ready=lambda: self._announce(link, open_browser=not options["no_open"]),
                )
            except supervision.PartFailed as error:
                raise CommandError(f"forkhost stopped: {error}") from error
        self.stdout.write("forkhost has stopped.")

    def _sign_in_link(self, host: str, port: int) -> str:
        user = preparing.first_user(workspaces.default_workspace())
        return base_url(host, port) + reverse("sign_in_link", args=[SignInLink.issue(user)])

    def _announce(self, link: str, *, open_browser: bool) -> None:
        self.stdout.write(
            f"\nforkhost is running.\n\n  Sign in:  {link}\n            (works once, within 30 minutes)\n"
            f"  Data:     {settings.FORKHOST_DATA}\n  Stop:     Ctrl-C\n\n"
        )
        self.stdout.flush()
        # Without a desktop a text browser would take the terminal over.
        desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if open_browser and desktop and sys.stdout.isatty():
            webbrowser.open(link)


def base_url(host: str, port: int) -> str:
    """The address people use: the public one when it is set, else the one the server listens on."""
    if settings.FORKHOST_PUBLIC_URL:
        return str(settings.FORKHOST_PUBLIC_URL)
    if host in ("0.0.0.0", "::"):  # noqa: S104  compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def free_port(host: str, port: int) -> int:
    """``port``, or a free one for 0. Raises CommandError with a sentence when it cannot be listened on."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise CommandError(
            f"forkhost cannot listen on {host}:{port} ({error.strerror or error}). Choose another with --bind HOST:PORT."
        ) from error


def accepts(host: str, port: int) -> bool:
    """Whether the web server takes connections."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  compared, not bound
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def web_part(host: str, port: int) -> supervision.Part:
    """The web server. SQLite has one writer at a time, so its threads stay in one process.

    The number of connections is left unbounded on purpose: an idle keep-alive connection counts as one, so a bound near the
    number of threads would make a dozen open browser tabs lock everybody else out.
    """
    single = connections["default"].vendor == "sqlite"
    processes = 1 if single else max(1, min(MOST_PROCESSES, os.cpu_count() or 1))
    options = {
        "--interface": "wsgi",
        "--host": host,
        "--port": str(port),
        "--workers": str(processes),
        "--blocking-threads": str(THREADS),
        "--blocking-threads-idle-timeout": "600",
        "--workers-kill-timeout": "10",
        "--log-level": "error",
    }
    argv = [sys.executable, "-m", "granian", "--no-ws", "--respawn-failed-workers"]
    for option, value in options.items():
        argv += [option, value]
    return supervision.own_part("web server", [*argv, "forkhost.wsgi:application"])


def worker_part(runner: str) -> supervision.Part:
    """The worker of this machine."""
    argv = [sys.executable, "-m", "django", "worker"]
    return supervision.own_part("worker", [*argv, "--runner", runner] if runner else argv)
