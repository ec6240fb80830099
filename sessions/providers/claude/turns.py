"""Rows of the canonical branch, one after the other, become turns and events.

The state between two rows is small and plain, so a reader can put it into its cursor and go on later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from sessions.providers.base import (
    EventKind,
    Json,
    Outcome,
    ReadBinding,
    ReadEvent,
    ReadItem,
    ReadTurnEnd,
    ReadTurnStart,
    TurnBinding,
)
from sessions.providers.claude.index import Row, message_id_of, model_and_effort
from sessions.providers.claude.payloads import call_ids, records_of, usage_of, user_payload
from sessions.providers.claude.roles import TURN_STARTS, RowRole, command_text, message_content, text_of
from sessions.providers.claude.transcripts import at_ms

ORIGIN_USER = "user"
ORIGIN_AUTO = "auto"
ORIGIN_COMPACTION = "compaction"

# Blocks of one message arrive in one burst, so only the latest few ids can come again.
_REMEMBERED_MESSAGES = 8


@dataclass(slots=True)
class TurnState:
    """Where the history stands.

    ``turn_id`` is the uuid of the turn's first row, ``checkpoint`` that of its last one. ``complete`` says whether the
    turn could end here: the last thing is an answer, an error or an interruption, and no call waits for its result.
    ``held`` is a slash command whose next row decides whether it began a turn or only printed something.
    """

    turn_id: str = ""
    checkpoint: str = ""
    open: bool = False
    movable: bool = False
    moved: bool = False
    origin: str = ORIGIN_USER
    complete: bool = False
    outcome: str = Outcome.COMPLETED.value
    broken: bool = False
    started_ms: int = 0
    at_ms: int = 0
    model: str = ""
    trigger: str = ""
    pending: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Json) -> TurnState:
        known = {each.name for each in fields(cls)}
        return cls(**{name: item for name, item in value.items() if name in known})

    @property
    def binding(self) -> TurnBinding:
        data: Json = {"checkpoint": self.checkpoint}
        if self.broken:
            data["broken"] = True
        return TurnBinding(self.turn_id, data)


class Ahead(NamedTuple):
    """What the rows after the current one tell about it.

    ``proven`` says that a turn that could end before this row did end there. ``model`` and ``effort`` are those of the answer to a turn starting here.
    """

    proven: bool
    model: str = ""
    effort: str = ""
    broken: bool = False
    image_paths: tuple[str, ...] = ()


class TurnMachine:
    """Feeds rows into a :class:`TurnState` and says what they mean."""

    def __init__(self, state: TurnState) -> None:
        self.state = state

    def feed(self, row: Row, data: Json, ahead: Ahead) -> Iterator[ReadItem]:
        """Items for one row of the canonical branch."""
        now = at_ms(data) or self.state.at_ms
        if row.role not in TURN_STARTS:
            self.state.broken = self.state.broken or ahead.broken
        if row.role in (RowRole.PROMPT, RowRole.AUTO):
            yield from self._prompt(row, data, ahead, now)
        elif row.role is RowRole.BOUNDARY:
            yield from self._boundary(row, data, ahead, now)
        elif row.role is RowRole.COMMAND:
            yield from self._command(row, data, ahead, now)
        elif row.role in (RowRole.META, RowRole.HIDDEN):
            self._hidden(row)
        else:
            yield from self._within(row, data, ahead, now)
        self.state.at_ms = now

    def finish(self, settled: bool) -> Iterator[ReadItem]:
        """End of what is there. ``settled`` is positive proof that nothing more belongs to the last turn."""
        state = self.state
        if settled and state.open:
            yield from self._close()
        if settled and state.held:
            yield from self._release_held()
        if state.moved and not state.open:
            yield from self._announce_move()

    def _prompt(self, row: Row, data: Json, ahead: Ahead, now: int) -> Iterator[ReadItem]:
        origin = ORIGIN_AUTO if row.role is RowRole.AUTO else ORIGIN_USER
        payload = user_payload(message_content(data), list(ahead.image_paths))
        yield from self._start(row.uuid, origin, payload["text"], now, ahead)
        if origin == ORIGIN_AUTO:
            payload["origin"] = ORIGIN_AUTO
        yield ReadEvent(EventKind.MESSAGE_USER, now, payload)

    def _boundary(self, row: Row, data: Json, ahead: Ahead, now: int) -> Iterator[ReadItem]:
        metadata = data.get("compactMetadata")
        trigger = str(metadata.get("trigger") or "") if isinstance(metadata, dict) else ""
        running = self.state.open and not self.state.complete
        if running and trigger != "manual":
            self.state.trigger, self.state.checkpoint = trigger, row.uuid
            return
        prompt = "/compact" if trigger == "manual" else ""
        yield from self._start(row.uuid, ORIGIN_COMPACTION, prompt, now, ahead)
        self.state.trigger = trigger

    def _command(self, row: Row, data: Json, ahead: Ahead, now: int) -> Iterator[ReadItem]:
        state = self.state
        text = command_text(text_of(message_content(data)))
        if state.open and state.origin == ORIGIN_COMPACTION and not state.held:
            state.checkpoint = row.uuid
            yield ReadEvent(EventKind.MESSAGE_USER, now, {"text": text, "command": True})
            return
        if state.open and not state.complete:
            state.checkpoint = row.uuid
            yield ReadEvent(EventKind.CONTEXT, now, {"text": text, "command": True})
            return
        yield from self._settle_before(ahead)
        yield from self._release_held()
        state.held = {"uuid": row.uuid, "text": text, "at": now}

    def _within(self, row: Row, data: Json, ahead: Ahead, now: int) -> Iterator[ReadItem]:
        state = self.state
        if state.held and row.role is RowRole.ASSISTANT:
            held, state.held = state.held, {}
            yield from self._start(held["uuid"], ORIGIN_USER, held["text"], held["at"], ahead)
            yield ReadEvent(EventKind.MESSAGE_USER, held["at"], {"text": held["text"], "command": True})
        standalone_output = row.role is RowRole.COMMAND_OUTPUT and state.origin != ORIGIN_COMPACTION
        if standalone_output and state.complete:
            yield from self._settle_before(ahead)
        yield from self._release_held()
        if state.open:
            state.checkpoint = row.uuid
            self._note_progress(row, data)
        else:
            state.movable = False
        for kind, payload in records_of(row.role, data, list(ahead.image_paths)):
            if kind is EventKind.COMPACTION and state.trigger:
                payload["trigger"] = state.trigger
            yield self._event(kind, now, payload)

    def _event(self, kind: EventKind, now: int, payload: Json) -> ReadEvent:
        """Nothing but ``context`` stands outside a turn; what it would have been stays readable."""
        if self.state.open or kind in (EventKind.CONTEXT, EventKind.NOTE, EventKind.COMPACTION):
            return ReadEvent(kind, now, payload)
        text = payload.get("text") or payload.get("output") or payload.get("name") or ""
        return ReadEvent(EventKind.CONTEXT, now, {**payload, "text": text, "kind": kind.value})

    def _note_progress(self, row: Row, data: Json) -> None:
        """Keep what decides whether, and how, the turn could end after this row."""
        state = self.state
        if row.role is RowRole.ASSISTANT:
            state.pending += call_ids(data, "tool_use", "id")
            answered = call_ids(data, "tool_result", "tool_use_id")
            state.pending = [call for call in state.pending if call not in answered]
            state.outcome = Outcome.COMPLETED.value
            state.complete = not state.pending and _says_last_word(data)
            state.model = model_and_effort(data)[0] or state.model
            self._count(data)
        elif row.role is RowRole.RESULT:
            answered = call_ids(data, "tool_result", "tool_use_id")
            state.pending = [call for call in state.pending if call not in answered]
            state.complete = False
        elif row.role is RowRole.QUEUED:
            state.complete = False
        elif row.role in (RowRole.INTERRUPT, RowRole.API_ERROR):
            interrupted = row.role is RowRole.INTERRUPT
            state.outcome = (Outcome.INTERRUPTED if interrupted else Outcome.FAILED).value
            state.complete, state.pending = True, []
        elif state.origin == ORIGIN_COMPACTION:
            state.complete = True

    def _count(self, data: Json) -> None:
        state = self.state
        message_id = message_id_of(data)
        if message_id in state.messages:
            return
        state.messages = [*state.messages, message_id][-_REMEMBERED_MESSAGES:]
        for name, tokens in usage_of(data).items():
            state.usage[name] = state.usage.get(name, 0) + tokens

    def _hidden(self, row: Row) -> None:
        """Rows that say nothing still belong to the turn: a fork through it must carry them."""
        state = self.state
        if row.link:
            # These are links of old files that a fork does not copy, so it cannot be cut at one.
            return
        if state.held or (row.role is RowRole.META and (state.complete or not state.open)):
            return
        if state.open:
            state.checkpoint = row.uuid
        elif state.movable:
            state.checkpoint, state.moved = row.uuid, True

    def _start(self, turn_id: str, origin: str, prompt: str, now: int, ahead: Ahead) -> Iterator[ReadItem]:
        if self.state.open:
            yield from self._close()
        yield from self._release_held()
        if self.state.moved:
            yield from self._announce_move()
        model = ahead.model or self.state.model
        self.state = TurnState(
            turn_id=turn_id,
            checkpoint=turn_id,
            open=True,
            origin=origin,
            broken=self.state.broken or ahead.broken,
            started_ms=now,
            at_ms=now,
            model=model,
        )
        yield ReadTurnStart(now, self.state.binding, prompt, model, ahead.effort, origin)

    def _close(self) -> Iterator[ReadItem]:
        state = self.state
        outcome = Outcome(state.outcome) if state.complete else Outcome.INTERRUPTED
        state.open, state.movable, state.moved = False, True, False
        yield ReadTurnEnd(state.at_ms, outcome, state.binding, dict(state.usage))

    def _settle_before(self, ahead: Ahead) -> Iterator[ReadItem]:
        if self.state.open and self.state.complete and ahead.proven:
            yield from self._close()

    def _release_held(self) -> Iterator[ReadItem]:
        held, self.state.held = self.state.held, {}
        if held:
            if self.state.open:
                self.state.checkpoint = held["uuid"]
            else:
                self.state.movable = False
            yield ReadEvent(EventKind.CONTEXT, held["at"], {"text": held["text"], "command": True})

    def _announce_move(self) -> Iterator[ReadItem]:
        self.state.moved = False
        yield ReadBinding(self.state.binding)


def _says_last_word(data: Json) -> bool:
    """Whether the model stopped after this row's message. Old files record no reason: then text is the last word."""
    message = data.get("message")
    reason = message.get("stop_reason") if isinstance(message, dict) else None
    if reason in ("tool_use", "pause_turn"):
        return False
    return reason is not None or bool(text_of(message_content(data)))
