"""Transcript files as bytes, lines and rows.

A transcript is JSON Lines: lines end at ``\\n`` only (rows hold raw U+2028 and U+0085), the last one may be torn while the
agent writes, and single lines reach many megabytes. Rows that have a ``uuid`` and a ``parentUuid`` form a tree, the
*chain*; everything else is metadata.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from sessions.providers.base import ReadDamage
from sessions.providers.claude.index import Row, Rows

CHAIN_TYPES = frozenset({"user", "assistant", "attachment", "system", "progress"})
MAX_LINE_BYTES = 64 * 1024 * 1024
TITLE_KEYS = ("customTitle", "aiTitle")
MARKER_PREFIX = "forkhost:"

# Replay records of requests: most of a short file's bytes, never part of the conversation. The harness writes these
# rows with "type" as first key, so they can be passed over without parsing.
_PASSED_OVER = (b'{"type":"api-request', b'{"type":"queue-operation"', b'{"type":"file-history')
_DIGEST_WINDOW = 4096
# From here on a row could be nested deeper than one of the two decoders goes.
_DEEP = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One complete line. ``number`` counts from 1 in the file; ``raw`` has no line end."""

    number: int
    offset: int
    end: int
    raw: bytes


@dataclass(slots=True)
class Titles:
    """The session's own title: the last custom title, else the last one the agent made up."""

    custom: str = ""
    generated: str = ""

    def take(self, data: dict[str, Any]) -> None:
        custom, generated = data.get("customTitle"), data.get("aiTitle")
        if isinstance(custom, str):
            self.custom = "" if custom.startswith(MARKER_PREFIX) else custom
        if isinstance(generated, str):
            self.generated = generated

    @property
    def best(self) -> str:
        return self.custom or self.generated


@dataclass(slots=True)
class Scan:
    """One pass over (a part of) a transcript. ``end`` is the offset after the last complete line,
    ``size`` the file's size when the pass began."""

    rows: Rows = field(default_factory=Rows)
    damage: list[tuple[int, ReadDamage]] = field(default_factory=list)
    titles: Titles = field(default_factory=Titles)
    end: int = 0
    lines: int = 0
    size: int = 0

    @property
    def torn(self) -> bool:
        return self.end < self.size


def iter_lines(file: BinaryIO, start: int, stop: int, first_number: int = 1) -> Iterator[Line]:
    """Complete lines in the byte range, blank ones left out. A torn last line is not yielded.

    A line longer than ``MAX_LINE_BYTES`` is yielded without its bytes, and so fails to parse.
    """
    file.seek(start)
    offset, number = start, first_number
    while offset < stop:
        raw = file.readline(min(MAX_LINE_BYTES, stop - offset))
        end = offset + len(raw)
        ended, too_long = raw.endswith(b"\n"), False
        while not ended and end < stop:
            more = file.readline(min(MAX_LINE_BYTES, stop - end))
            if not more:
                return
            end += len(more)
            ended, too_long = more.endswith(b"\n"), True
        if not ended:
            return
        if too_long or raw.strip():
            yield Line(number, offset, end, b"" if too_long else raw[:-1])
        offset, number = end, number + 1


def _finite(digits: str) -> float | None:
    """A number too large for a float is null, as the agent would write it; nothing of ours could store infinity."""
    number = float(digits)
    return number if math.isfinite(number) else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


def parse(raw: bytes) -> dict[str, Any] | None:
    """The row of one line, or None. Bytes that are no UTF-8 become U+FFFD, as they do for the agent itself."""
    try:
        data = _DECODER.decode(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def glimpse(raw: bytes) -> dict[str, Any] | None:
    """The row of one line for the index, which holds texts and truth values only: :func:`parse`, only faster.

    What the faster decoder takes, the other takes too; it does not keep large integers, so contents go through
    :func:`parse`.
    """
    if raw.count(b"[") + raw.count(b"{") < _DEEP:
        try:
            data = orjson.loads(raw)
        except ValueError:
            return parse(raw)
        return data if isinstance(data, dict) else None
    return parse(raw)


def chain_uuid(data: dict[str, Any]) -> str:
    """The row's uuid when it is a chain row, else ""."""
    uuid = data.get("uuid")
    return uuid if data.get("type") in CHAIN_TYPES and isinstance(uuid, str) else ""


def scan(
    path: Path, *, start: int = 0, lines_before: int = 0, lane: bool = False, titles: Titles | None = None
) -> Scan:
    """Index the chain rows from ``start`` to the file's current end. ``lane`` keeps the rows of a sub-agent.

    ``lines_before`` and ``titles`` are what an earlier scan up to ``start`` found. Raises ``OSError``.
    """
    found = Scan(Rows(lines_before), end=start, lines=lines_before, titles=titles or Titles())
    with path.open("rb") as file:
        found.size = file.seek(0, 2)
        for line in iter_lines(file, start, found.size, lines_before + 1):
            found.end, found.lines = line.end, line.number
            if line.raw.startswith(_PASSED_OVER):
                continue
            data = glimpse(line.raw)
            if data is None:
                found.damage.append((line.offset, ReadDamage(line.number, _reason(line.raw))))
                continue
            uuid = chain_uuid(data)
            if uuid and (lane or not (data.get("isSidechain") or data.get("teamName"))):
                found.rows.add(line.number, line.offset, line.end, uuid, data)
            elif not uuid:
                found.titles.take(data)
    found.rows.settle()
    return found


def _reason(raw: bytes) -> str:
    if not raw:
        return "line_too_long"
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return "not_utf8"
    return "not_json"


def load(file: BinaryIO, row: Row) -> dict[str, Any]:
    """Read one indexed row again. Raises ``ValueError`` when the file was rewritten under us."""
    file.seek(row.offset)
    data = parse(file.read(row.end - row.offset))
    if data is None or data.get("uuid") != row.uuid:
        raise ValueError(f"row {row.uuid} is no longer at byte {row.offset}")
    return data


def prefix_digest(path: Path, offset: int) -> str:
    """Digest over the first and the last bytes before ``offset``; tells a file that grew from one that was replaced."""
    with path.open("rb") as file:
        head = file.read(min(offset, _DIGEST_WINDOW))
        file.seek(max(0, offset - _DIGEST_WINDOW))
        tail = file.read(min(offset, _DIGEST_WINDOW))
    return hashlib.sha256(head + b"\0" + tail).hexdigest()


def at_ms(data: dict[str, Any]) -> int:
    """The row's time in Unix milliseconds, 0 when it has none that can be read."""
    stamp = data.get("timestamp")
    if not isinstance(stamp, str):
        return 0
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000)
    except ValueError:
        return 0
