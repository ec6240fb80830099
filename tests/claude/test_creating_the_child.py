"""The child's file comes into being whole, durable and private, or not at all."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessions.providers.claude import local_store
from sessions.providers.claude.local_store import LocalAtomicStore, TitleStore, create_whole, encode, repair_compaction
from tests.claude.support import RECORDINGS, session_id

LINES = [b'{"a":1}\n', b'{"b":2}\n']


@pytest.fixture(params=["unnamed", "named"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a child, on a file system that has files without a name and on one that has not."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return tmp_path / "child.jsonl"


def test_a_created_file_is_whole_private_and_alone(target: Path) -> None:
    create_whole(target, LINES)
    assert target.read_bytes() == b"".join(LINES)
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(target.parent) == ["child.jsonl"]


def test_an_existing_file_is_never_replaced(target: Path) -> None:
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        create_whole(target, LINES)
    assert target.read_bytes() == b"mine"
    assert os.listdir(target.parent) == ["child.jsonl"]


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
def test_whatever_fails_leaves_nothing_behind(target: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local_store.os, step, fail)
    with pytest.raises(OSError, match="No space"):
        create_whole(target, LINES)
    monkeypatch.undo()
    assert os.listdir(target.parent) == []


def test_a_short_write_is_gone_on_with(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(local_store.os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    create_whole(target, LINES)
    monkeypatch.undo()
    assert target.read_bytes() == b"".join(LINES)


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert list(encode([{"text": "\ud800\u2028"}])) == [b'{"text":"\\ud800\\u2028"}\n']


def test_ids_inside_a_compaction_become_the_childs_and_foreign_ones_stay() -> None:
    entries = [
        {"uuid": "new-1", "forkedFrom": {"messageUuid": "old-1"}},
        {
            "uuid": "new-2",
            "forkedFrom": {"messageUuid": "old-2"},
            "compactMetadata": {
                "trigger": "manual",
                "preservedMessages": {"uuids": ["old-1", "lost"], "anchor": "old-2"},
            },
        },
    ]
    repair_compaction(entries)
    metadata: Any = entries[1]["compactMetadata"]
    assert metadata == {"trigger": "manual", "preservedMessages": {"uuids": ["new-1", "lost"], "anchor": "new-2"}}


def test_the_store_gives_the_rows_through_the_checkpoint_and_all_replaced_contents(tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    replaced = {"type": "content-replacement", "sessionId": session_id("u2028"), "replacements": [1]}
    source.write_bytes((RECORDINGS / "u2028.jsonl").read_bytes() + json.dumps(replaced).encode() + b"\n")
    checkpoint = "ed7316b2-98db-46ac-bb0a-247de1264ac5"
    store = LocalAtomicStore(source, session_id("u2028"), checkpoint, lambda child_id: None)
    rows = asyncio.run(store.load({"project_key": "any", "session_id": session_id("u2028")}))
    assert rows is not None
    assert rows[-1] == replaced
    assert rows[-2]["uuid"] == checkpoint
    assert any("\u2028" in json.dumps(row, ensure_ascii=False) for row in rows)
    assert asyncio.run(store.load({"project_key": "any", "session_id": "other"})) is None


@pytest.mark.parametrize("child_id", ["s", "../other"])
def test_the_source_itself_and_other_folders_are_refused(tmp_path: Path, child_id: str) -> None:
    announced: list[str] = []
    store = LocalAtomicStore(tmp_path / "s.jsonl", "s", "c", announced.append)
    with pytest.raises(ValueError, match="refused"):
        asyncio.run(store.append({"project_key": "any", "session_id": child_id}, [{}]))
    assert announced == []
    assert os.listdir(tmp_path) == []


def test_a_title_is_one_more_row_and_needs_an_existing_transcript(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with pytest.raises(FileNotFoundError):
        asyncio.run(TitleStore(path).append({"session_id": "c"}, [{"type": "custom-title"}]))
    path.write_bytes(b"{}\n")
    asyncio.run(TitleStore(path).append({"session_id": "c"}, [{"type": "custom-title"}]))
    assert path.read_bytes() == b'{}\n{"type":"custom-title"}\n'
