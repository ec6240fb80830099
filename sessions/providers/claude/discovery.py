"""Finds the sessions of a home by looking at the heads and tails of its transcripts."""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from sessions.providers.base import DiscoveredSession, HomeRef, Json, SessionRef, Unreadable
from sessions.providers.claude.registry_files import GONE, Owner, OwnerState, owners
from sessions.providers.claude.roles import RowRole, message_content, role_of, text_of
from sessions.providers.claude.transcripts import MARKER_PREFIX, Titles, at_ms, chain_uuid, parse

HEAD_BYTES = 64 * 1024
HEAD_LIMIT = 16 * 1024 * 1024
TAIL_BYTES = 64 * 1024
PREVIEW_CHARACTERS = 200
LANE_SEPARATOR = "/"

_MARKER = re.compile(rb'"customTitle" ?: ?"' + MARKER_PREFIX.encode() + rb'([0-9a-fA-F-]{36})"')
# Old versions keep sub-agents' transcripts beside the sessions; the agent itself takes only such names for sessions.
_SESSION_FILE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl", re.IGNORECASE)
_WORKTREE = (".claude", "worktrees")


@dataclass(frozen=True, slots=True)
class Found:
    """One transcript file. ``parent_id`` is set for a sub-agent's lane."""

    path: Path
    session_id: str
    parent_id: str = ""


def lane_id(parent_id: str, stem: str) -> str:
    """Provider session id of a sub-agent's lane: its file name is unique below its parent only."""
    return f"{parent_id}{LANE_SEPARATOR}{stem}"


