"""forkhost as a user runs it: ``manage.py up`` on a database of its own, beside private homes of the real agents."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg
from django.conf import settings

from forkhost.demo import claude_home, codex_home
from forkhost.demo.claude_home import ClaudeHome
from forkhost.demo.mock_messages import MockMessages
from forkhost.demo.mock_responses import MockResponses

PROJECT = Path(__file__).parents[2]
START_SECONDS = 60
LINK = re.compile(rb"Sign in:\s+(http://\S+)")
Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None], *, seconds: float = 20.0, what: str = "it") -> Found:
    """What ``look`` finds, once it finds something. Fails with ``what`` when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds:.0f} s")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def own_database(folder: Path) -> Iterator[str]:
    """The URL of an empty database of the kind the suite runs on."""
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        yield f"sqlite:///{folder / 'up.sqlite3'}"
        return
    name = f"up_{uuid.uuid4().hex[:12]}"
    server = {"host": database["HOST"], "port": database["PORT"], "user": database["USER"]}
    if database["PASSWORD"]:
        server["password"] = database["PASSWORD"]
    with psycopg.connect(dbname="postgres", autocommit=True, **server) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    from tests.conftest import url_of

    try:
        yield url_of({**database, "NAME": name})
    finally:
        with psycopg.connect(dbname="postgres", autocommit=True, **server) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@dataclass
class Agents:
    """Private homes of the real agents and the models that stand behind them."""

    folder: Path
    responses: MockResponses
    messages: MockMessages
    codex: Path
    claude: ClaudeHome
    project: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.codex), "CLAUDE_CONFIG_DIR": str(self.claude.config)}

    def codex_children(self, source: str) -> list[Path]:
        """Rollouts in the Codex home that name ``source`` as what they were forked from."""
        found = []
        for path in self.codex.glob("sessions/**/rollout-*.jsonl"):
            with path.open("rb") as lines:
                if f'"forked_from_id":"{source}"'.encode() in lines.readline():
                    found.append(path)
        return found


@contextlib.contextmanager
def private_agents(folder: Path) -> Iterator[Agents]:
    """Empty homes of both agents, their models standing in on this machine."""
    project = folder / "project"
    project.mkdir()
    with MockResponses() as responses, MockMessages() as messages:
        yield Agents(
            folder,
            responses,
            messages,
            codex_home.make_home(folder / "codex", responses.base_url),
            claude_home.make_home(folder / "claude"),
            project,
        )


@dataclass
class Stack:
    """A running ``manage.py up``."""

    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    base_url: str = ""
    sign_in_link: str = ""
    client: httpx.Client = field(default_factory=httpx.Client)
    workspace: str = ""

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end; its standard output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        """Start it and wait until it serves."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--bind", "127.0.0.1:0", "--no-open"],
                cwd=PROJECT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        match = eventually(lambda: LINK.search(self.log.read_bytes()), seconds=START_SECONDS, what=self._told())
        self.sign_in_link = match.group(1).decode()
        self.base_url = self.sign_in_link.split("/login/")[0]

    def _told(self) -> str:
        return f"the sign-in link (see {self.log.name})"

    def sign_in(self) -> None:
        """Make the REST client of a member with every scope."""
        token = self.manage("token", "root-of-tests", "--create", "--scopes", "read", "fork", "operate").strip()
        self.client = httpx.Client(
            base_url=f"{self.base_url}/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30
        )
        self.workspace = self.get("/workspaces")["items"][0]["id"]

    def stop(self) -> int:
        """End it as an init system would; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def kill(self) -> None:
        """End all of it at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)

    def get(self, path: str, **parameters: Any) -> Any:
        """The body of a 200."""
        reply = self.client.get(path, params=parameters)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def in_workspace(self, path: str) -> str:
        return f"/workspaces/{self.workspace}{path}"

    def session_of(self, provider_session_id: str, *, turns: int, seconds: float = 20.0) -> dict[str, Any]:
        """The session that shows a provider's session, once it has at least that many settled turns."""

        def look() -> dict[str, Any] | None:
            for item in self.get(self.in_workspace("/agent-sessions"), limit=100)["items"]:
                if item["providerSessionId"] == provider_session_id:
                    settled = [turn for turn in self.turns(item["id"]) if turn["phase"] == "settled"]
                    return item if len(settled) >= turns else None
            return None

        return eventually(look, seconds=seconds, what=f"{provider_session_id} with {turns} settled turns")

    def turns(self, session_id: str) -> list[dict[str, Any]]:
        """All turns of a short session."""
        return list(self.get(self.in_workspace(f"/agent-sessions/{session_id}/turns"), limit=100)["items"])

    def fork_body(self, turn_id: str) -> dict[str, Any]:
        """A new request for a fork at a turn."""
        return {
            "requestId": str(uuid.uuid4()),
            "targetAgentSessionId": str(uuid.uuid4()),
            "point": {"type": "throughTurn", "turnId": turn_id},
        }

    def ask_for_fork(self, session_id: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        return self.client.post(self.in_workspace(f"/agent-sessions/{session_id}/fork"), json=body, headers=headers)

    def operation(self, operation_id: str) -> dict[str, Any]:
        return dict(self.get(self.in_workspace(f"/agent-session-fork-operations/{operation_id}")))

    def settled(self, operation_id: str, *, seconds: float = 30.0) -> dict[str, Any]:
        """The operation once it is not on its way any more."""

        def look() -> dict[str, Any] | None:
            operation = self.operation(operation_id)
            return operation if operation["status"] != "accepted" else None

        return eventually(look, seconds=seconds, what=f"the end of operation {operation_id}")

    def fork(self, session_id: str, turn_id: str) -> dict[str, Any]:
        """Fork at a turn and wait for the committed operation."""
        reply = self.ask_for_fork(session_id, self.fork_body(turn_id))
        assert reply.status_code == 202, reply.text
        operation = self.settled(reply.json()["operationId"])
        assert operation["status"] == "committed", operation
        return operation


@contextlib.contextmanager
def running(folder: Path, agents: Agents, **environment: str) -> Iterator[Stack]:
    """A started and signed-in stack, with more ``environment``; everything it started is ended with the block."""
    with own_database(folder) as url:
        stack = Stack(
            {
                **os.environ,
                **agents.environment,
                **environment,
                "DJANGO_SETTINGS_MODULE": "forkhost.settings",
                "DATABASE_URL": url,
                "FORKHOST_DATA": str(folder / "data"),
            },
            folder / "up.log",
        )
        try:
            stack.start()
            stack.sign_in()
            yield stack
        finally:
            stack.client.close()
            stack.kill()
