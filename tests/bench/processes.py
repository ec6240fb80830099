"""A real web server and real workers, as ``manage.py up`` starts them, for one section."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from forkhost.management.commands.up import accepts, free_port, web_part
from forkhost.models import ApiToken
from sessions.models import Runner
from tests.bench.world import RUNNER, World

START_SECONDS = 60.0
Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None], *, seconds: float, what: str, every: float = 0.02) -> Found:
    """What ``look`` finds, once it finds something; ``every`` is in seconds, too. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(every)
    raise TimeoutError(f"{what} did not come within {seconds:.0f} s")


@dataclass(slots=True)
class Processes:
    """What was started, ended with the block of :func:`running`."""

    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, argv: list[str]) -> None:
        """Start one process group."""
        self.started.append(subprocess.Popen(argv, env=dict(os.environ), start_new_session=True))

    def worker(self) -> None:
        """Start a worker of the runner and wait until it has begun."""
        before = Runner.objects.get(name=RUNNER).incarnation
        self.start([sys.executable, "manage.py", "worker", "--runner", RUNNER])
        eventually(
            lambda: Runner.objects.get(name=RUNNER).incarnation != before, seconds=START_SECONDS, what="the worker"
        )

    def server(self, world: World) -> httpx.Client:
        """Start the web server; a client of its API with a token of the world's user."""
        host, port = "127.0.0.1", free_port("127.0.0.1", 0)
        self.start(list(web_part(host, port).argv))
        eventually(lambda: accepts(host, port), seconds=START_SECONDS, what="the web server")
        headers = {"Authorization": f"Bearer {ApiToken.issue(world.user)}"}
        client = httpx.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=30)
        # Each of the server's threads opens its own connection and loads what it needs once.
        for _ in range(40):
            client.get("/v1/workspaces").raise_for_status()
        return client

    def stop(self) -> None:
        """Ask all of them to stop, and end those that do not."""
        for process in self.started:
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.started.clear()


@contextlib.contextmanager
def running() -> Iterator[Processes]:
    """Processes of one section."""
    processes = Processes()
    try:
        yield processes
    finally:
        processes.stop()
