"""A warm process that forks real worker processes, so that a kill does not cost a second of importing Django.

It opens no database connection and starts no thread, so what it forks is like a freshly started process.

    python -m tests.faults.zygote      orders on standard input, one JSON object a line; answers alike on standard output

``{"deed", "facts", "environment", "log"}`` starts a process and is answered by ``{"pid"}``; the end of a process by
``{"ended", "code"}``, negative for the signal that killed it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
READY_SECONDS = 60.0
TICK_SECONDS = 0.02
PR_SET_PDEATHSIG = 1
# A worker that is stopped in the middle of a transaction must not outlast the patience of the tests.
STALL = {"FORKHOST_STALL_SECONDS": "3"}


@dataclass
class Worker:
    """One process that carries out a deed. ``code`` as ``subprocess`` has it, None while it runs."""

    zygote: Zygote
    pid: int
    code: int | None = None

    def runs(self) -> bool:
        """Whether it has not ended."""
        self.zygote.listen()
        return self.code is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> int:
        """How it ended. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while self.runs():
            if time.monotonic() > deadline:
                raise TimeoutError(f"worker {self.pid} still runs after {seconds:.0f} s")
            self.zygote.listen(TICK_SECONDS)
        assert self.code is not None
        return self.code

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to stop, as an init system would; how it ended."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)


@dataclass
class Zygote:
    """The driver's side of the warm process. A context manager: everything it started is dead afterwards."""

    environment: dict[str, str]
    log: Path
    workers: dict[int, Worker] = field(default_factory=dict)
    seconds_to_start: float = 0.0
    _ready: bool = False
    _buffer: bytes = b""
    _pids: list[int] = field(default_factory=list)

    def __enter__(self) -> Zygote:
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.zygote"],
                cwd=PROJECT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **self.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready:
            assert time.monotonic() < deadline, f"the zygote does not start; see {self.log}"
            self.listen(0.1)
        self.seconds_to_start = time.monotonic() - begun
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers.values():
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGKILL)
        for worker in self.workers.values():
            worker.wait(10)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def start(self, deed: str, facts: dict[str, Any], **environment: str) -> Worker:
        """Start a process that carries out ``deed`` of :mod:`tests.faults.deeds`."""
        order = {"deed": deed, "facts": facts, "environment": environment, "log": str(self.log)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        pid = self._take_pid(READY_SECONDS)
        return self.workers[pid]

    def _take_pid(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while not self._pids:
            assert time.monotonic() < deadline, f"the zygote does not answer; see {self.log}"
            self.listen(0.1)
        return self._pids.pop()

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what the zygote said, waiting at most so long for it."""
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], seconds)[0]:
            chunk = os.read(self._process.stdout.fileno(), 65536)
            assert chunk, f"the zygote has ended; see {self.log}"
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
            seconds = 0.0

    def _hear(self, said: dict[str, int]) -> None:
        if "ready" in said:
            self._ready = True
        elif "pid" in said:
            self._pids.append(said["pid"])
            self.workers[said["pid"]] = Worker(self, said["pid"])
        else:
            self.workers[said["ended"]].code = said["code"]


# --------------------------------------------------------------------------------------------------------------------
# The warm process itself


def main() -> None:
    """Fork what is ordered and say what ended, until standard input ends."""
    import django

    django.setup()
    from tests.faults import deeds

    deeds.prepare_process()
    _say({"ready": 1})
    buffer = b""
    while True:
        _bury()
        if not select.select([0], [], [], TICK_SECONDS)[0]:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become(order)
            _say({"pid": pid})


def _bury() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _become(order: dict[str, Any]) -> None:
    """The forked process: does its deed and ends, and never returns into the loop above."""
    code = 1
    try:
        # Nobody is left behind when the driver, and with it the zygote, is killed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.update(order["environment"])
        from tests.faults import deeds

        deeds.carry_out(order["deed"], order["facts"])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
