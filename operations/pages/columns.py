"""One side of a comparison: the turns of a session from one on, each with its prompt and its last answer."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString

from sessions import history
from sessions.choices import EventKind
from sessions.history import EventView, TurnView
from sessions.models import Session
from sessions.pages.rendering import Renderer
from sessions.payloads import plain

LOOK_BACK = 60
TEXT_LIMIT = 3_000


@dataclass(slots=True)
class ComparedTurn:
    """A turn in short. ``answer`` is the agent's last words, as HTML or, where there was no time for it, as text."""

    turn: TurnView
    prompt: str
    answer: SafeString | None
    answer_text: str
    tools: int


@dataclass(slots=True)
class Column:
    """``more`` turns follow that are not shown."""

    session: Session
    rows: list[ComparedTurn]
    more: int


def column(session: Session, first: int, limit: int) -> Column:
    """The turns of ``session`` from ``first`` on, at most ``limit``."""
    if first > session.turn_count:
        return Column(session, [], 0)
    turns = history.turns(session, first=first, limit=limit)
    renderer = Renderer()
    rows = [_compared(session, turn, renderer) for turn in turns]
    return Column(session, rows, max(0, session.turn_count - first + 1 - len(rows)))


def _compared(session: Session, turn: TurnView, renderer: Renderer) -> ComparedTurn:
    last = turn.last_seq or session.last_seq
    start = max(turn.first_seq, last - LOOK_BACK + 1)
    events = history.events(session, after=start - 1, limit=LOOK_BACK, through=last)
    answers = [_text(event) for event in events if event.kind == EventKind.MESSAGE_ASSISTANT]
    answer = answers[-1][:TEXT_LIMIT] if answers else ""
    return ComparedTurn(
        turn,
        turn.prompt,
        renderer(answer) if answer else None,
        plain(answer),
        sum(event.kind == EventKind.TOOL_CALL for event in events),
    )


def _text(event: EventView) -> str:
    text = event.payload.get("text")
    return text if isinstance(text, str) else ""
