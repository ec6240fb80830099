"""How a record in one home compares with the record of the same name in another: what may be kept, repaired, or neither.

Where both hold the same, nothing is to be done. A record that goes on behind the original was continued, and is kept. A
strict beginning of the original is what a crash left, and is repaired. Everything else is somebody's, and never touched.
"""

from __future__ import annotations

import enum
from pathlib import Path

from sessions.providers.codex.lineage import Part
from sessions.providers.codex.lines import lines
from sessions.providers.codex.records import NotJson, parse
from sessions.providers.codex.rollouts import read_meta

CHUNK = 1 << 20
SETTINGS = "thread_settings_applied"


class Standing(enum.Enum):
    """What lies where a part of a history is to be."""

    ABSENT = enum.auto()
    SAME = enum.auto()
    CONTINUED = enum.auto()
    SHORTER = enum.auto()
    DAMAGED = enum.auto()
    FOREIGN = enum.auto()


def of_child(part: Part, there: Path) -> Standing:
    """Compare the child's own record. One that was continued has to be whole to the last byte, else it is damaged."""
    standing, _ = _compare(part, there, part.end)
    if standing is Standing.FOREIGN:
        # Opening a session without saying anything writes its settings down; no history is lost without them.
        said = _settings_cut_off(part.path, part.end)
        standing = Standing.CONTINUED if _compare(part, there, said)[0] is Standing.CONTINUED else standing
    if standing is Standing.CONTINUED and flaw(there, there.stat().st_size, part.meta.thread_id):
        return Standing.DAMAGED
    return standing


def of_ancestor(part: Part, there: Path) -> Standing:
    """Compare a record that a child inherits from, of which only the first ``part.end`` bytes are needed.

    To show a child, codex opens the copies of what it inherits from, and writes their settings down behind them. A copy
    with nothing but such lines behind a beginning of the original counts as that beginning.
    """
    standing, common = _compare(part, there, part.end)
    if standing is Standing.FOREIGN and _only_settings(there, _line_start(there, common)):
        return Standing.SHORTER if _is_record_of(there, part) else Standing.FOREIGN
    return standing


def flaw(path: Path, end: int, thread_id: str) -> str:
    """What is wrong with the first ``end`` bytes of a thread's record, "" when each line of them is whole and readable."""
    meta = read_meta(path)
    if meta is None or meta.thread_id != thread_id:
        return f"The first line of {path.name} does not say that it is session {thread_id}."
    position = 0
    for line in lines(path, 0, end):
        position = line.end
        try:
            if line.data is None:
                raise NotJson("too_long")
            parse(line.data)
        except NotJson as error:
            return f"Line {line.number} of {path.name} cannot be read ({error})."
    return "" if position == end else f"The last line of {path.name} is not whole."


def _compare(part: Part, there: Path, end: int) -> tuple[Standing, int]:
    """The standing against the first ``end`` bytes of the part, and how many bytes from the start are the same."""
    try:
        size = there.stat().st_size
    except FileNotFoundError:
        return Standing.ABSENT, 0
    common = _common(part.path, there, min(size, end))
    if common < min(size, end):
        return Standing.FOREIGN, common
    if size >= end:
        return (Standing.SAME if size == end else Standing.CONTINUED), common
    return (Standing.SHORTER if _is_record_of(there, part) else Standing.FOREIGN), common


def _common(one: Path, other: Path, length: int) -> int:
    done = 0
    with one.open("rb") as ours, other.open("rb") as theirs:
        while done < length:
            size = min(CHUNK, length - done)
            left, right = ours.read(size), theirs.read(size)
            if left != right:
                shorter = min(len(left), len(right))
                return done + next((at for at in range(shorter) if left[at] != right[at]), shorter)
            done += size
    return done


def _is_record_of(there: Path, part: Part) -> bool:
    """Whether the first line is whole and names the same session: without it nobody knows whose bytes these are."""
    meta = read_meta(there)
    return meta is not None and meta.thread_id == part.meta.thread_id


def _line_start(path: Path, position: int) -> int:
    """Where the line begins that holds the byte at ``position``."""
    return max((line.end for line in lines(path, 0, position)), default=0)


def _only_settings(path: Path, start: int) -> bool:
    size = path.stat().st_size
    position = start
    for line in lines(path, start, size):
        if not _holds_settings(line.data):
            return False
        position = line.end
    return start < position == size


def _settings_cut_off(path: Path, end: int) -> int:
    """Where the last line ends that holds more than settings."""
    return max((line.end for line in lines(path, 0, end) if not _holds_settings(line.data)), default=end)


def _holds_settings(data: bytes | None) -> bool:
    try:
        return data is not None and parse(data).kind == SETTINGS
    except NotJson:
        return False
