"""Makes a private ``CODEX_HOME`` whose model is the stand-in, and runs real turns in it through ``codex app-server``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sessions.providers.base import Json
from sessions.providers.codex.app_server import AppServer, clean_environment
from sessions.providers.codex.executable import Executable, find_executable

MODEL = "mock-model"
TURN_SECONDS = 60.0

CONFIG = """\
model = "{model}"
model_provider = "mock"
approval_policy = "{approval_policy}"
sandbox_mode = "{sandbox_mode}"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
plugins = false
"""


@dataclass(slots=True)
class Thread:
    """A thread and the ids of its turns in order, inherited ones included."""

    id: str
    path: Path
    turns: list[str] = field(default_factory=list)


def make_home(
    path: Path, base_url: str, *, approval_policy: str = "never", sandbox_mode: str = "danger-full-access"
) -> Path:
    """Create the folder with a configuration that knows only the model at ``base_url``."""
    path.mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(model=MODEL, base_url=base_url, approval_policy=approval_policy, sandbox_mode=sandbox_mode)
    (path / "config.toml").write_text(config)
    return path


class Codex:
    """A running app-server in such a home: starts threads, runs turns, waits until they have ended."""

    def __init__(self, server: AppServer) -> None:
        self.server = server

    def start(self, cwd: Path, *, instructions: str = "You are a test agent.") -> Thread:
        reply = self._ask("thread/start", {"cwd": str(cwd), "baseInstructions": instructions})
        return Thread(reply["thread"]["id"], Path(reply["thread"]["path"]))

    def resume(self, thread: Thread) -> Thread:
        self._ask("thread/resume", {"threadId": thread.id})
        return thread

    def begin_turn(self, thread: Thread, prompt: str) -> str:
        """Start a turn and return its id without waiting for its end."""
        reply = self._ask("turn/start", {"threadId": thread.id, "input": [{"type": "text", "text": prompt}]})
        thread.turns.append(reply["turn"]["id"])
        return thread.turns[-1]

    def run_turn(self, thread: Thread, prompt: str) -> str:
        """Run one turn to its end and return its id. Raises ``AppServerTimeout`` when it does not end."""
        turn_id = self.begin_turn(thread, prompt)
        self.wait("turn/completed", turn_id)
        return turn_id

    def interrupt(self, thread: Thread) -> None:
        """Interrupt the running turn and wait until it has ended."""
        self._ask("turn/interrupt", {"threadId": thread.id, "turnId": thread.turns[-1]})
        self.wait("turn/completed", thread.turns[-1])

    def compact(self, thread: Thread) -> None:
        """Compact the thread and wait until the turn that does it has ended."""
        seen = len(self.server.notifications)
        self._ask("thread/compact/start", {"threadId": thread.id})
        deadline = time.monotonic() + TURN_SECONDS
        while not any(note["method"] == "turn/completed" for note in self.server.notifications[seen:]):
            self.server.receive(deadline)

    def archive(self, thread: Thread) -> None:
        self._ask("thread/archive", {"threadId": thread.id})

    def rename(self, thread: Thread, name: str) -> None:
        self._ask("thread/name/set", {"threadId": thread.id, "name": name})

    def wait(self, method: str, turn_id: str) -> None:
        """Wait for a notification about a turn."""
        deadline = time.monotonic() + TURN_SECONDS
        while not any(
            note["method"] == method and note["params"].get("turn", {}).get("id") == turn_id
            for note in self.server.notifications
        ):
            self.server.receive(deadline)

    def _ask(self, method: str, params: Json) -> Json:
        return self.server.request(method, params, time.monotonic() + TURN_SECONDS)


@contextmanager
def running_codex(home: Path, executable: Executable | None = None) -> Iterator[Codex]:
    """A codex in ``home``, ended with the block. Raises ``FileNotFoundError`` when there is no codex."""
    found = executable or find_executable(os.environ)
    if found is None:
        raise FileNotFoundError("no codex executable: install the extra that bundles one, or put codex on PATH")
    environment = clean_environment(os.environ, home)
    with AppServer(found.argv, cwd=home, environment=environment) as server:
        server.initialize(time.monotonic() + TURN_SECONDS)
        yield Codex(server)


def run_thread(home: Path, cwd: Path, prompts: Sequence[str], *, name: str = "") -> Thread:
    """Start a thread in ``home``, run the prompts as turns, and give it a name when there is one."""
    with running_codex(home) as codex:
        thread = codex.start(cwd)
        for prompt in prompts:
            codex.run_turn(thread, prompt)
        if name:
            codex.rename(thread, name)
    return thread
