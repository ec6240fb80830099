"""An importer without loops: each test says when a home is looked at and when transcripts are read."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sessions import history, runners, syncing, workspaces
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Runner, Session
from sessions.providers import registry
from sessions.providers.base import Adapter
from tests.importing.told import PROVIDER, Told, ToldAdapter

RECORDINGS = Path(__file__).parents[1] / "recordings"


@dataclass
class Desk:
    """One runner and what its worker would do, step by step."""

    runner: Runner
    folder: Path

    def home(self, provider: str, path: Path) -> Home:
        """A home of the runner, at ``path``."""
        runners.ensure_homes(self.runner, {}, [(provider, path)])
        home: Home = Home.objects.select_related("runner__workspace").get(provider=provider, path=str(path))
        return home

    def scanner(self, home: Home) -> Scanner:
        return Scanner(home, registry.adapter(home.provider))

    def scan(self, home: Home) -> int:
        """Look once, as a worker that has just started."""
        return self.scanner(home).scan()

    def read_one(self, *, hurried: bool = False) -> Session | None:
        """Read the next transcript; whose it was."""
        lease = syncing.claim_next(self.runner.pk, "desk", hurried=hurried)
        if lease is None:
            return None
        import_claimed(lease, lambda: False)
        session: Session = Session.objects.select_related("sync", "home").get(pk=lease.pk)
        return session

    def read_all(self) -> None:
        """Read until nothing is due."""
        while self.read_one() is not None:
            pass

    def bring_in(self, home: Home) -> None:
        """Look and read."""
        self.scan(home)
        self.read_all()


@pytest.fixture
def desk(db: None, tmp_path: Path) -> Desk:
    return Desk(runners.start(workspaces.default_workspace(), "here"), tmp_path)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> ToldAdapter:
    """The only adapter there is."""
    adapter = ToldAdapter()
    adapters: Mapping[str, Adapter] = {PROVIDER: adapter}  # type: ignore[dict-item]
    monkeypatch.setattr(registry, "adapters", lambda: adapters)
    return adapter


@pytest.fixture
def told_home(desk: Desk, told: ToldAdapter) -> Home:
    """An empty home of that adapter; its sessions are ``sessions_of(told, home)``."""
    path = desk.folder / "told"
    told.homes[path] = []
    return desk.home(PROVIDER, path)


def sessions_of(told: ToldAdapter, home: Home) -> list[Told]:
    """The list to put sessions into."""
    return told.homes[Path(home.path)]


def put_codex(desk: Desk, recording: str) -> Home:
    """A recorded Codex home as a home of the runner."""
    target = desk.folder / recording
    shutil.copytree(RECORDINGS / "codex" / recording / "codex-home", target)
    return desk.home("codex", target)


def put_claude(desk: Desk, **transcripts: str) -> Home:
    """Recorded Claude transcripts, by recording and session id, as a home of the runner."""
    config = desk.folder / "claude"
    project = config / "projects" / "-home-dev-project"
    project.mkdir(parents=True, exist_ok=True)
    for recording, session_id in transcripts.items():
        shutil.copy(RECORDINGS / "claude" / f"{recording}.jsonl", project / f"{session_id}.jsonl")
    return desk.home("claude", config)


def only_session(home: Home) -> Session:
    """The one session of the home."""
    session: Session = Session.objects.select_related("sync", "home").get(home=home)
    return session


def texts(session: Session) -> list[str]:
    """What was said, in order."""
    return [event.payload["text"] for event in history.events(session, limit=10_000) if "text" in event.payload]


def shown(session: Session) -> list[tuple[int, str, int, object]]:
    """Everything that a history says, apart from where it lies."""
    return [(event.seq, event.kind, event.at_unix_ms, event.payload) for event in history.events(session, limit=10_000)]
