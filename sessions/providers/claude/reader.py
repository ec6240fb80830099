"""Reads a transcript as turns and events, in bounded memory, and goes on where an earlier reading stopped.

The file is read twice: once to index its rows (some thirty bytes each), then, along the canonical branch, each row's
content by its offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sessions.providers.base import (
    Json,
    ReadCursor,
    ReadDamage,
    ReadItem,
    ReadRestart,
    ReadTitle,
    TurnBinding,
    Unreadable,
)
from sessions.providers.claude.chain import Branch, canonical
from sessions.providers.claude.index import Picked, Row, model_and_effort
from sessions.providers.claude.registry_files import OwnerState, owner_of
from sessions.providers.claude.roles import IMAGE_NOTE, TURN_STARTS, RowRole, blocks_of, message_content, text_of
from sessions.providers.claude.transcripts import Scan, Titles, load, prefix_digest, scan
from sessions.providers.claude.turns import Ahead, TurnMachine, TurnState

CURSOR_VERSION = 1
CURSOR_EVERY_ROWS = 200


@dataclass(frozen=True, slots=True)
class Source:
    """One transcript to read. ``owner_id`` is the session whose process would write it (for a lane, its parent).

    ``finished`` is the harness's own word that a lane has ended.
    """

    path: Path
    config: Path
    owner_id: str
    lane: bool = False
    finished: bool = False


@dataclass(slots=True)
class Position:
    """How far a reading came; everything a cursor holds.

    ``digest`` runs over the visible rows of the branch: while it still fits, what was delivered is still the history.
    """

    offset: int = 0
    lines: int = 0
    window: str = ""
    visible: int = 0
    digest: str = ""
    tip: str = ""
    title: str = ""
    custom_title: str = ""
    generated_title: str = ""

    def take(self, row: Row) -> None:
        self.tip = row.uuid
        if row.visible:
            self.visible += 1
            self.digest = hashlib.sha256(f"{self.digest} {row.uuid}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class Reading:
    """What one call will deliver: ``rows`` after ``position``, in ``state``."""

    scan: Scan
    branch: Branch
    rows: Picked
    position: Position
    state: TurnState
    restart: bool = False


def read_transcript(source: Source, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
    """The stream that ``Adapter.read`` promises. Raises :class:`Unreadable`."""
    try:
        yield from _read(source, since, after)
    except FileNotFoundError as error:
        raise Unreadable("source_transcript_missing", "The transcript is no longer where it was found.") from error
    except OSError as error:
        raise Unreadable("source_unreadable", f"The transcript cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Unreadable("source_changed", "The transcript was rewritten while it was being read.") from error


def _read(source: Source, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
    reading = _plan(source, since, after)
    if reading.restart:
        yield ReadRestart()
    machine = TurnMachine(reading.state)
    position = reading.position
    total = source.path.stat().st_size
    damage = [(offset, item) for offset, item in reading.scan.damage if offset >= position.offset]
    with source.path.open("rb") as file:
        for count, (row, data, ahead) in enumerate(_with_ahead(file, reading), start=1):
            while damage and damage[0][0] < row.offset:
                yield damage.pop(0)[1]
            yield from machine.feed(row, data, ahead)
            position.take(row)
            position.offset, position.lines = row.end, row.number
            if count % CURSOR_EVERY_ROWS == 0:
                yield _cursor(source, position, machine.state, total)
    for _, item in damage:
        yield item
    settled, alone = _settled(source, reading.scan, machine.state)
    if alone and reading.scan.torn:
        yield ReadDamage(reading.scan.lines + 1, "torn_tail")
    yield from machine.finish(settled)
    titles = reading.scan.titles
    position.custom_title, position.generated_title = titles.custom, titles.generated
    title = titles.best
    if title and title != position.title:
        position.title = title
        yield ReadTitle(title)
    position.offset, position.lines = reading.scan.end, reading.scan.lines
    yield _cursor(source, position, machine.state, total)


def _cursor(source: Source, position: Position, state: TurnState, total: int) -> ReadCursor:
    position.window = prefix_digest(source.path, position.offset)
    fields = {name: getattr(position, name) for name in Position.__slots__}
    return ReadCursor({"v": CURSOR_VERSION, "at": fields, "state": state.to_json()}, position.offset, total)


# --------------------------------------------------------------------------------------------------------------------
# Where to begin


def _plan(source: Source, since: Json | None, after: TurnBinding | None) -> Reading:
    position = _position_of(source, since)
    if since is not None and position is not None:
        reading = _continue_at_tip(source, since, position) or _continue_on_branch(source, since, position)
        if reading is not None:
            return reading
    reading = _from_start(source, after)
    reading.restart = since is not None
    return reading


def _position_of(source: Source, since: Json | None) -> Position | None:
    """The cursor's position when the file still begins with the very bytes that were read, else None."""
    if since is None or since.get("v") != CURSOR_VERSION:
        return None
    position = Position(**since["at"])
    if source.path.stat().st_size < position.offset:
        return None
    return position if prefix_digest(source.path, position.offset) == position.window else None


