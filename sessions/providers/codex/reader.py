"""Streams a thread's history out of its rollouts: one pass, bounded memory, resumable at any line.

A turn's beginning is held back until its prompt and its model are known, because they are told once and for all. A
cursor never points behind a held beginning, so that a later stream reads it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from sessions.providers.base import (
    EventKind,
    Json,
    Outcome,
    ReadCursor,
    ReadDamage,
    ReadEvent,
    ReadItem,
    ReadRestart,
    ReadTitle,
    ReadTurnEnd,
    ReadTurnStart,
    TurnBinding,
    Unreadable,
)
from sessions.providers.codex import records
from sessions.providers.codex.lineage import Part, has_rollback, kept_lines
from sessions.providers.codex.lines import Line
from sessions.providers.codex.records import NotJson, Record, text_of
from sessions.providers.codex.rollouts import parse_name

CURSOR_VERSION = 1
CURSOR_EVERY = 200
CHECKED_BYTES = 256

SYNTHESIZED = "turn_id_synthesized"
UNENDED = "turn_unended"
NO_PERSON = "agent"
PERSON = "user"

USAGE_KEYS = {
    "inputTokens": "input_tokens",
    "cachedInputTokens": "cached_input_tokens",
    "outputTokens": "output_tokens",
    "reasoningOutputTokens": "reasoning_output_tokens",
    "totalTokens": "total_tokens",
}


@dataclass(slots=True)
class OpenTurn:
    """A turn that has begun and is not settled; ``id`` is empty where codex recorded none."""

    id: str
    at_ms: int
    origin: str = NO_PERSON
    failed: bool = False
    answered: bool = False
    usage: dict[str, int] = field(default_factory=dict)

    @property
    def binding(self) -> TurnBinding:
        return TurnBinding(self.id) if self.id else TurnBinding("", reason=SYNTHESIZED)


@dataclass(slots=True)
class Held:
    """A beginning that is not told yet, what was in force before it, and what happened since."""

    line: Line
    before: tuple[str, str, dict[str, int] | None]
    prompt: str | None = None
    context_seen: bool = False
    events: list[ReadEvent] = field(default_factory=list)


class Translator:
    """Turns records into items, one file after the other. Its state between two lines fits into a cursor."""

    def __init__(self, state: Json | None = None) -> None:
        state = state or {}
        turn = state.get("turn")
        self.turn = OpenTurn(**turn) if isinstance(turn, dict) else None
        self.model: str = state.get("model", "")
        self.effort: str = state.get("effort", "")
        self.total: dict[str, int] | None = state.get("total")
        self.held: Held | None = None
        self.paginated = False
        self.thread_id = ""

    def state(self) -> Json:
        turn = self.turn
        return {
            "turn": None if turn is None else asdict(turn),
            "model": self.model,
            "effort": self.effort,
            "total": self.total,
        }

    def enter(self, part: Part) -> None:
        """Say which file the next lines come from."""
        self.paginated = part.meta.paginated
        self.thread_id = part.meta.thread_id

    def feed(self, line: Line, record: Record) -> Iterator[ReadItem]:
        """The items that one record adds."""
        if record.type == "response_item":
            # The bulk of every rollout, and never a message, a beginning or an end.
            yield from self._others(line, record)
        elif record.type == "turn_context":
            yield from self._context(record)
        elif record.type == "event_msg" and record.kind in records.STARTS:
            yield from self._start(line, record, text_of(record.payload, "turn_id"))
        elif record.type == "event_msg" and (record.kind in records.COMPLETES or record.kind in records.ABORTS):
            yield from self._end(record)
        elif record.type == "event_msg" and record.kind == "token_count":
            self._count(record.payload.get("info"))
        elif record.type == "event_msg" and record.kind == "thread_settings_applied":
            self._settings(record.payload.get("thread_settings"))
        elif record.type == "event_msg" and record.kind == "thread_name_updated":
            if text_of(record.payload, "thread_id") == self.thread_id:
                yield ReadTitle(text_of(record.payload, "thread_name"))
        else:
            yield from self._content(line, record)

    def withdraw(self) -> Line | None:
        """Forget a beginning that is not told yet; the line to go on at, None when there is none."""
        held = self.held
        if held is None:
            return None
        self.turn, self.held = None, None
        self.model, self.effort, self.total = held.before
        return held.line

    def _settings(self, settings: object) -> None:
        model, effort = records.model_and_effort(settings)
        if model:
            self.model, self.effort = model, effort

    def _context(self, record: Record) -> Iterator[ReadItem]:
        self._settings(record.payload)
        if self.held is not None:
            self.held.context_seen = True
            if self.held.prompt is not None:
                yield from self._release()

    def _start(self, line: Line, record: Record, turn_id: str) -> Iterator[ReadItem]:
        yield from self._superseded(record)
        self.turn = OpenTurn(turn_id, record.at_ms)
        self.held = Held(line, (self.model, self.effort, self.total))
        if not turn_id:
            # Codex of that time counted tokens anew in every process.
            self.total = None

    def _superseded(self, record: Record) -> Iterator[ReadItem]:
        """The next turn's beginning settles one that has no end of its own."""
        if self.turn is None:
            return
        yield from self._release()
        if self.turn.id:
            outcome, binding = Outcome.INTERRUPTED, TurnBinding("", {"turnId": self.turn.id}, UNENDED)
        else:
            outcome = Outcome.COMPLETED if self.turn.answered else Outcome.INTERRUPTED
            binding = self.turn.binding
        if self.turn.failed:
            outcome = Outcome.FAILED
        yield ReadTurnEnd(record.at_ms, outcome, binding, self._usage())
        self.turn = None

    def _end(self, record: Record) -> Iterator[ReadItem]:
        turn = self.turn
        if turn is None or (turn.id and text_of(record.payload, "turn_id") not in ("", turn.id)):
            return
        yield from self._release()
        outcome = Outcome.COMPLETED
        if record.kind in records.ABORTS:
            outcome = Outcome.INTERRUPTED
        elif turn.failed or record.payload.get("error"):
            outcome = Outcome.FAILED
            if not turn.failed:
                yield ReadEvent(EventKind.NOTE, record.at_ms, records.error_note(record.payload["error"]))
        yield ReadTurnEnd(record.at_ms, outcome, turn.binding, self._usage())
        self.turn = None

    def _content(self, line: Line, record: Record) -> Iterator[ReadItem]:
        prompt = records.user_message(record, paginated=self.paginated)
        if prompt is not None:
            if self.turn is None or (not self.turn.id and (self.held is None or self.held.prompt is not None)):
                yield from self._start(line, record, "")
            yield from self._prompt(record, prompt)
            return
        answer = records.agent_message(record, paginated=self.paginated)
        if answer is not None:
            if self.turn is not None:
                self.turn.answered = True
            yield from self._event(EventKind.MESSAGE_ASSISTANT, record, answer)
            return
        yield from self._others(line, record)

    def _others(self, line: Line, record: Record) -> Iterator[ReadItem]:
        events = records.other_events(record, paginated=self.paginated, fallback_id=f"line-{line.number}")
        for kind, payload in events:
            if payload.get("about") == "error" and self.turn is not None:
                self.turn.failed = True
            yield from self._event(kind, record, payload)

    def _prompt(self, record: Record, prompt: Json) -> Iterator[ReadItem]:
        event = ReadEvent(EventKind.MESSAGE_USER, record.at_ms, prompt)
        if self.held is None or self.held.prompt is not None:
            yield from self._release()
            yield event
            return
        self.held.prompt = prompt["text"]
        self.held.events.append(event)
        if self.turn is not None:
            self.turn.origin = PERSON
        if self.held.context_seen:
            yield from self._release()

    def _event(self, kind: EventKind, record: Record, payload: Json) -> Iterator[ReadItem]:
        event = ReadEvent(kind, record.at_ms, payload)
        if self.turn is None:
            yield _standalone(event)
        elif self.held is not None and kind in (EventKind.COMPACTION, EventKind.NOTE):
            self.held.events.append(event)
        else:
            yield from self._release()
            yield event

    def _release(self) -> Iterator[ReadItem]:
        held, turn = self.held, self.turn
        if held is None or turn is None:
            return
        self.held = None
        yield ReadTurnStart(turn.at_ms, turn.binding, held.prompt or "", self.model, self.effort, turn.origin)
        yield from held.events

    def _count(self, info: object) -> None:
        if not isinstance(info, dict):
            return
        # A repeated total is a replay. What is added is the last response's own count: totals run on over rollbacks.
        before, self.total = self.total, _tokens(info.get("total_token_usage"))
        if self.turn is None or self.total == before:
            return
        for key, count in _tokens(info.get("last_token_usage")).items():
            self.turn.usage[key] = self.turn.usage.get(key, 0) + count

    def _usage(self) -> Json:
        return dict(self.turn.usage) if self.turn is not None else {}


