"""Which bytes of which files make up a thread's history.

Since 0.151 a fork holds no history of its own: its first line points into its source's file. A thread's history is then
a list of parts, the oldest first, each the beginning of one file; only the last part may still grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sessions.providers.base import SessionRef, Unreadable
from sessions.providers.codex.lines import Line, lines
from sessions.providers.codex.records import HEAD, Mark, mark_of
from sessions.providers.codex.rollouts import Meta, RolloutFile, current_files, find_rollout, read_meta

DEEPEST = 512
ROLLED_BACK = b'{"type":"thread_rolled_back"'
SEARCH_CHUNK = 1 << 18

_MARKED = re.compile(rb'"(?:task_started|turn_started|task_complete|turn_complete|turn_aborted)"')


@dataclass(frozen=True, slots=True)
class Part:
    """The first ``end`` bytes of a file."""

    path: Path
    meta: Meta
    end: int

    @property
    def key(self) -> list[str | int]:
        return [self.path.name, self.end]


@dataclass(frozen=True, slots=True)
class TurnMark:
    """A turn as a rollout proves it: ``thread_id`` owns the file it stands in; ``ended`` = it has its own end."""

    turn_id: str
    thread_id: str
    ended: bool


def locate(ref: SessionRef) -> Path:
    """The thread's current file. Raises :class:`Unreadable`."""
    if ref.path is not None and ref.path.is_file():
        return ref.path
    found = current_files(ref.home.path).get(ref.provider_session_id)
    if found is None:
        raise Unreadable(
            "source_transcript_missing", f"Codex has no rollout of session {ref.provider_session_id} any more."
        )
    return found.path


def resolve(home: Path, path: Path, index: Mapping[str, RolloutFile] | None = None) -> list[Part]:
    """All parts of the history whose current file is ``path``, oldest first. Raises :class:`Unreadable`.

    ``index`` saves looking for files: all of the home by the id of their thread, or of their segment.
    """
    parts = [_part(path, None)]
    while (base := parts[0].meta.base) is not None:
        if len(parts) > DEEPEST:
            raise Unreadable("source_damaged", "The rollouts refer to each other without end.")
        found = find_rollout(home, base.id) if index is None else index.get(base.id)
        if found is None:
            raise Unreadable("source_transcript_missing", f"The rollout {base.id}, which holds the beginning, is gone.")
        parts.insert(0, _part(found.path, base.end))
    return parts


def turn_marks(parts: Sequence[Part]) -> list[TurnMark]:
    """The canonical turns in order, without those that a rollback took back. Raises :class:`Unreadable`."""
    found: list[TurnMark] = []
    open_id = ""
    for part in parts:
        for line in kept_lines(part):
            mark = _mark(line)
            if mark is None:
                continue
            if mark.starts:
                open_id = mark.turn_id
                found.append(TurnMark(mark.turn_id, part.meta.thread_id, False))
            elif found and open_id and mark.turn_id in ("", open_id):
                found[-1] = TurnMark(found[-1].turn_id, found[-1].thread_id, True)
                open_id = ""
    return [mark for mark in found if mark.turn_id]


def kept_lines(part: Part, start: int = 0, first_number: int = 1) -> Iterator[Line]:
    """The complete lines of a part from byte ``start`` on, without those that a rollback took back."""
    dropped = rolled_back(part, start)
    if not dropped:
        yield from lines(part.path, start, part.end, first_number)
        return
    for line in lines(part.path, start, part.end, first_number):
        if not any(begin <= line.start < end for begin, end in dropped):
            yield line


def has_rollback(path: Path, start: int, end: int) -> bool:
    """Whether a rollback was written between two offsets. The needle cannot stand inside a JSON string."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            left, tail = end - start, b""
            while left > 0 and (chunk := file.read(min(SEARCH_CHUNK, left))):
                if ROLLED_BACK in tail + chunk:
                    return True
                left -= len(chunk)
                tail = chunk[-len(ROLLED_BACK) :]
    except OSError as error:
        raise Unreadable("source_transcript_missing", f"{path.name} cannot be read: {error.strerror}.") from error
    return False


def rolled_back(part: Part, start: int = 0) -> list[tuple[int, int]]:
    """The byte ranges that rollbacks behind ``start`` took back. Only old, not paginated threads know rollbacks."""
    if part.meta.paginated or not has_rollback(part.path, start, part.end):
        return []
    dropped: list[tuple[int, int]] = []
    turns: list[tuple[int, bool]] = []
    for line in lines(part.path, 0, part.end):
        mark = _mark(line, anything=True)
        if mark is None:
            continue
        if mark.rolled_back:
            begin = _pop_turns(turns, mark.rolled_back)
            if begin is not None:
                dropped.append((begin, line.end))
        elif mark.starts or (mark.prompts and (not turns or turns[-1][1])):
            turns.append((line.start, mark.prompts))
        elif mark.prompts:
            turns[-1] = (turns[-1][0], True)
    return dropped


def _pop_turns(turns: list[tuple[int, bool]], count: int) -> int | None:
    """Take the last ``count`` turns of a person off and return where the oldest of them began."""
    begin = None
    while turns and count > 0:
        begin, by_person = turns.pop()
        count -= 1 if by_person else 0
    return begin


def _mark(line: Line, *, anything: bool = False) -> Mark | None:
    if line.data is None or not (anything or _MARKED.search(line.data, 0, HEAD)):
        return None
    return mark_of(line.data)


def _part(path: Path, end: int | None) -> Part:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise Unreadable("source_transcript_missing", f"{path.name} is gone.") from error
    meta = read_meta(path)
    if meta is None:
        raise Unreadable("source_damaged", f"The first line of {path.name} cannot be read.")
    if end is not None and end > size:
        raise Unreadable("source_damaged", f"{path.name} is shorter than the sessions forked from it need.")
    return Part(path, meta, size if end is None else end)
