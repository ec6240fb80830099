"""The store through which the SDK forks a local transcript.

The SDK's file-based fork loses rows that hold a line separator, leaves torn children and knows the child's id only
afterwards. Its fork *through a store* does the same transformation on parsed rows and hands the whole child to
``append`` once, so this store can read bytes correctly, say the child's id before the child exists, and create it
whole or not at all.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sessions.providers.claude.transcripts import chain_uuid, iter_lines, parse
from sessions.providers.crashpoints import CrashPoint, crash_point

CHUNK_BYTES = 1024 * 1024
FILE_MODE = 0o600

Row = dict[str, Any]


class LocalAtomicStore:
    """A session store over the folder one transcript lies in.

    ``load`` gives the rows through ``checkpoint``; ``append`` calls ``announce(child id)`` and then creates the child.
    Raises ``OSError`` from ``append`` when the child could not be created; then nothing lies under its name, unless
    ``created`` is True.
    """

    def __init__(self, source: Path, session_id: str, checkpoint: str, announce: Callable[[str], None]) -> None:
        self._source = source
        self._session_id = session_id
        self._checkpoint = checkpoint
        self._announce = announce
        self.created = False

    async def load(self, key: Mapping[str, str]) -> list[Row] | None:
        if key["session_id"] != self._session_id:
            return None
        return list(self._rows()) or None

    def _rows(self) -> Iterable[Row]:
        """Chain rows through the checkpoint. The SDK adds replaced contents from the whole file, so those come too."""
        reached = False
        with self._source.open("rb") as file:
            stop = file.seek(0, os.SEEK_END)
            for line in iter_lines(file, 0, stop):
                if reached and b"content-replacement" not in line.raw:
                    continue
                data = parse(line.raw)
                if data is None:
                    continue
                uuid = chain_uuid(data)
                if data.get("type") == "content-replacement" or (uuid and not reached):
                    yield data
                reached = reached or (uuid == self._checkpoint and not data.get("isSidechain"))

    async def append(self, key: Mapping[str, str], entries: Sequence[Row]) -> None:
        child_id = key["session_id"]
        if child_id == self._session_id or child_id != os.path.basename(child_id):
            raise ValueError(f"refused to write to {child_id!r}")
        self._announce(child_id)
        repair_compaction(entries)
        create_whole(self._source.parent / f"{child_id}.jsonl", encode(entries))
        self.created = True


class TitleStore:
    """A session store that can only add a title row to an existing transcript."""

    def __init__(self, transcript: Path) -> None:
        self._transcript = transcript

    async def load(self, key: Mapping[str, str]) -> list[Row] | None:
        raise NotImplementedError

    async def append(self, key: Mapping[str, str], entries: Sequence[Row]) -> None:
        content = b"".join(encode(entries))
        descriptor = os.open(self._transcript, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError("the title was written in part only")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def repair_compaction(entries: Sequence[Row]) -> None:
    """Give the child's compaction rows the child's own row ids.

    The SDK renames every row but leaves the ids inside ``compactMetadata``, so the messages a compaction kept
    verbatim would vanish from the child's context.
    """
    names = {
        entry["forkedFrom"]["messageUuid"]: entry["uuid"]
        for entry in entries
        if isinstance(entry.get("forkedFrom"), dict)
    }
    for entry in entries:
        if "compactMetadata" in entry:
            entry["compactMetadata"] = renamed(entry["compactMetadata"], names)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """``value`` with every string that is a key of ``names`` replaced, however deep it lies."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    return value


def encode(entries: Iterable[Row]) -> Iterable[bytes]:
    """Lines of a transcript. Escaped ASCII, because a lone surrogate has no UTF-8."""
    for entry in entries:
        yield json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"


def create_whole(target: Path, lines: Iterable[bytes]) -> None:
    """Create ``target`` with all of ``lines``, durably, or not at all. Raises ``OSError``; never replaces a file."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        descriptor, name = _open_unnamed(target)
        try:
            _write_all(descriptor, lines)
            crash_point(CrashPoint.AGENT_WRITES_CHILD)
            os.fsync(descriptor)
            if name is None:
                # Links are followed only when a folder is given by descriptor; without one, link(2) takes /proc's own.
                os.link(f"/proc/self/fd/{descriptor}", target.name, dst_dir_fd=folder, follow_symlinks=True)
            else:
                os.link(name, target)
        finally:
            os.close(descriptor)
            if name is not None:
                os.unlink(name)
        os.fsync(folder)
    finally:
        os.close(folder)


def _open_unnamed(target: Path) -> tuple[int, Path | None]:
    """A file without a name in the target's folder, which vanishes by itself when this process is killed.

    Where the file system has no such thing, a file with a name no reader of transcripts looks at.
    """
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, FILE_MODE), None
        except OSError:
            pass
    name = target.parent / f".{target.stem}.{secrets.token_hex(4)}.partial"
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), name


def _write_all(descriptor: int, lines: Iterable[bytes]) -> None:
    buffer = bytearray()
    for line in lines:
        buffer += line
        if len(buffer) >= CHUNK_BYTES:
            _write(descriptor, buffer)
            buffer = bytearray()
    _write(descriptor, buffer)


def _write(descriptor: int, content: bytearray) -> None:
    """Write everything: a full disk or a size limit first shows as a short write, then as an error."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
