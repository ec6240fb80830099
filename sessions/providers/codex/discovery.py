"""Finds the threads of a home. Files that did not change since last time are not opened."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

from sessions.providers.base import DiscoveredSession, ForkSettings, HomeRef, Json, SessionRef, Unreadable
from sessions.providers.codex import records, settings
from sessions.providers.codex.lineage import Part, resolve
from sessions.providers.codex.lines import lines
from sessions.providers.codex.rollouts import (
    Meta,
    RolloutFile,
    newest_of,
    operation_id,
    read_meta,
    rollout_files,
    titles,
)

PREVIEW_LENGTH = 200
HEAD_BYTES = 256 << 10
TAIL_BYTES = 128 << 10
SETTINGS_PARTS = 3


def discover(home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
    """Threads whose stamp differs from ``known``, newest first. Raises :class:`Unreadable` without a home."""
    index = {file.id: file for file in rollout_files(home.path)}
    names = titles(home.path)
    stamped = [(file, _stamp(file, names.get(file.thread_id, ""))) for file in newest_of(index.values()).values()]
    changed = [(file, stamp) for file, stamp in stamped if known.get(file.thread_id) != stamp]
    for file, stamp in sorted(changed, key=lambda pair: pair[0].mtime_ns, reverse=True):
        meta = read_meta(file.path)
        if meta is not None and meta.thread_id == file.thread_id:
            yield _describe(home, file, meta, stamp, names.get(file.thread_id, ""), index)


def _stamp(file: RolloutFile, title: str) -> str:
    return f"{file.stamp}:{zlib.crc32(title.encode('utf-8', 'surrogatepass')):08x}" if title else file.stamp


def _describe(
    home: HomeRef, file: RolloutFile, meta: Meta, stamp: str, title: str, index: Mapping[str, RolloutFile]
) -> DiscoveredSession:
    extra: Json = {"archived": file.archived, "historyMode": meta.history_mode or "legacy", "source": meta.source}
    try:
        parts = resolve(home.path, file.path, index)
    except Unreadable as error:
        extra["unreadable"] = error.code
        parts = [Part(file.path, meta, file.size)]
    in_force = _settings_in_force(parts)
    first = _own_first(file, meta, index)
    return DiscoveredSession(
        ref=SessionRef(home, meta.thread_id, file.path, meta.cwd),
        stamp=stamp,
        title=title,
        preview=_preview(parts),
        created_at_ms=meta.created_at_ms,
        updated_at_ms=file.mtime_ns // 1_000_000,
        size=file.size,
        provider_version=meta.version,
        model=in_force.model,
        observed_parent_id="" if meta.parent_thread_id else first.forked_from_id,
        fork_operation_id=operation_id(first.thread_source),
        parent_provider_session_id=meta.parent_thread_id,
        parent_tool_call_id=_starting_call(meta, index),
        settings=settings.as_json(in_force),
        extra=extra,
    )


def _own_first(file: RolloutFile, meta: Meta, index: Mapping[str, RolloutFile]) -> Meta:
    """The first line of the thread's first file: later segments do not repeat what it was forked from."""
    first = index.get(meta.thread_id) if file.segment_id else None
    return (read_meta(first.path) if first is not None else None) or meta


def _starting_call(meta: Meta, index: Mapping[str, RolloutFile]) -> str:
    """The parent's tool call that started this sub-agent: the one whose result names it."""
    parent = index.get(meta.parent_thread_id)
    if parent is None:
        return ""
    needle = meta.thread_id.encode()
    for line in lines(parent.path, 0, parent.size):
        if line.data is None or needle not in line.data:
            continue
        try:
            payload = records.parse(line.data).payload
        except records.NotJson:
            continue
        if records.text_of(payload, "type").endswith("_output"):
            return records.text_of(payload, "call_id")
    return ""


def _preview(parts: list[Part]) -> str:
    """The first prompt of the whole history, from a bounded look at its beginning."""
    for part in (parts[0], parts[-1]):
        for line in lines(part.path, 0, min(part.end, HEAD_BYTES)):
            if line.data is None or b"ser" not in line.data[: records.HEAD]:
                continue
            try:
                prompt = records.user_message(records.parse(line.data), paginated=part.meta.paginated)
            except records.NotJson:
                continue
            if prompt is not None and prompt["text"].strip():
                return str(prompt["text"]).strip()[:PREVIEW_LENGTH]
    return ""


def _settings_in_force(parts: list[Part]) -> ForkSettings:
    """The last settings that are recorded, from bounded looks at the ends of the newest parts, then at the beginning."""
    for part in reversed(parts[-SETTINGS_PARTS:]):
        for start, end in ((max(0, part.end - TAIL_BYTES), part.end), (0, min(part.end, HEAD_BYTES))):
            found = _last_settings(part, start, end)
            if found is not None:
                return found
    return ForkSettings()


def _last_settings(part: Part, start: int, end: int) -> ForkSettings | None:
    latest: bytes | None = None
    for line in lines(part.path, start, end):
        head = line.data[: records.HEAD] if line.data is not None else b""
        if b'"turn_context"' in head or b'"thread_settings_applied"' in head:
            latest = line.data
    if latest is None:
        return None
    try:
        payload = records.parse(latest).payload
    except records.NotJson:
        return None
    applied = payload.get("thread_settings")
    return settings.from_context(applied if isinstance(applied, dict) else payload)
