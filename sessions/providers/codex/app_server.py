"""A client for one short-lived ``codex app-server``: JSON-RPC over its standard input and output, one object a line.

The process leads its own group, so that everything it starts can be ended with it, and gets only an allow-listed
environment. Nothing here retries: a request is written once, and what is known about its delivery is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from sessions.providers.base import Json, ProcessIdentity

CLIENT_NAME = "forkhost"
CLIENT_VERSION = "1"

# What a fork needs and no more: no credential is handed over, because a fork asks no model.
PASSED_ENVIRONMENT: tuple[str, ...] = (
    "HOME",
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CODEX_CA_CERTIFICATE",
    "CODEX_SQLITE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SYSTEMROOT",
)

CHUNK = 1 << 16
GRACE_SECONDS = 3.0
POLL_SECONDS = 0.005
METHOD_NOT_FOUND = -32601


class AppServerError(Exception):
    """The app-server could not be used. ``sent`` says whether a request may have reached it."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AppServerClosed(AppServerError):
    """The process ended, or closed its output, before it answered."""


class AppServerTimeout(AppServerError):
    """No answer before the deadline."""


class RpcError(Exception):
    """The app-server answered with an error. ``code`` is its JSON-RPC number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def clean_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The whole environment of an app-server for ``home``."""
    kept = {name: environ[name] for name in PASSED_ENVIRONMENT if name in environ}
    return {**kept, "CODEX_HOME": str(home)}


def process_identity(pid: int) -> ProcessIdentity:
    """Who process ``pid`` is on this boot. ``started_at`` is the kernel's start time in clock ticks since boot."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _identity_without_proc(pid)
    # The command name may hold blanks and brackets; the fields are counted from behind it.
    return ProcessIdentity(pid, stat.rpartition(b")")[2].split()[19].decode(), boot_id)


def _identity_without_proc(pid: int) -> ProcessIdentity:
    def ask(*argv: str) -> str:
        try:
            answer = subprocess.run(argv, capture_output=True, text=True, timeout=GRACE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return answer.stdout.strip()

    return ProcessIdentity(pid, ask("ps", "-o", "lstart=", "-p", str(pid)), ask("sysctl", "-n", "kern.boottime"))


class AppServer:
    """One running app-server. Use as a context manager: the whole process group is gone when the block is left."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        """Start it. Raises ``OSError`` when it cannot be started."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        self._buffer = bytearray()
        self._next_id = 0
        self.notifications: list[Json] = []
        try:
            self._process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError:
            self._log.close()
            raise
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        self._stdin, self._stdout = self._input.fileno(), self._output.fileno()
        os.set_blocking(self._stdin, False)

    def __enter__(self) -> AppServer:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self.close()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def initialize(self, deadline: float) -> Json:
        """Shake hands and return the reply. Raises :class:`AppServerError`, :class:`RpcError`."""
        reply = self.request(
            "initialize",
            {
                "clientInfo": {"name": CLIENT_NAME, "title": CLIENT_NAME, "version": CLIENT_VERSION},
                # Before 0.151 `excludeTurns` and `thread/turns/list` are refused without it.
                "capabilities": {"experimentalApi": True},
            },
            deadline,
        )
        self._write({"method": "initialized"}, deadline)
        return reply

    def request(self, method: str, params: Json, deadline: float) -> Json:
        """Send one request and wait for its reply until ``deadline`` (``time.monotonic()``).

        Raises :class:`RpcError` for an error reply, :class:`AppServerClosed` and :class:`AppServerTimeout` otherwise;
        their ``sent`` is false only when not one byte was taken by the process.
        """
        return self.answer(self.send(method, params, deadline), deadline)

    def send(self, method: str, params: Json, deadline: float) -> int:
        """Send one request; its number, for :meth:`answer`. Raises as :meth:`request` does."""
        self._next_id += 1
        self._write({"id": self._next_id, "method": method, "params": params}, deadline)
        return self._next_id

    def answer(self, number: int, deadline: float) -> Json:
        """Wait for the reply to a request that was sent. Raises as :meth:`request` does."""
        while True:
            message = self.receive(deadline)
            if "method" in message:
                continue
            if message.get("id") == number:
                return _result(message)

    def receive(self, deadline: float) -> Json:
        """The next message of any sort. Requests made to us are declined, notifications kept in ``notifications``."""
        while True:
            line = self._read_line(deadline)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                decline = {"code": METHOD_NOT_FOUND, "message": "not handled by this client"}
                self._write({"id": message["id"], "error": decline}, deadline)
            elif "method" in message:
                self.notifications.append(message)
            return message

    def log_tail(self, limit: int = 600) -> str:
        """The end of what the process wrote to its standard error."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - limit))
        return self._log.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End it politely by closing its input, then make sure that nothing of its group is left."""
        with contextlib.suppress(OSError):
            self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the whole process group now and wait until nothing of it runs. May be called again."""
        if self._log.closed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
        self._log.close()
        deadline = time.monotonic() + GRACE_SECONDS
        while _group_runs(self._process.pid) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _write(self, message: Json, deadline: float) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        written = 0
        while written < len(data):
            if not _ready(self._stdin, select.POLLOUT, deadline):
                raise AppServerTimeout("codex app-server took no request in time", sent=written > 0)
            try:
                written += os.write(self._stdin, data[written:])
            except BlockingIOError:
                continue
            except OSError as error:
                raise AppServerClosed(f"codex app-server is gone: {error}", sent=written > 0) from error

    def _read_line(self, deadline: float) -> bytes:
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            searched = len(self._buffer)
            if not _ready(self._stdout, select.POLLIN, deadline):
                raise AppServerTimeout("codex app-server did not answer in time", sent=True)
            chunk = os.read(self._stdout, CHUNK)
            if not chunk:
                raise AppServerClosed("codex app-server ended before it answered", sent=True)
            self._buffer += chunk


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    """Wait for one descriptor. Not ``select``: a busy worker has more descriptors than that can take."""
    left = deadline - time.monotonic()
    poll = select.poll()
    poll.register(descriptor, event)
    return left > 0 and bool(poll.poll(left * 1000))


def _group_runs(group: int) -> bool:
    """Whether a process of the group still runs; one that is dead but not yet buried does not."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(_runs_in(path, group) for path in Path("/proc").glob("[0-9]*/stat"))


def _runs_in(stat: Path, group: int) -> bool:
    try:
        fields = stat.read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[2]) == group


def _result(message: Json) -> Json:
    error = message.get("error")
    if isinstance(error, dict):
        code: Any = error.get("code")
        raise RpcError(code if isinstance(code, int) else 0, str(error.get("message", "")))
    result = message.get("result")
    return result if isinstance(result, dict) else {}