class RolloutReader:
    """One stream over the parts of a history; with ``after`` only what follows the end of that turn."""

    def __init__(self, parts: Sequence[Part], *, after: str = "") -> None:
        self.parts = list(parts)
        self.after = after
        self.sizes = [part.end for part in parts]

    def read(self, since: Json | None) -> Iterator[ReadItem]:
        """Every item from ``since`` on, a :class:`ReadRestart` first when that no longer fits."""
        index = 0
        start: Json = {}
        if since is not None:
            fitting = self._fits(since)
            if fitting is None:
                yield ReadRestart()
            else:
                index, start = fitting, since
        translator = Translator(start.get("state"))
        skipping = bool(self.after) and not start
        offset, number = start.get("offset", 0), start.get("line", 1)
        if skipping:
            index, offset, number = self._behind_inherited() or self._skip(translator)
        yield from self._stream(translator, index, offset, number)

    def _stream(self, translator: Translator, index: int, offset: int, number: int) -> Iterator[ReadItem]:
        told, begun_in = 0, index
        for position in range(index, len(self.parts)):
            part = self.parts[position]
            translator.enter(part)
            for line in kept_lines(part, offset, number):
                offset, number = line.end, line.number + 1
                begun_in = begun_in if translator.held is not None else position
                for item in _items(translator, line):
                    told += 1
                    yield item
                if told >= CURSOR_EVERY and translator.held is None:
                    told = 0
                    yield self._cursor(translator, position, offset, number)
            if position + 1 < len(self.parts):
                offset, number = 0, 1
        position = len(self.parts) - 1
        withdrawn = translator.withdraw()
        if withdrawn is not None:
            position, offset, number = begun_in, withdrawn.start, withdrawn.number
        yield self._cursor(translator, position, offset, number)

    def _behind_inherited(self) -> tuple[int, int, int] | None:
        """Where the thread's own first file begins, when it points into the files that hold what it inherited."""
        own = self.parts[-1].meta.thread_id
        for position, part in enumerate(self.parts):
            if part.meta.thread_id == own:
                return (position, 0, 1) if position and parse_name(part.path.name) == (own, "") else None
        return None

    def _skip(self, translator: Translator) -> tuple[int, int, int]:
        """Run silently through the turn ``after`` and say where to go on. Raises :class:`Unreadable`."""
        for position, part in enumerate(self.parts):
            translator.enter(part)
            for line in kept_lines(part):
                for item in _items(translator, line):
                    if isinstance(item, ReadTurnEnd) and item.binding.provider_turn_id == self.after:
                        if line.end == part.end and position + 1 < len(self.parts):
                            return position + 1, 0, 1
                        return position, line.end, line.number + 1
        raise Unreadable(
            "inherited_prefix_changed", "The turn that this session was forked at is no longer part of its history."
        )

    def _cursor(self, translator: Translator, position: int, offset: int, number: int) -> ReadCursor:
        part = self.parts[position]
        cursor: Json = {
            "version": CURSOR_VERSION,
            "parts": [part.key for part in self.parts[:position]],
            "file": part.path.name,
            "offset": offset,
            "line": number,
            "check": _digest_before(part, offset),
            "state": translator.state(),
        }
        return ReadCursor(cursor, sum(self.sizes[:position]) + offset, sum(self.sizes))

    def _fits(self, since: Json) -> int | None:
        """The part in which ``since`` stands when everything before it is still the same, else None."""
        known = since.get("parts")
        offset = since.get("offset")
        if since.get("version") != CURSOR_VERSION or not isinstance(known, list) or not isinstance(offset, int):
            return None
        index = len(known)
        if index >= len(self.parts) or [part.key for part in self.parts[:index]] != known:
            return None
        part = self.parts[index]
        if part.path.name != since.get("file") or part.end < offset:
            return None
        if _digest_before(part, offset) != since.get("check"):
            return None
        return None if not part.meta.paginated and has_rollback(part.path, offset, part.end) else index


