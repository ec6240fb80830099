"""The rollout files of a ``CODEX_HOME``: their names, their first lines, and where they are.

A thread's record is ``sessions/YYYY/MM/DD/rollout-<local time>-<thread id>.jsonl``, or the same name flat below
``archived_sessions``. A revert starts a further segment ``..._<segment id>.jsonl`` of the same thread: the newest one is
the thread's current record. The folder's date is local time, so nothing is ever decided by it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sessions.providers.base import Json, Unreadable

SESSIONS = "sessions"
ARCHIVED = "archived_sessions"
TITLES = "session_index.jsonl"
MARKER_PREFIX = "forkhost:"
PAGINATED = "paginated"

FIRST_LINE_LIMIT = 8 << 20
TITLES_LIMIT = 64 << 20

_ID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(rf"rollout-.+?-({_ID})(?:_({_ID}))?\.jsonl")


@dataclass(frozen=True, slots=True)
class RolloutFile:
    """One file as its name and its folder entry describe it; ``segment_id`` is empty for a thread's first file."""

    path: Path
    thread_id: str
    segment_id: str
    size: int
    mtime_ns: int
    archived: bool

    @property
    def stamp(self) -> str:
        return f"{self.size}:{self.mtime_ns}"

    @property
    def id(self) -> str:
        """What a ``history_base`` calls this file."""
        return self.segment_id or self.thread_id

    @property
    def order(self) -> tuple[int, str]:
        """Newer segments of one thread come later; their ids carry the time."""
        return (1 if self.segment_id else 0, self.segment_id)


@dataclass(frozen=True, slots=True)
class HistoryBase:
    """Where inherited history ends: in the first file of a thread, or in a segment, before ``end`` bytes."""

    id: str
    end: int


@dataclass(frozen=True, slots=True)
class Meta:
    """A rollout's first line, its identity. Everything may be empty except ``thread_id``."""

    thread_id: str
    created_at_ms: int
    cwd: str
    version: str
    source: str
    model_provider: str
    history_mode: str
    thread_source: str
    forked_from_id: str
    parent_thread_id: str
    base: HistoryBase | None

    @property
    def paginated(self) -> bool:
        return self.history_mode == PAGINATED


def operation_id(thread_source: str) -> str:
    """The operation whose marker ``thread_source`` is, "" when it is none of ours."""
    return thread_source[len(MARKER_PREFIX) :] if thread_source.startswith(MARKER_PREFIX) else ""


def parse_name(name: str) -> tuple[str, str] | None:
    """(thread id, segment id or "") of a rollout's file name, None for any other file."""
    match = _NAME.fullmatch(name)
    return (match[1], match[2] or "") if match else None


def rollout_files(home: Path) -> Iterator[RolloutFile]:
    """Every rollout below ``home``, in no order, without opening one. Raises :class:`Unreadable` without a home."""
    if not home.is_dir():
        raise Unreadable("home_missing", f"The folder {home} does not exist.")
    yield from _files_below(home / SESSIONS, archived=False)
    yield from _files_below(home / ARCHIVED, archived=True)


def current_files(home: Path) -> dict[str, RolloutFile]:
    """The current record of every thread of ``home``, by thread id."""
    return newest_of(rollout_files(home))


def newest_of(files: Iterable[RolloutFile]) -> dict[str, RolloutFile]:
    """The current one among the files of each thread, by thread id."""
    newest: dict[str, RolloutFile] = {}
    for file in files:
        other = newest.get(file.thread_id)
        if other is None or file.order > other.order:
            newest[file.thread_id] = file
    return newest


def find_rollout(home: Path, wanted: str) -> RolloutFile | None:
    """The first file of a thread, or the file of a segment, by that id."""
    for folder in _folders_near(home, wanted):
        for file in _files_in(folder, archived=False):
            if wanted == file.id:
                return file
    return next((file for file in rollout_files(home) if wanted == file.id), None)


