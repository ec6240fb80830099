"""What the tests of the Claude adapter share."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessions.providers.base import (
    EventKind,
    ForkRequest,
    ForkSettings,
    ForkTurn,
    HomeRef,
    Json,
    ProcessIdentity,
    ReadBinding,
    ReadCursor,
    ReadEvent,
    ReadItem,
    ReadRestart,
    ReadTurnEnd,
    ReadTurnStart,
    SessionRef,
    TurnBinding,
)
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.registry_files import process_started_at

RECORDINGS = Path(__file__).parents[1] / "recordings" / "claude"
PROJECT_KEY = "-home-dev-project"
OPERATION = "7f3a0000-0000-4000-8000-000000000001"


@dataclass
class SeenTurn:
    """One turn as it was delivered. ``outcome`` is "" while it is open."""

    turn_id: str
    origin: str
    prompt: str
    model: str
    binding: TurnBinding
    items: list[list[Any]] = field(default_factory=list)
    events: list[ReadEvent] = field(default_factory=list)
    outcome: str = ""
    usage: Json = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    @property
    def checkpoint(self) -> str:
        return str(self.binding.data["checkpoint"])


def turns_of(items: Iterable[ReadItem], earlier: list[SeenTurn] | None = None) -> list[SeenTurn]:
    """Fold a stream into turns. Standalone text after a turn lands in its ``late``."""
    turns = list(earlier or [])
    for item in items:
        if isinstance(item, ReadRestart):
            turns = []
        elif isinstance(item, ReadTurnStart):
            turns.append(SeenTurn(item.binding.provider_turn_id, item.origin, item.prompt, item.model, item.binding))
        elif isinstance(item, ReadTurnEnd):
            turns[-1].outcome, turns[-1].binding, turns[-1].usage = item.outcome.value, item.binding, item.usage
        elif isinstance(item, ReadBinding):
            turns[-1].binding = item.binding
        elif isinstance(item, ReadEvent) and turns:
            if turns[-1].outcome:
                turns[-1].late.append(item.payload["text"])
            else:
                turns[-1].items.append(_as_expected(item))
                turns[-1].events.append(item)
    return turns


def _as_expected(event: ReadEvent) -> list[Any]:
    """An event in the words of ``expected_turns.json``."""
    payload = event.payload
    if event.kind is EventKind.TOOL_CALL:
        return ["tool_use", payload["name"], payload["callId"]]
    if event.kind is EventKind.TOOL_RESULT:
        return ["tool_result", payload["callId"], payload["isError"]]
    word = {
        EventKind.MESSAGE_USER: "command"
        if payload.get("command")
        else "queued"
        if payload.get("queued")
        else "prompt",
        EventKind.MESSAGE_ASSISTANT: "text",
        EventKind.REASONING: "thinking",
        EventKind.COMPACTION: "summary",
        EventKind.CONTEXT: "command",
        EventKind.NOTE: "interrupt" if payload.get("interrupt") else "error",
    }[event.kind]
    return [word, payload["text"]]


def expected() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((RECORDINGS / "expected_turns.json").read_bytes())
    return value


def session_id(name: str) -> str:
    return str(expected()[name]["session_id"])


def place(config: Path, *names: str) -> None:
    """Put recordings where the agent keeps its transcripts."""
    folder = config / "projects" / PROJECT_KEY
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(RECORDINGS / f"{name}.jsonl", folder / f"{session_id(name)}.jsonl")


def ref_of(config: Path, identity: str) -> SessionRef:
    """The session as discovery finds it."""
    adapter = ClaudeAdapter()
    found = {each.ref.provider_session_id: each.ref for each in adapter.discover(HomeRef("claude", config), {})}
    return found[identity]


def read(ref: SessionRef, since: Json | None = None, after: TurnBinding | None = None) -> list[ReadItem]:
    return list(ClaudeAdapter().read(ref, since, after))


def cursor_of(items: list[ReadItem]) -> Json:
    """The last cursor as it comes back from the database."""
    last = items[-1]
    assert isinstance(last, ReadCursor)
    value: Json = json.loads(json.dumps(last.cursor))
    return value


def at_work(config: Path, identity: str, status: str = "busy", since_ms: int = 0, **more: Any) -> Path:
    """Register this very process as the agent that has the session open."""
    entry = json.loads((RECORDINGS / "sessions_registry_busy.json").read_bytes())
    del entry["pidDomain"]
    entry |= {"pid": os.getpid(), "procStart": process_started_at(os.getpid()), "sessionId": identity}
    entry |= {"status": status, "statusUpdatedAt": since_ms, **more}
    path = config / "sessions" / f"{entry['pid']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(entry))
    return path


def request_for(
    source: SessionRef, turns: list[SeenTurn], number: int, *, operation: str = OPERATION, title: str = "A fork (2)"
) -> ForkRequest:
    """A fork through turn ``number``, counted from 1."""
    adapter = ClaudeAdapter()
    return ForkRequest(
        operation_id=operation,
        marker=f"forkhost:{operation}",
        source=source,
        turn=ForkTurn(turns[number - 1].binding, number),
        prefix=[turn.binding for turn in turns[:number]],
        title=title,
        settings=ForkSettings(),
        attestation=adapter.attest(source.home),
    )


@dataclass
class Reporter:
    """Remembers what was reported, in order; ``refuse`` raises it at that step."""

    heard: list[str] = field(default_factory=list)
    process: ProcessIdentity | None = None
    announced: str = ""
    refuse_process: Exception | None = None
    refuse_announce: Exception | None = None

    def process_started(self, process: ProcessIdentity) -> None:
        self.heard.append("process")
        self.process = process
        if self.refuse_process:
            raise self.refuse_process

    def announce(self, child_provider_session_id: str) -> None:
        self.heard.append("announce")
        self.announced = child_provider_session_id
        if self.refuse_announce:
            raise self.refuse_announce