def _items(translator: Translator, line: Line) -> Iterator[ReadItem]:
    if line.data is None:
        yield ReadDamage(line.number, "line_too_long")
        return
    try:
        record = records.parse(line.data)
    except NotJson as error:
        yield ReadDamage(line.number, str(error))
        return
    if records.tells_something(record):
        yield from translator.feed(line, record)


def _standalone(event: ReadEvent) -> ReadEvent:
    """What stands between turns may only be context, a compaction or a note."""
    if event.kind in (EventKind.COMPACTION, EventKind.NOTE, EventKind.CONTEXT):
        return event
    text = event.payload.get("text") or event.payload.get("output") or event.payload.get("name") or ""
    return ReadEvent(EventKind.CONTEXT, event.at_ms, {**event.payload, "text": str(text), "was": str(event.kind)})


def _tokens(usage: object) -> dict[str, int]:
    values = usage if isinstance(usage, dict) else {}
    return {ours: value if isinstance(value := values.get(theirs), int) else 0 for ours, theirs in USAGE_KEYS.items()}


def _digest_before(part: Part, offset: int) -> str:
    begin = max(0, offset - CHECKED_BYTES)
    try:
        with part.path.open("rb") as file:
            file.seek(begin)
            return hashlib.sha256(file.read(offset - begin)).hexdigest()[:16]
    except OSError as error:
        raise Unreadable("source_transcript_missing", f"{part.path.name} is gone.") from error
