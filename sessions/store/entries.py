"""What callers hand to the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sessions import payloads
from sessions.choices import EventKind, TurnOutcome
from sessions.providers.base import TurnBinding

PROMPT_LENGTH = 200


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins; one that is still open is settled as interrupted in the same transaction.

    The prompt is kept on the turn, cut to 200 characters; the whole text belongs into a ``message.user`` event.
    ``model`` and ``effort`` are those in force, empty when not recorded.
    """

    at_unix_ms: int
    prompt: str = ""
    binding: TurnBinding | None = None
    model: str = ""
    effort: str = ""
    origin: str = "user"
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One record inside the open turn, or standalone when none is open. Any kind but ``turn.start`` and ``turn.end``.

    Typed references in ``payload`` are a closed list, checked here so that a fork need not look:
    ``interactionId`` of ``interaction.*`` (asked once, then answered or superseded once) and ``references``, a list of
    ``{"type": "turn", "ordinal": n}`` or ``{"type": "event", "seq": n}`` that name earlier parts of this history.
    ``images`` with a ``sha256`` name stored files.
    """

    kind: EventKind | str
    at_unix_ms: int
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The open turn is settled, on positive proof only; immutable from then on."""

    at_unix_ms: int
    outcome: TurnOutcome | str
    usage: dict[str, Any] = field(default_factory=dict)
    binding: TurnBinding | None = None
    payload: dict[str, Any] = field(default_factory=dict)


Entry: TypeAlias = TurnStart | NewEvent | TurnEnd
Entries: TypeAlias = Sequence[Entry]


class Appended(NamedTuple):
    """The seqs written (first > last: nothing was) and the session's number of turns afterwards."""

    first_seq: int
    last_seq: int
    turn_count: int


def stored_form(entry: Entry) -> tuple[str, int, dict[str, Any]]:
    """Kind, time and payload of the event that ``entry`` becomes."""
    if isinstance(entry, TurnStart):
        facts: dict[str, Any] = {
            "prompt": payloads.clip(entry.prompt, PROMPT_LENGTH),
            "model": entry.model,
            "effort": entry.effort,
            "origin": entry.origin,
        }
        return (
            EventKind.TURN_START.value,
            entry.at_unix_ms,
            {**entry.payload, **{name: value for name, value in facts.items() if value}},
        )
    if isinstance(entry, TurnEnd):
        payload = {**entry.payload, "outcome": TurnOutcome(entry.outcome).value}
        return EventKind.TURN_END.value, entry.at_unix_ms, payload | ({"usage": entry.usage} if entry.usage else {})
    return EventKind(entry.kind).value, entry.at_unix_ms, entry.payload
