"""Which turns one page shows, bounded by events, and what each of them holds.

A page never depends on how long the history is. Turns are read by ordinal and events by seq, both with both bounds known.
A turn longer than a page shows its beginning and its end, and links to a page of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from sessions import history
from sessions.history import EventView, TurnView
from sessions.models import Session
from sessions.pages.blocks import Block, build
from sessions.pages.rendering import Renderer

TURNS_PER_PAGE = 30
EVENTS_PER_PAGE = 120
HEAD_EVENTS = 60
TAIL_EVENTS = 25
BETWEEN_EVENTS = 40
TURNS_BEFORE = 2


class Direction(enum.Enum):
    """From which end a page is filled."""

    FORWARD = 1
    BACKWARD = 2


@dataclass(slots=True)
class TurnRow:
    """A turn as the page shows it. ``left_out`` records stand between ``head`` and ``tail``.

    ``inherited_after`` and ``after`` are the records between this turn and the next, the seam of a fork between them.
    """

    turn: TurnView
    head: list[Block] = field(default_factory=list)
    tail: list[Block] = field(default_factory=list)
    left_out: int = 0
    inherited_after: list[Block] = field(default_factory=list)
    after: list[Block] = field(default_factory=list)
    seam: bool = False


@dataclass(slots=True)
class Page:
    """``earlier`` and ``later`` are the ordinals that the links to the neighbouring pages start from, None at an end."""

    rows: list[TurnRow]
    before: list[Block]
    earlier: int | None
    later: int | None
    through_seq: int

    @property
    def at_tail(self) -> bool:
        """Whether the newest turn is here, so that new ones belong below it."""
        return self.later is None


def tail_page(session: Session) -> Page:
    """The newest turns."""
    return page_before(session, session.turn_count + 1)


def page_before(session: Session, ordinal: int) -> Page:
    """The turns up to, not including, ``ordinal``."""
    last = min(ordinal - 1, session.turn_count)
    first = max(1, last - TURNS_PER_PAGE + 1)
    return _page(session, first, last, Direction.BACKWARD)


def page_from(session: Session, ordinal: int) -> Page:
    """The turns from ``ordinal`` on."""
    first = max(1, ordinal)
    return _page(session, first, min(session.turn_count, first + TURNS_PER_PAGE - 1), Direction.FORWARD)


def page_around(session: Session, ordinal: int) -> Page:
    """A page that holds ``ordinal``: the newest one if it does, else one that starts a little before it."""
    newest = tail_page(session)
    if newest.rows and newest.rows[0].turn.ordinal <= ordinal:
        return newest
    page = page_from(session, ordinal - TURNS_BEFORE)
    return page if any(row.turn.ordinal == ordinal for row in page.rows) else page_from(session, ordinal)


def _page(session: Session, first: int, last: int, direction: Direction) -> Page:
    if last < first:
        return Page([], _standalone(session, 1, session.last_seq), None, None, session.last_seq)
    turns = history.turns(session, first=first, limit=last - first + 2)
    following = turns.pop() if turns and turns[-1].ordinal == last + 1 else None
    kept = _fill(session, turns, direction)
    if not kept:
        return Page([], [], None, None, session.last_seq)
    after_kept = next((turn for turn in turns if turn.ordinal == kept[-1].ordinal + 1), following)
    end = after_kept.first_seq - 1 if after_kept is not None else session.last_seq
    renderer = Renderer()
    rows = _rows(session, kept, end, renderer)
    opening = kept[0].ordinal == 1 and kept[0].first_seq > 1
    return Page(
        rows,
        _standalone(session, 1, kept[0].first_seq - 1) if opening else [],
        kept[0].ordinal if kept[0].ordinal > 1 else None,
        kept[-1].ordinal + 1 if kept[-1].ordinal < session.turn_count else None,
        end,
    )


def _fill(session: Session, turns: list[TurnView], direction: Direction) -> list[TurnView]:
    """As many turns as fit, at least one."""
    room = EVENTS_PER_PAGE
    kept: list[TurnView] = []
    for turn in turns if direction is Direction.FORWARD else reversed(turns):
        room -= min(_length(session, turn), HEAD_EVENTS + TAIL_EVENTS)
        if kept and room < 0:
            break
        kept.append(turn)
    return kept if direction is Direction.FORWARD else kept[::-1]


def _length(session: Session, turn: TurnView) -> int:
    return (turn.last_seq or session.last_seq) - turn.first_seq + 1


def rows_from(session: Session, ordinal: int) -> list[TurnRow]:
    """The rows from ``ordinal`` to the newest, at most a page of them; for the live end of a page."""
    return page_from(session, ordinal).rows


def _rows(session: Session, turns: Sequence[TurnView], end: int, renderer: Renderer) -> list[TurnRow]:
    """``turns`` are neighbours; ``end`` is the last seq before the next turn."""
    ends = [turn.first_seq - 1 for turn in turns[1:]] + [end]
    events = _read(session, turns, ends)
    rows = []
    for turn, row_end in zip(turns, ends, strict=True):
        last = min(turn.last_seq or row_end, row_end)
        inside = [event for event in events if turn.first_seq <= event.seq <= last]
        after = [event for event in events if last < event.seq <= row_end]
        seed = session.seed_length
        row = TurnRow(
            turn,
            inherited_after=build((event for event in after if event.seq <= seed), renderer),
            after=build((event for event in after if event.seq > seed), renderer),
            seam=bool(seed) and turn.first_seq <= seed <= row_end,
        )
        row.left_out = last - turn.first_seq + 1 - len(inside)
        if row.left_out:
            row.head = build((event for event in inside if event.seq < turn.first_seq + HEAD_EVENTS), renderer)
            row.tail = build((event for event in inside if event.seq >= turn.first_seq + HEAD_EVENTS), renderer)
        else:
            row.head = build(inside, renderer)
        rows.append(row)
    return rows


def _read(session: Session, turns: Sequence[TurnView], ends: Sequence[int]) -> list[EventView]:
    """The events of the turns, those in the middle of a very long turn left out; neighbouring ranges read at once."""
    ranges: list[tuple[int, int]] = []
    for turn, end in zip(turns, ends, strict=True):
        last = min(turn.last_seq or end, end)
        pieces = [(turn.first_seq, last)]
        if last - turn.first_seq + 1 > HEAD_EVENTS + TAIL_EVENTS:
            pieces = [(turn.first_seq, turn.first_seq + HEAD_EVENTS - 1), (last - TAIL_EVENTS + 1, last)]
        if end > last:
            pieces.append((last + 1, min(end, last + BETWEEN_EVENTS)))
        for piece in pieces:
            if ranges and ranges[-1][1] + 1 == piece[0]:
                ranges[-1] = (ranges[-1][0], piece[1])
            else:
                ranges.append(piece)
    events: list[EventView] = []
    for first, last in ranges:
        events += history.events(session, after=first - 1, limit=last - first + 1, through=last)
    return events


def _standalone(session: Session, first: int, last: int) -> list[Block]:
    if last < first:
        return []
    limit = min(BETWEEN_EVENTS, last - first + 1)
    return build(history.events(session, after=first - 1, limit=limit, through=last), Renderer())
