"""What a turn is made of on a page: its records, joined where they belong together, cut where they are long."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.utils.safestring import SafeString

from sessions.choices import EventKind
from sessions.history import EventView
from sessions.pages.rendering import RENDER_LIMIT, Renderer
from sessions.payloads import plain

PROSE_LIMIT = 12_000
OUTPUT_LIMIT = 3_000
GIST_LIMIT = 160
_ANSI = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))")
_GIST_KEYS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt")


class BlockKind(enum.StrEnum):
    """How a block looks."""

    YOU = "you"
    AGENT = "agent"
    REASONING = "reasoning"
    TOOL = "tool"
    CONTEXT = "context"
    COMPACTION = "compaction"
    INTERACTION = "interaction"
    NOTE = "note"


@dataclass(slots=True)
class Cut:
    """A text as the page shows it. ``more`` says that the record's own page (``seq``) shows the whole."""

    text: str
    seq: int
    size: int
    more: bool

    @classmethod
    def of(cls, text: str, seq: int, limit: int) -> Cut:
        """At most ``limit`` characters, without terminal colours and without what no page can hold."""
        head = plain(_ANSI.sub("", text[: limit + 2_000]))
        return cls(head[:limit], seq, len(text), len(text) > limit)


@dataclass(slots=True)
class Block:
    """One piece of a turn. ``html`` is set for prose that has been rendered; else ``cut`` is shown as plain text."""

    kind: BlockKind
    seq: int
    at_unix_ms: int
    cut: Cut | None = None
    html: SafeString | None = None
    deferred: bool = False
    name: str = ""
    gist: str = ""
    input: Cut | None = None
    output: Cut | None = None
    failed: bool = False
    exit_code: int | None = None
    answered: bool = False
    word: str = ""
    images: list[Image] = field(default_factory=list)


@dataclass(slots=True)
class Image:
    """A picture of a message; ``stored`` says that its bytes are ours to show."""

    seq: int
    position: int
    media_type: str
    stored: bool


def build(events: Iterable[EventView], render: Renderer) -> list[Block]:
    """The blocks of ``events``, which are in order. A tool's result joins its call when both are there."""
    blocks: list[Block] = []
    calls: dict[str, Block] = {}
    for event in events:
        maker = _MAKERS.get(event.kind)
        if maker is None:
            continue
        if event.kind == EventKind.TOOL_RESULT and (call := calls.pop(_text(event, "callId"), None)) is not None:
            _finish(call, event)
            continue
        block = maker(event, render)
        if event.kind == EventKind.TOOL_CALL:
            calls[_text(event, "callId")] = block
        blocks.append(block)
    return blocks


def text_of(event: EventView) -> str:
    """The whole text of a record as a person would read it: its words, its output, or its JSON."""
    if event.kind == EventKind.TOOL_RESULT:
        return _text(event, "output")
    if event.kind == EventKind.TOOL_CALL:
        return _shown_input(event.payload.get("input"))
    text = _text(event, "text")
    return text or _pretty(event.payload)


def is_markdown(event: EventView) -> bool:
    """Whether the record is an agent's prose."""
    return event.kind in (EventKind.MESSAGE_ASSISTANT, EventKind.REASONING, EventKind.COMPACTION)


def _text(event: EventView, key: str) -> str:
    value = event.payload.get(key)
    return value if isinstance(value, str) else "" if value is None else _pretty(value)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _prose(kind: BlockKind, event: EventView, render: Renderer) -> Block:
    text = _text(event, "text")
    block = Block(kind, event.seq, event.at_unix_ms, images=_images(event))
    if kind is BlockKind.YOU or kind in (BlockKind.CONTEXT, BlockKind.NOTE):
        block.cut = Cut.of(text, event.seq, PROSE_LIMIT)
        return block
    block.html = render(text)
    if block.html is None:
        block.deferred = True
        block.cut = Cut.of(text, event.seq, PROSE_LIMIT)
    elif len(text) > RENDER_LIMIT:
        block.cut = Cut("", event.seq, len(text), True)
    return block


def _you(event: EventView, render: Renderer) -> Block:
    return _prose(BlockKind.YOU, event, render)


def _agent(event: EventView, render: Renderer) -> Block:
    return _prose(BlockKind.AGENT, event, render)


def _reasoning(event: EventView, render: Renderer) -> Block:
    block = _prose(BlockKind.REASONING, event, render)
    block.gist = _one_line(_text(event, "text"))
    return block


