"""Runs the parts of forkhost as child processes: starts them, starts them again when they end, stops them together."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from django.conf import settings

from forkhost.kit.stopping import StopFlag

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.2
# A part that ends sooner than this after its start, this often in a row, will not get better by being started again.
HEALTHY_SECONDS = 10.0
GIVE_UP_AFTER = 3
LONGEST_BACKOFF_SECONDS = 30.0
STOP_SECONDS = 15.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class PartFailed(Exception):
    """A part cannot be kept running; the message is a sentence."""


@dataclass(slots=True)
class Part:
    """One program to keep running. ``name`` is for people.

    ``watches_parent``: it sees by itself when its supervisor has died.
    """

    name: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: str
    watches_parent: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    quick_ends: int = field(default=0)

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C in the terminal reaches the supervisor alone."""
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.argv,
            env=dict(self.environ),
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # Nothing may run between fork and exec in a process that has other threads.
            preexec_fn=None if self.watches_parent else _end_with(os.getpid()),
        )

    def tend(self) -> None:
        """Start it again when it has ended. Raises :class:`PartFailed` when that does not help."""
        now = time.monotonic()
        if self.process is None:
            if now >= self.start_again_at:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        self.quick_ends = self.quick_ends + 1 if now - self.started_at < HEALTHY_SECONDS else 1
        log.warning("part_ended", part=self.name, code=code, times=self.quick_ends)
        if self.quick_ends >= GIVE_UP_AFTER:
            raise PartFailed(f"The {self.name} ended {self.quick_ends} times right after its start (exit code {code}).")
        self.process = None
        self.start_again_at = now + min(2.0**self.quick_ends / 2, LONGEST_BACKOFF_SECONDS)


def own_part(name: str, argv: Sequence[str], *, watches_parent: bool = False) -> Part:
    """A program of this checkout, with this process's settings and data."""
    code = str(settings.BASE_DIR)
    environ = {
        **os.environ,
        "FORKHOST_DATA": str(settings.FORKHOST_DATA),
        "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
        "PYTHONPATH": os.pathsep.join([code, *filter(None, [os.environ.get("PYTHONPATH", "")])]),
    }
    return Part(name, argv, environ, code, watches_parent)


def _end_with(parent: int) -> Callable[[], None] | None:
    """On Linux, have the child asked to stop when the supervisor dies without being able to ask."""
    if _libc is None:
        return None

    def before_exec() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def keep_running(
    parts: Sequence[Part],
    stop: StopFlag,
    ready: Callable[[], bool] = lambda: True,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Keep ``parts`` running until ``stop`` is requested, then stop them all.

    ``ready`` is asked until it says yes; then ``on_ready`` is called, once. Raises :class:`PartFailed`, also after
    stopping the others.
    """
    told = False
    try:
        for part in parts:
            part.start()
        while not stop.requested:
            for part in parts:
                part.tend()
            if not told and ready():
                told = True
                on_ready()
            stop.wait(POLL_SECONDS)
    finally:
        stop_all(parts)


def stop_all(parts: Sequence[Part]) -> None:
    """Ask every part to stop, and end those that do not within some seconds."""
    running = [part.process for part in parts if part.process is not None and part.process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("part_killed", pid=process.pid)
            process.kill()
            process.wait()