def _continue_at_tip(source: Source, since: Json, position: Position) -> Reading | None:
    """Go on from the new bytes alone, when every new row hangs below the last one delivered."""
    titles = Titles(position.custom_title, position.generated_title)
    new = scan(source.path, start=position.offset, lines_before=position.lines, lane=source.lane, titles=titles)
    if not new.rows.hang_below(position.tip):
        return None
    branch = canonical(new.rows, position.tip)
    if new.rows and branch.reaches != position.tip:
        return None
    return Reading(new, branch, branch.rows, position, TurnState.from_json(since["state"]))


def _continue_on_branch(source: Source, since: Json, position: Position) -> Reading | None:
    """Go on after a full look, when what was delivered is still the beginning of the branch."""
    full = scan(source.path, lane=source.lane)
    branch = canonical(full.rows)
    seen = Position()
    count = branch.rows.behind(position.offset)
    for row in branch.rows[:count]:
        seen.take(row)
    if (seen.visible, seen.digest) != (position.visible, position.digest):
        return None
    return Reading(full, branch, branch.rows[count:], position, TurnState.from_json(since["state"]))


def _from_start(source: Source, after: TurnBinding | None) -> Reading:
    full = scan(source.path, lane=source.lane)
    branch = canonical(full.rows)
    if after is None:
        return Reading(full, branch, branch.rows, Position(), TurnState())
    boundary = _inherited_end(full, branch, str(after.data.get("checkpoint") or after.provider_turn_id))
    if boundary is None:
        raise Unreadable(
            "inherited_prefix_changed", "The turn that this session was forked at is no longer part of its history."
        )
    position = Position()
    count = branch.rows.behind(boundary + 1)
    for row in branch.rows[:count]:
        position.take(row)
    checkpoint = str(after.data.get("checkpoint") or "")
    state = TurnState(turn_id=after.provider_turn_id, checkpoint=checkpoint, broken=bool(after.data.get("broken")))
    return Reading(full, branch, branch.rows[count:], position, state)


def _inherited_end(full: Scan, branch: Branch, checkpoint: str) -> int | None:
    """Offset of the checkpoint row, None when the branch no longer runs through all that was inherited."""
    index = full.rows.find(checkpoint)
    if index is None:
        return None
    boundary, seen = full.rows.offset(index), set[int]()
    while index >= 0 and index not in seen:
        if full.rows[index].visible:
            return boundary if branch.rows.has(index) else None
        seen.add(index)
        index = full.rows.parent(index)
    return None


# --------------------------------------------------------------------------------------------------------------------
# What follows a row, and what ends the last turn


def _with_ahead(file: BinaryIO, reading: Reading) -> Iterator[tuple[Row, Json, Ahead]]:
    rows = reading.rows
    places = range(len(rows))
    last_start = next((place for place in reversed(places) if rows.role(place) in TURN_STARTS), -1)
    for place in places:
        row = rows[place]
        data = load(file, row)
        model, effort = _answer(file, rows, place, data)
        yield (
            row,
            data,
            Ahead(
                proven=place < last_start,
                model=model,
                effort=effort,
                broken=row.place in reading.branch.broken,
                image_paths=_image_paths(file, rows, place),
            ),
        )


def _answer(file: BinaryIO, rows: Picked, place: int, data: Json) -> tuple[str, str]:
    """The model and effort of the answer that a row begins, or of the next one within the turn that it begins."""
    role = rows.role(place)
    if role not in TURN_STARTS and role is not RowRole.ASSISTANT:
        return "", ""
    found = model_and_effort(data)
    while not found[0]:
        place += 1
        if place == len(rows) or rows.role(place) in TURN_STARTS:
            return "", ""
        if rows.role(place) in (RowRole.ASSISTANT, RowRole.API_ERROR):
            found = model_and_effort(load(file, rows[place]))
    return found


def _image_paths(file: BinaryIO, rows: Picked, place: int) -> tuple[str, ...]:
    """Files a prompt's pictures were stored in; the harness notes them in hidden rows right after the prompt."""
    if rows.role(place) is not RowRole.PROMPT:
        return ()
    paths: list[str] = []
    for row in rows[place + 1 : place + 6]:
        if row.visible:
            break
        if row.role is RowRole.META:
            texts = (text_of([block]) for block in blocks_of(message_content(load(file, row))))
            paths += [text[len(IMAGE_NOTE) :].rstrip("]") for text in texts if text.startswith(IMAGE_NOTE)]
    return tuple(paths)


def _settled(source: Source, scanned: Scan, state: TurnState) -> tuple[bool, bool]:
    """Whether the last turn is proven over, and whether nobody has the session open.

    The owner is looked up after the file was read; had the file grown meanwhile, the two would not fit together and
    nothing is proven. Idle counts only when it was entered after the turn began: an earlier one belongs to the turn
    before. For a turn that could not end here it must also have lasted, for the agent writes rows and status apart.
    """
    owner = owner_of(source.config, source.owner_id)
    grown = source.path.stat().st_size != scanned.size
    alone = owner.state is OwnerState.GONE
    if grown:
        return False, False
    if alone or source.finished:
        return True, alone
    if owner.state is OwnerState.BUSY or owner.since_ms <= 0:
        return False, False
    ended = state.complete or (owner.at_rest and owner.since_ms >= state.at_ms)
    return ended and owner.since_ms >= state.started_ms, False