def _context(event: EventView, render: Renderer) -> Block:
    block = _prose(BlockKind.CONTEXT, event, render)
    block.gist = _one_line(_text(event, "text"))
    return block


def _note(event: EventView, render: Renderer) -> Block:
    return _prose(BlockKind.NOTE, event, render)


def _compaction(event: EventView, render: Renderer) -> Block:
    block = _prose(BlockKind.COMPACTION, event, render)
    block.word = "by itself" if event.payload.get("trigger") == "auto" else ""
    return block


def _tool_call(event: EventView, render: Renderer) -> Block:
    given = event.payload.get("input")
    return Block(
        BlockKind.TOOL,
        event.seq,
        event.at_unix_ms,
        name=plain(_text(event, "name"))[:80] or "tool",
        gist=_gist(given),
        input=Cut.of(_shown_input(given), event.seq, OUTPUT_LIMIT),
    )


def _tool_result(event: EventView, render: Renderer) -> Block:
    block = Block(BlockKind.TOOL, event.seq, event.at_unix_ms, name="result", gist=_one_line(_text(event, "output")))
    _finish(block, event)
    return block


def _finish(block: Block, event: EventView) -> None:
    block.answered = True
    block.output = Cut.of(_text(event, "output"), event.seq, OUTPUT_LIMIT)
    code = event.payload.get("exitCode")
    block.exit_code = code if isinstance(code, int) and not isinstance(code, bool) else None
    block.failed = bool(event.payload.get("isError")) or bool(block.exit_code)
    block.images = _images(event)


_ASKED = {
    EventKind.INTERACTION_ASKED: "asked",
    EventKind.INTERACTION_ANSWERED: "answered",
    EventKind.INTERACTION_SUPERSEDED: "superseded",
}


def _interaction(event: EventView, render: Renderer) -> Block:
    payload = {key: value for key, value in event.payload.items() if key not in ("interactionId", "kind")}
    said = next(
        (payload[key] for key in ("text", "question", "plan", "answer") if isinstance(payload.get(key), str)), ""
    )
    return Block(
        BlockKind.INTERACTION,
        event.seq,
        event.at_unix_ms,
        name=plain(_text(event, "kind"))[:40].capitalize() or "Interaction",
        word=_ASKED[EventKind(event.kind)],
        cut=Cut.of(said or (_pretty(payload) if payload else ""), event.seq, PROSE_LIMIT),
    )


_MAKERS: dict[str, Callable[[EventView, Renderer], Block]] = {
    EventKind.MESSAGE_USER: _you,
    EventKind.MESSAGE_ASSISTANT: _agent,
    EventKind.REASONING: _reasoning,
    EventKind.TOOL_CALL: _tool_call,
    EventKind.TOOL_RESULT: _tool_result,
    EventKind.CONTEXT: _context,
    EventKind.COMPACTION: _compaction,
    EventKind.INTERACTION_ASKED: _interaction,
    EventKind.INTERACTION_ANSWERED: _interaction,
    EventKind.INTERACTION_SUPERSEDED: _interaction,
    EventKind.NOTE: _note,
}


def _shown_input(given: Any) -> str:
    """A tool's input: the command itself where it is nothing but one, else JSON."""
    if isinstance(given, str):
        return given
    if isinstance(given, dict):
        command = given.get("command") or given.get("cmd")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = " ".join(command)
        if isinstance(command, str) and set(given) <= {"command", "cmd", "workdir", "description", "timeout", "cwd"}:
            return command
    return "" if given in (None, {}, "") else _pretty(given)


def _gist(given: Any) -> str:
    if isinstance(given, dict):
        for key in _GIST_KEYS:
            value = given.get(key)
            if isinstance(value, list):
                value = " ".join(str(word) for word in value)
            if isinstance(value, str) and value.strip():
                return _one_line(value)
        return _one_line(json.dumps(given, ensure_ascii=False, default=str)) if given else ""
    return _one_line(given) if isinstance(given, str) else ""


def _one_line(text: str) -> str:
    words = plain(_ANSI.sub("", text[: GIST_LIMIT * 4])).split()
    line = " ".join(words)
    return line if len(line) <= GIST_LIMIT else line[: GIST_LIMIT - 1] + "…"


def _images(event: EventView) -> list[Image]:
    listed = event.payload.get("images")
    if not isinstance(listed, list):
        return []
    return [
        Image(event.seq, position, str(item.get("mediaType", "")), isinstance(item.get("sha256"), str))
        for position, item in enumerate(listed)
        if isinstance(item, dict)
    ]
