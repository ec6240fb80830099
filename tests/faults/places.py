"""Where forks are made in the fault tests: a home of one agent, with settled sources, that counts what the agent did."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from django.contrib.auth.models import User

from forkhost.demo import codex_home
from forkhost.demo.mock_responses import MockResponses
from sessions import runners, store
from sessions.choices import ForkContract
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Runner, Session, Workspace
from sessions.providers import registry
from sessions.providers.codex.executable import OVERRIDE, find_executable
from sessions.providers.codex.rollouts import read_meta, rollout_files
from sessions.syncing import claim_next
from sessions.workspaces import join
from tests.agents.fake_provider import PROVIDER, FakeProvider
from tests.claude.support import PROJECT_KEY, RECORDINGS, session_id
from tests.operations.support import turn

MARKER = "forkhost:"
RECORDED_FOLDER = b"/home/dev/project"

# The call's behaviour by chance: mostly it works, and each other way to end comes up in a long run.
STEPS = ("accept",) * 12 + ("reject", "lose", "lose_answer", "torn", "half", "explode", "not_started")


class Agent(Protocol):
    """What one agent's home shows, read without forkhost."""

    provider: str
    environment: dict[str, str]

    def calls(self) -> Counter[str] | None:
        """Native calls by operation; None where the agent keeps no count, and then its children are the count."""

    def children(self) -> dict[str, str]:
        """Every child that exists, with the operation whose mark it bears."""

    def digest(self) -> str:
        """One digest over the bytes of all sources."""


@dataclass
class Place:
    """A workspace, a runner, a home and its sources."""

    agent: Agent
    workspace: Workspace
    user: User
    runner: Runner
    home: Home
    sources: list[Session] = field(default_factory=list)

    def request(self, source: Session, point: dict[str, Any] | None = None) -> dict[str, Any]:
        """A new request for a fork, as facts that another process can be given."""
        return {
            "workspace": str(self.workspace.pk),
            "user": self.user.pk,
            "source": str(source.pk),
            "request": str(uuid.uuid4()),
            "target": str(uuid.uuid4()),
            "point": point or {"type": "latestSettled"},
        }

    def work(self, lease: float, **more: Any) -> dict[str, Any]:
        """The facts of a worker of this place."""
        return {"runner": str(self.runner.pk), "lease": lease, **more}


def make_place(agent: Agent, folder: Path, contract: ForkContract = ForkContract.OPTIMISTIC) -> Place:
    """A workspace of its own around the agent's home, attested."""
    name = uuid.uuid4().hex[:12]
    workspace = Workspace.objects.create(name=name, slug=name, fork_contract=contract)
    user = User.objects.create_user(name)
    join(user, workspace)
    runner = runners.start(workspace, name)
    home = Home.objects.create(runner=runner, provider=agent.provider, path=str(folder), queue=str(runner.pk))
    runners.attest(home)
    home.refresh_from_db()
    return Place(agent, workspace, user, runner, home)


def import_home(place: Place) -> None:
    """Read every session of the home; they are the sources."""
    Scanner(place.home, registry.adapter(place.home.provider)).scan()
    while (lease := claim_next(place.runner.pk, "driver", hurried=False)) is not None:
        import_claimed(lease, lambda: False)
    place.sources = list(Session.objects.filter(home=place.home).order_by("created_at_unix_ms"))
    assert place.sources
    assert all(source.turn_count for source in place.sources)


# --------------------------------------------------------------------------------------------------------------------
# The agent made for tests


@dataclass
class FakeAgent:
    """Counts its calls in files; see :mod:`tests.agents.fake_provider`."""

    folder: Path
    provider: str = PROVIDER
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def fake(self) -> FakeProvider:
        return FakeProvider(self.folder)

    def calls(self) -> Counter[str]:
        return Counter(call["operation"] for call in self.fake.calls)

    def children(self) -> dict[str, str]:
        return {child["id"]: child["marker"].removeprefix(MARKER) for child in self.fake.children}

    def digest(self) -> str:
        """Nothing: its sources are no files, and their histories are compared in the database."""
        return ""


