"""Real processes of forkhost, with a data folder and agents' homes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
LONG = 120.0


class Process:
    """One started command; its output is kept as it comes."""

    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self.popen = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=CHECKOUT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, seconds: float = LONG) -> str:
        """The first line that holds ``text``."""
        deadline = time.monotonic() + seconds

        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._changed:
            while (line := found()) is None:
                assert self.popen.poll() is None or self._reader.is_alive(), self.output
                assert self._changed.wait(max(0.0, deadline - time.monotonic())) or found(), self.output
        return line

    def stop(self) -> int:
        """Ask it to stop as a service manager does; its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        code = self.popen.wait(LONG)
        self._reader.join(LONG)
        return code

    def children(self) -> list[int]:
        """The processes it started, and theirs."""
        return list(descendants(self.popen.pid))


def descendants(pid: int) -> Iterator[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return
    for child in map(int, text.split()):
        yield child
        yield from descendants(child)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + LONG
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, [pid for pid in pids if alive(pid)]
        time.sleep(0.05)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a person who has no database server and whose agents have done nothing yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORKHOST_", "DATABASE_URL"))}
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        home = tmp_path / name.lower()
        home.mkdir()
        kept[name] = str(home)
    data = tmp_path / "data"
    return {**kept, "DJANGO_SETTINGS_MODULE": "forkhost.settings", "FORKHOST_DATA": str(data), "HOME": str(tmp_path)}


Start = Callable[..., Process]


@pytest.fixture
def start(environ: dict[str, str]) -> Iterator[Start]:
    """Starts ``manage.py`` with the arguments; whatever still runs after the test is ended."""
    started: list[Process] = []

    def start_one(*arguments: str, **more: str) -> Process:
        process = Process(list(arguments), {**environ, **more})
        started.append(process)
        return process

    yield start_one
    for process in started:
        for pid in [process.popen.pid, *process.children()]:
            if process.popen.poll() is None or alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.ended()
