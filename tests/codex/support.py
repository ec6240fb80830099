"""What several Codex tests need: requests, reporters, recorded homes, digests of files."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forkhost.demo.codex_home import Thread
from sessions.providers.base import (
    EventKind,
    ForkRequest,
    ForkSettings,
    ForkTurn,
    HomeRef,
    ProcessIdentity,
    ReadEvent,
    ReadItem,
    ReadTurnEnd,
    ReadTurnStart,
    SessionRef,
    TurnBinding,
)
from sessions.providers.codex.adapter import CodexAdapter
from tests.codex.conftest import RECORDINGS

LEGACY, PAGINATED, WITHOUT_IDS = "0.147.0-legacy", "0.171.0", "0.58.0-no-turn-ids"


@dataclass
class Reporter:
    """Remembers what an adapter reported, in order."""

    calls: list[str] = field(default_factory=list)
    process: ProcessIdentity | None = None
    announced: str = ""

    def process_started(self, process: ProcessIdentity) -> None:
        self.calls.append("process_started")
        self.process = process

    def announce(self, child_provider_session_id: str) -> None:
        self.calls.append("announce")
        self.announced = child_provider_session_id


def request_for(
    adapter: CodexAdapter,
    home: HomeRef,
    thread: Thread,
    cwd: Path,
    turn: int,
    *,
    title: str = "",
    require_prefix: bool = False,
    settings: ForkSettings | None = None,
) -> ForkRequest:
    """A fork of ``thread`` through its ``turn``-th turn, counted from 1."""
    operation_id = str(uuid.uuid4())
    prefix = [TurnBinding(turn_id) for turn_id in thread.turns[:turn]]
    return ForkRequest(
        operation_id=operation_id,
        marker=f"forkhost:{operation_id}",
        source=SessionRef(home, thread.id, thread.path, str(cwd)),
        turn=ForkTurn(prefix[-1], turn),
        prefix=prefix,
        title=title,
        settings=settings or ForkSettings(),
        attestation=adapter.attest(home),
        require_prefix=require_prefix,
    )


def recorded_home(version: str, tmp_path: Path) -> HomeRef:
    """A copy of a recorded home that a test may change."""
    path = tmp_path / "recorded"
    shutil.copytree(RECORDINGS / version / "codex-home", path)
    return HomeRef("codex", path)


def recorded_ids(version: str) -> Any:
    return json.loads((RECORDINGS / version / "ids.json").read_text())


def recorded_ref(version: str, home: HomeRef, role: str) -> SessionRef:
    thread = recorded_ids(version)["threads"][role]
    return SessionRef(home, thread["id"], home.path / thread["rollout"], "/home/dev/project")


def digests(home: HomeRef) -> dict[str, str]:
    """The SHA-256 of every rollout of a home, by path."""
    files = sorted(home.path.glob("sessions/**/rollout-*.jsonl"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def turn_ids(items: Iterable[ReadItem]) -> list[str]:
    return [item.binding.provider_turn_id for item in items if isinstance(item, ReadTurnStart)]


def outcomes(items: Iterable[ReadItem]) -> list[str]:
    return [item.outcome.value for item in items if isinstance(item, ReadTurnEnd)]


def told_turns(items: Iterable[ReadItem]) -> list[tuple[str, str, list[str]]]:
    """(turn id, outcome, texts of messages) of every settled turn of a stream."""
    told: list[tuple[str, str, list[str]]] = []
    current, texts = "", []
    for item in items:
        if isinstance(item, ReadTurnStart):
            current, texts = item.binding.provider_turn_id, []
        elif isinstance(item, ReadEvent) and item.kind in (EventKind.MESSAGE_USER, EventKind.MESSAGE_ASSISTANT):
            texts.append(item.payload["text"])
        elif isinstance(item, ReadTurnEnd):
            told.append((current, item.outcome.value, texts))
    return told


def answered_turns(turns: Iterable[Any]) -> list[tuple[str, str, list[str]]]:
    """The same from the server's own answer."""
    return [(turn["id"], turn["status"], list(_texts(turn["items"]))) for turn in turns]


def _texts(items: Iterable[Any]) -> Iterator[str]:
    for item in items:
        if item["type"] == "userMessage":
            yield "".join(part["text"] for part in item["content"])
        elif item["type"] == "agentMessage":
            yield item["text"]
