"""A private opencode: the pinned program, its server on this machine, and sessions of a given length in it.

The program comes from npm, checked against the integrity in ``opencode_program/package-lock.json``. No model stands
behind the server: sessions come in through ``opencode import``, and a fork asks no model.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from forkhost.management.commands.up import free_port
from sessions.providers.base import Json
from tests.bench.transcripts import BEGAN, Words

PINNED = Path(__file__).parent / "opencode_program"
INSTALLED = Path(sys.prefix) / "opencode"
START_SECONDS = 60.0
CALL_SECONDS = 300.0
TOKENS: Json = {"total": 15, "input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "model": "mock/mock-model",
    "provider": {
        "mock": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Mock",
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "any"},
            "models": {"mock-model": {"name": "Mock", "limit": {"context": 100_000, "output": 4_096}}},
        }
    },
}


class CannotRun(Exception):
    """opencode cannot be had or does not start here; the message is a sentence."""


def program() -> Path:
    """The pinned program, installed beside the tests' environment when it is not there. Raises :class:`CannotRun`."""
    lock = (PINNED / "package-lock.json").read_bytes()
    found = INSTALLED / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
    remembered = INSTALLED / "installed"
    if found.is_file() and remembered.is_file() and remembered.read_bytes() == lock:
        return found
    npm = shutil.which("npm")
    if npm is None:
        raise CannotRun("opencode comes from npm, which is not installed here")
    INSTALLED.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINNED / name, INSTALLED)
    print("Installing opencode ...", flush=True)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=INSTALLED, capture_output=True, text=True, check=False)
    if done.returncode or not found.is_file():
        reason = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        raise CannotRun(f"opencode cannot be installed here: npm says {reason}")
    remembered.write_bytes(lock)
    return found


@dataclass(frozen=True, slots=True)
class OpenCode:
    """A running server."""

    argv: Path
    folder: Path
    environment: dict[str, str]
    client: httpx.Client
    pid: int

    @property
    def state(self) -> Path:
        """Where its database lies."""
        return self.folder / "home" / ".local" / "share" / "opencode"

    def add_session(self, turns: int) -> str:
        """Import a session of that many turns, each a prompt and an answer; its id. Raises :class:`CannotRun`."""
        session_id = f"ses_forkhostbench{turns:013d}"
        path = self.folder / f"{session_id}.json"
        path.write_text(json.dumps(_export(session_id, turns, str(self.folder))))
        done = subprocess.run(
            [self.argv, "import", path],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=CALL_SECONDS,
        )
        if done.returncode or self.count_messages(session_id) != 2 * turns:
            raise CannotRun(f"opencode did not import a session of {turns} turns: {done.stderr.strip()[-200:]}")
        return session_id

    def count_messages(self, session_id: str) -> int:
        """How many messages a session has."""
        return len(self.client.get(f"/session/{session_id}/message").raise_for_status().json())

    def fork(self, session_id: str) -> str:
        """Its own fork of the whole session; the child's id."""
        answer = self.client.post(f"/session/{session_id}/fork", json={}).raise_for_status().json()
        return str(answer["id"])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[OpenCode]:
    """A server with a home of its own below ``folder``, ended with the block. Raises :class:`CannotRun`."""
    argv = program()
    home = folder / "home"
    home.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(CONFIG))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "OPENCODE_"))},
        "HOME": str(home),
        "OPENCODE_CONFIG": str(folder / "opencode.json"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    port = free_port("127.0.0.1", 0)
    serve = [argv, "serve", "--hostname", "127.0.0.1", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        try:
            process = subprocess.Popen(serve, cwd=folder, env=environment, stdout=log, stderr=log)
        except OSError as error:
            raise CannotRun(f"opencode does not run here: {error.strerror}") from error
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=CALL_SECONDS) as client:
        try:
            _wait_healthy(client, process)
            yield OpenCode(argv, folder, environment, client, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_healthy(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    # A request that is sent while it starts may stay unanswered for ever: ask briefly, and ask again.
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CannotRun(f"opencode does not run here: its server ended with exit code {process.returncode}")
        with contextlib.suppress(httpx.HTTPError):
            if client.get("/global/health", timeout=2).is_success:
                return
        time.sleep(0.2)
    raise CannotRun(f"opencode's server was not up within {START_SECONDS:.0f} s")


def _export(session_id: str, turns: int, cwd: str) -> Json:
    began = int(BEGAN.timestamp() * 1000)
    words = Words(turns)
    messages: list[Json] = []
    for number in range(1, turns + 1):
        messages += _turn(session_id, turns, number, began + number * 1_000, words, cwd)
    info = {
        "id": session_id,
        "slug": f"bench-{turns}",
        "projectID": "global",
        "directory": cwd,
        "title": "Fix login",
        "version": "1.18.33",
        "time": {"created": began, "updated": began + turns * 1_000},
    }
    return {"info": info, "messages": messages}


def _turn(session_id: str, turns: int, number: int, at: int, words: Words, cwd: str) -> list[Json]:
    asked, answered = (f"msg_{2 * number + place:012x}{turns:014d}" for place in (0, 1))

    def part(message_id: str, place: int, **fields: Any) -> Json:
        own = f"prt_{8 * number + place:012x}{turns:014d}"
        return {"id": own, "sessionID": session_id, "messageID": message_id, **fields}

    return [
        {
            "info": {
                "id": asked,
                "sessionID": session_id,
                "role": "user",
                "time": {"created": at},
                "summary": {"diffs": []},
                "agent": "build",
                "model": {"providerID": "mock", "modelID": "mock-model"},
            },
            "parts": [part(asked, 0, type="text", text=words.text(200))],
        },
        {
            "info": {
                "id": answered,
                "sessionID": session_id,
                "role": "assistant",
                "time": {"created": at + 1, "completed": at + 500},
                "parentID": asked,
                "modelID": "mock-model",
                "providerID": "mock",
                "mode": "build",
                "agent": "build",
                "path": {"cwd": cwd, "root": cwd},
                "cost": 0,
                "tokens": TOKENS,
                "finish": "stop",
            },
            "parts": [
                part(answered, 1, type="step-start"),
                part(answered, 2, type="text", text=words.text(1500), time={"start": at + 2, "end": at + 300}),
                part(answered, 3, type="step-finish", reason="stop", cost=0, tokens=TOKENS),
            ],
        },
    ]
