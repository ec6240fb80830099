"""Which turns one page shows, bounded by events and by their size, and what each of them holds.

A page never depends on how long the history is. Turns are read by ordinal and events by seq, both with both bounds known.
A turn longer than a page shows its beginning and its end (``sessions.pages.pieces``), and links to a page of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from sessions import history
from sessions.history import EventView, TurnView
from sessions.models import Session
from sessions.pages.blocks import Block, build
from sessions.pages.pieces import BETWEEN_BYTES, BETWEEN_EVENTS, Pieces, pieces
from sessions.pages.rendering import Renderer

TURNS_PER_PAGE = 30
EVENTS_PER_PAGE = 120
BYTES_PER_PAGE = 1_500_000
# Turns that are measured together: a page of usual ones, so that a page of large ones does not measure many in vain.
MEASURED_AT_ONCE = 6
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
    if ordinal > session.turn_count - TURNS_PER_PAGE:
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
    ends = [turn.first_seq - 1 for turn in turns[1:]] + [following.first_seq - 1 if following else session.last_seq]
    kept = _fill(session, turns, ends, direction)
    if not kept:
        return Page([], [], None, None, session.last_seq)
    begin, end = kept[0].turn, kept[-1].end
    opening = begin.ordinal == 1 and begin.first_seq > 1
    return Page(
        _rows(session, kept, Renderer()),
        _standalone(session, 1, begin.first_seq - 1) if opening else [],
        begin.ordinal if begin.ordinal > 1 else None,
        kept[-1].turn.ordinal + 1 if kept[-1].turn.ordinal < session.turn_count else None,
        end,
    )


def _fill(session: Session, turns: Sequence[TurnView], ends: Sequence[int], direction: Direction) -> list[Pieces]:
    """As many turns as fit, at least one, in order."""
    room, room_bytes = EVENTS_PER_PAGE, BYTES_PER_PAGE
    kept: list[Pieces] = []
    forward = direction is Direction.FORWARD
    order = range(len(turns)) if forward else range(len(turns) - 1, -1, -1)
    for start in range(0, len(turns), MEASURED_AT_ONCE):
        chosen = order[start : start + MEASURED_AT_ONCE]
        for each in pieces(session, [turns[at] for at in chosen], [ends[at] for at in chosen]):
            room, room_bytes = room - each.count, room_bytes - each.size
            if kept and (room < 0 or room_bytes < 0):
                return kept if forward else kept[::-1]
            kept.append(each)
        if room <= 0:
            break
    return kept if forward else kept[::-1]


def _rows(session: Session, kept: Sequence[Pieces], renderer: Renderer) -> list[TurnRow]:
    """``kept`` are neighbours."""
    events = _read(session, kept)
    seed = session.seed_length
    rows = []
    for each in kept:
        turn = each.turn
        inside = [event for event in events if turn.first_seq <= event.seq <= each.last]
        after = [event for event in events if each.last < event.seq <= each.end]
        row = TurnRow(
            turn,
            left_out=each.left_out,
            inherited_after=build((event for event in after if event.seq <= seed), renderer),
            after=build((event for event in after if event.seq > seed), renderer),
            seam=bool(seed) and turn.first_seq <= seed <= each.end,
        )
        if each.left_out:
            row.head = build((event for event in inside if event.seq <= each.head), renderer)
            row.tail = build((event for event in inside if event.seq >= each.tail), renderer)
        else:
            row.head = build(inside, renderer)
        rows.append(row)
    return rows


def _read(session: Session, kept: Sequence[Pieces]) -> list[EventView]:
    """The events of the pieces; neighbouring ranges are read at once."""
    ranges: list[tuple[int, int]] = []
    for piece in (piece for each in kept for piece in each.ranges):
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
    events = history.events(session, after=first - 1, limit=limit, through=last, most_bytes=BETWEEN_BYTES)
    return build(events, Renderer())