def transcripts(config: Path) -> Iterator[Found]:
    """Every transcript of the home, lanes after their session. Raises :class:`Unreadable` when the home is gone."""
    if not config.is_dir():
        raise Unreadable("home_missing", "The agent's folder is no longer there.")
    for project in _folders(config / "projects"):
        names = sorted(_names(project))
        for name in names:
            if _SESSION_FILE.fullmatch(name):
                yield Found(project / name, name[: -len(".jsonl")])
        for name in names:
            if not name.endswith(".jsonl"):
                for lane in sorted(_names(project / name / "subagents")):
                    if lane.startswith("agent-") and lane.endswith(".jsonl"):
                        path = project / name / "subagents" / lane
                        yield Found(path, lane_id(name, path.stem), name)


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:
        return []


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def discover(home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
    """Sessions whose stamp is not the known one, newest first. A file that cannot be opened is left out."""
    working = owners(home.path)
    changed: list[tuple[int, Found, os.stat_result, str]] = []
    for found in transcripts(home.path):
        try:
            stat = found.path.stat()
        except OSError:
            continue
        stamp = _stamp(stat, working.get(found.parent_id or found.session_id, GONE))
        if stat.st_size > 0 and known.get(found.session_id) != stamp:
            changed.append((stat.st_mtime_ns, found, stat, stamp))
    changed.sort(key=lambda item: item[0], reverse=True)
    for _, found, stat, stamp in changed:
        try:
            session = _look(home, found, stat, stamp, working)
        except OSError:
            continue
        if session is not None:
            yield session


def _stamp(stat: os.stat_result, owner: Owner) -> str:
    """Size and time, and what the agent does: going idle, and staying it, settles a turn without touching the file."""
    doing = "" if owner.state is OwnerState.GONE or owner.at_rest else f":{owner.state.value}"
    return f"{stat.st_size}:{stat.st_mtime_ns}{doing}"


def present(config: Path) -> set[str]:
    """Ids of the transcripts that hold anything."""
    ids = set()
    for found in transcripts(config):
        try:
            if found.path.stat().st_size > 0:
                ids.add(found.session_id)
        except OSError:
            continue
    return ids


# --------------------------------------------------------------------------------------------------------------------
# One file


@dataclass(slots=True)
class Head:
    """What the first rows say."""

    cwd: str = ""
    version: str = ""
    created_ms: int = 0
    preview: str = ""
    origin: str = ""
    chain_rows: int = 0


@dataclass(slots=True)
class Tail:
    """What the last rows say."""

    model: str = ""
    version: str = ""
    permission_mode: str = ""
    torn: bool = False


def _look(
    home: HomeRef, found: Found, stat: os.stat_result, stamp: str, working: Mapping[str, Owner]
) -> DiscoveredSession | None:
    with found.path.open("rb") as file:
        head_bytes = file.read(HEAD_BYTES)
        head, titles = _read_head(head_bytes)
        while not (head.cwd and head.preview) and len(head_bytes) < min(stat.st_size, HEAD_LIMIT):
            if head.chain_rows and len(head_bytes) >= 16 * HEAD_BYTES:
                break
            head_bytes += file.read(3 * len(head_bytes))
            head, titles = _read_head(head_bytes)
        file.seek(max(0, stat.st_size - TAIL_BYTES))
        tail = _read_tail(file.read(TAIL_BYTES), stat.st_size > TAIL_BYTES, titles)
        operation, marked_ms = _marker(file.fileno(), found.session_id) if head.origin else ("", 0)
    if not head.cwd:
        return None
    lane = _lane_facts(found) if found.parent_id else {}
    extra: Json = {"torn": True} if tail.torn and (found.parent_id or found.session_id) not in working else {}
    if lane:
        extra["lane"] = True
    return DiscoveredSession(
        ref=SessionRef(home, found.session_id, found.path, head.cwd),
        stamp=stamp,
        title=titles.best or str(lane.get("description") or ""),
        preview=head.preview,
        created_at_ms=marked_ms or head.created_ms or stat.st_mtime_ns // 1_000_000,
        updated_at_ms=stat.st_mtime_ns // 1_000_000,
        size=stat.st_size,
        provider_version=tail.version or head.version,
        model=tail.model or str(lane.get("model") or ""),
        observed_parent_id=head.origin,
        fork_operation_id=operation,
        parent_provider_session_id=found.parent_id,
        parent_tool_call_id=str(lane.get("toolUseId") or ""),
        worktree_isolated=_in_worktree(head.cwd),
        settings={"permissionMode": tail.permission_mode} if tail.permission_mode else {},
        extra=extra,
    )


def _read_head(content: bytes) -> tuple[Head, Titles]:
    head, titles = Head(), Titles()
    lines = content.split(b"\n")
    for raw in lines[:-1] if len(lines) > 1 else lines:
        data = parse(raw) if raw.startswith(b"{") else None
        if data is None:
            continue
        titles.take(data)
        if not chain_uuid(data):
            continue
        if not head.chain_rows and isinstance(data.get("forkedFrom"), dict):
            head.origin = str(data["forkedFrom"].get("sessionId") or "")
        head.chain_rows += 1
        head.cwd = head.cwd or str(data.get("cwd") or "")
        head.version = head.version or str(data.get("version") or "")
        head.created_ms = head.created_ms or at_ms(data)
        if not head.preview and role_of(data) is RowRole.PROMPT:
            head.preview = text_of(message_content(data)).strip()[:PREVIEW_CHARACTERS]
    return head, titles


def _read_tail(content: bytes, cut: bool, titles: Titles) -> Tail:
    tail = Tail(torn=not content.endswith(b"\n"))
    lines = content.split(b"\n")
    for raw in lines[1:] if cut else lines:
        data = parse(raw) if raw.startswith(b"{") else None
        if data is None:
            continue
        titles.take(data)
        if not chain_uuid(data):
            continue
        tail.version = str(data.get("version") or tail.version)
        tail.permission_mode = str(data.get("permissionMode") or tail.permission_mode)
        message = data.get("message")
        model = message.get("model") if data.get("type") == "assistant" and isinstance(message, dict) else None
        if isinstance(model, str) and not model.startswith("<"):
            tail.model = model
    return tail


def _marker(descriptor: int, session_id: str) -> tuple[str, int]:
    """Operation id in the fork's own title row, and when that was written.

    The row stays where the inherited rows end, which may be anywhere in the file. The agent's own forks repeat titles,
    but in rows without a uuid, so such a twin is not taken for the child.
    """
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
        for match in _MARKER.finditer(content):
            start = content.rfind(b"\n", 0, match.start()) + 1
            end = content.find(b"\n", match.end())
            data = parse(content[start : end if end >= 0 else len(content)])
            if data and data.get("type") == "custom-title" and data.get("uuid") and data.get("sessionId") == session_id:
                return match[1].decode("ascii").lower(), at_ms(data)
    return "", 0


def _lane_facts(found: Found) -> Json:
    try:
        data = json.loads(found.path.with_suffix(".meta.json").read_bytes())
    except (OSError, ValueError):
        data = {}
    return {"lane": True, **data} if isinstance(data, dict) else {"lane": True}


def lane_finished(path: Path, parent_id: str) -> bool:
    """Whether the harness itself says that the lane's agent has ended."""
    return _lane_facts(Found(path, "", parent_id)).get("finished") is True


def _in_worktree(cwd: str) -> bool:
    parts = PurePath(cwd).parts
    return any(parts[place : place + 2] == _WORKTREE for place in range(len(parts)))