def fake_place(folder: Path, contract: ForkContract, sources: int, chance: random.Random) -> Place:
    """A home of the fake agent whose calls end by chance."""
    agent = FakeAgent(folder)
    agent.fake.script(*(chance.choice(STEPS) for _ in range(4 * sources)))
    place = make_place(agent, folder, contract)
    for _ in range(sources):
        source = store.create(
            workspace=place.workspace,
            provider=PROVIDER,
            home=place.home,
            provider_session_id=f"source-{uuid.uuid4()}",
            title="Fix login",
            cwd=str(folder),
        )
        for number in (1, 2):
            store.append(source.pk, turn(number))
        place.sources.append(Session.objects.get(pk=source.pk))
    return place


# --------------------------------------------------------------------------------------------------------------------
# Codex

# Notes down every request on its way to the real program, in whose place it stands.
SPY = """#!/bin/sh
if [ "$1" = app-server ]; then tee -a '{log}' | '{codex}' "$@"; else exec '{codex}' "$@"; fi
"""


@dataclass
class CodexAgent:
    """The bundled codex, each of its requests noted down."""

    home: Path
    log: Path
    environment: dict[str, str]
    provider: str = "codex"

    def calls(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for line in self.log.read_bytes().split(b"\n") if self.log.exists() else []:
            if b'"thread/fork"' in line:
                marker = json.loads(line)["params"].get("threadSource") or ""
                if marker.startswith(MARKER):
                    counted[marker.removeprefix(MARKER)] += 1
        return counted

    def children(self) -> dict[str, str]:
        found = {}
        for file in rollout_files(self.home):
            meta = read_meta(file.path)
            if meta is not None and meta.forked_from_id:
                found[meta.thread_id] = (meta.thread_source or "").removeprefix(MARKER)
        return found

    def digest(self) -> str:
        sources = [file.path for file in rollout_files(self.home) if not self._is_child(file.path)]
        return _digest(sources)

    @staticmethod
    def _is_child(path: Path) -> bool:
        meta = read_meta(path)
        return meta is None or bool(meta.forked_from_id)


@contextlib.contextmanager
def codex_place(folder: Path) -> Iterator[Place]:
    """A private home of the real codex with one thread of two turns."""
    project = folder / "project"
    project.mkdir(parents=True)
    real = find_executable({})
    assert real is not None
    spy = folder / "codex-spy"
    spy.write_text(SPY.format(log=folder / "calls.jsonl", codex=real.path))
    spy.chmod(0o755)
    with MockResponses() as model, _environment(**{OVERRIDE: str(spy)}):
        home = codex_home.make_home(folder / "home", model.base_url)
        codex_home.run_thread(home, project, ["First", "Second"])
        place = make_place(CodexAgent(home, folder / "calls.jsonl", {OVERRIDE: str(spy)}), home)
        import_home(place)
        yield place


# --------------------------------------------------------------------------------------------------------------------
# Claude


@dataclass
class ClaudeAgent:
    """The real SDK over a recorded transcript. It keeps no count of calls: each one that went through is a child."""

    folder: Path
    source: str
    environment: dict[str, str] = field(default_factory=dict)
    provider: str = "claude"

    def calls(self) -> None:
        return None

    def children(self) -> dict[str, str]:
        found = {}
        for path in self.folder.glob("*.jsonl"):
            if path.stem != self.source:
                found[path.stem] = self._marker(path)
        return found

    @staticmethod
    def _marker(path: Path) -> str:
        for line in path.read_bytes().split(b"\n"):
            if b'"custom-title"' in line:
                title = str(json.loads(line)["customTitle"])
                if title.startswith(MARKER):
                    return title.removeprefix(MARKER)
        return ""

    def digest(self) -> str:
        return _digest([self.folder / f"{self.source}.jsonl"])


@contextlib.contextmanager
def claude_place(folder: Path) -> Iterator[Place]:
    """A private home with one recorded session, forked by the real SDK."""
    config = folder / "home"
    transcripts = config / "projects" / PROJECT_KEY
    transcripts.mkdir(parents=True)
    source = session_id("source")
    project = folder / "project"
    project.mkdir()
    # The recorded folder is on no machine but the recording one, and forks run in folders that exist.
    recorded = (RECORDINGS / "source.jsonl").read_bytes()
    (transcripts / f"{source}.jsonl").write_bytes(recorded.replace(RECORDED_FOLDER, str(project).encode()))
    place = make_place(ClaudeAgent(transcripts, source), config)
    import_home(place)
    yield place


def _digest(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