def read_meta(path: Path) -> Meta | None:
    """The identity in the first line; None when that line is missing, torn or not one of codex's."""
    try:
        with path.open("rb") as file:
            line = file.readline(FIRST_LINE_LIMIT)
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return parse_meta(record)


def parse_meta(record: Any) -> Meta | None:
    """The same from a parsed line."""
    payload = record.get("payload") if isinstance(record, dict) else None
    if not isinstance(payload, dict) or record.get("type") != "session_meta":
        return None
    thread_id = payload.get("id")
    if not isinstance(thread_id, str) or not thread_id:
        return None
    created = _text(payload, "timestamp") or _text(record, "timestamp")
    return Meta(
        thread_id=thread_id,
        created_at_ms=unix_ms(created) or uuid7_ms(thread_id),
        cwd=_text(payload, "cwd"),
        version=_text(payload, "cli_version"),
        source=_source(payload.get("source")),
        model_provider=_text(payload, "model_provider"),
        history_mode=_text(payload, "history_mode"),
        thread_source=_text(payload, "thread_source"),
        forked_from_id=_text(payload, "forked_from_id"),
        parent_thread_id=_parent(payload),
        base=_base(payload.get("history_base")),
    )


def titles(home: Path) -> dict[str, str]:
    """Names that people gave to threads, by thread id; the last one counts."""
    try:
        with (home / TITLES).open("rb") as file:
            data = file.read(TITLES_LIMIT)
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in data.split(b"\n"):
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("thread_name"), str):
            found[row["id"]] = row["thread_name"]
    return found


def uuid7_ms(value: str) -> int:
    """The creation time in a UUIDv7, 0 for any other id."""
    digits = value.replace("-", "")
    if len(digits) != 32 or digits[12] != "7":
        return 0
    try:
        return int(digits[:12], 16)
    except ValueError:
        return 0


def unix_ms(timestamp: str) -> int:
    """Milliseconds of an ISO 8601 time, 0 when it is none."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _files_below(root: Path, *, archived: bool) -> Iterator[RolloutFile]:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        yield from _files_in(folder, archived=archived, folders=waiting)


def _files_in(folder: Path, *, archived: bool, folders: list[Path] | None = None) -> Iterator[RolloutFile]:
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            ids = parse_name(entry.name)
            try:
                if ids is not None and entry.is_file():
                    stat = entry.stat()
                    yield RolloutFile(Path(entry.path), *ids, stat.st_size, stat.st_mtime_ns, archived)
                elif folders is not None and entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
            except OSError:
                # Moved to the archive or deleted between the listing and the look.
                continue


def _folders_near(home: Path, wanted: str) -> Iterator[Path]:
    """The day folders a thread made at its id's time can lie in, whatever the time zone was."""
    created = uuid7_ms(wanted) / 1000
    if created:
        for shift in (0, -86_400, 86_400):
            yield home / SESSIONS / datetime.fromtimestamp(created + shift, UTC).strftime("%Y/%m/%d")


def _text(payload: Json, key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _source(value: Any) -> str:
    if isinstance(value, str):
        return value
    return next(iter(value), "") if isinstance(value, dict) else ""


def _parent(payload: Json) -> str:
    """The thread that started this one as a sub-agent. Old versions say so inside ``source`` only."""
    parent = _text(payload, "parent_thread_id")
    source = payload.get("source")
    if parent or not isinstance(source, dict):
        return parent
    agent = source.get("subagent") or source.get("subAgent")
    spawn = agent.get("thread_spawn") if isinstance(agent, dict) else None
    return _text(spawn, "parent_thread_id") if isinstance(spawn, dict) else ""


def _base(value: Any) -> HistoryBase | None:
    if not isinstance(value, dict):
        return None
    end = value.get("end_byte_offset")
    if not isinstance(end, int) or isinstance(end, bool):
        return None
    return HistoryBase(_text(value, "thread_id"), end)
