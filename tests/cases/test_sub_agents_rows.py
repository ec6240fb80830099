"""Rows of sub-agents inside a main transcript: the agent's own fork does not know them, so no fork is cut at one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions.providers.base import SessionRef
from sessions.providers.claude import sdk
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.local_store import LocalAtomicStore
from tests.claude.support import SeenTurn, place, read, ref_of, request_for, session_id, turns_of


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """An empty home for recordings."""
    (tmp_path / "config" / "projects").mkdir(parents=True)
    return tmp_path / "config"


def told(turns: list[SeenTurn]) -> list[tuple[str, str, list[object]]]:
    return [(turn.prompt, turn.outcome, list(turn.items)) for turn in turns]


def lane_of(row: dict[str, Any], number: int, kind: str) -> bytes:
    """A sub-agent's row that follows ``row``."""
    lane = {**row, "isSidechain": True, "uuid": f"51de0000-0000-4000-8000-{number:012d}", "parentUuid": row["uuid"]}
    lane["type"] = kind
    lane["message"] = {"role": kind, "content": [{"type": "text", "text": f"sub-agent {number}"}]}
    return json.dumps(lane).encode()


@pytest.fixture
def mixed(config: Path) -> SessionRef:
    """The recorded source, each of its turns ending with the rows of a sub-agent."""
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    assert ref.path is not None
    lines = [line for line in ref.path.read_bytes().split(b"\n") if line]
    ends = {turn.checkpoint for turn in turns_of(read(ref))}
    mixed: list[bytes] = []
    for line in lines:
        mixed.append(line)
        row = json.loads(line)
        if row.get("uuid") in ends:
            mixed += [lane_of(row, 10 * len(mixed) + step, kind) for step, kind in enumerate(("user", "assistant"))]
    ref.path.write_bytes(b"\n".join(mixed) + b"\n")
    return ref_of(config, session_id("source"))


def test_a_turn_that_ends_with_a_sub_agents_rows_is_cut_at_the_last_row_of_its_own(
    mixed: SessionRef, tmp_path: Path
) -> None:
    place(tmp_path / "plain", "source")
    plain = turns_of(read(ref_of(tmp_path / "plain", session_id("source"))))
    turns = turns_of(read(mixed))
    assert told(turns) == told(plain)
    assert [turn.checkpoint for turn in turns] == [turn.checkpoint for turn in plain]


def test_each_such_turn_forks_to_its_prefix_without_a_sub_agents_row(mixed: SessionRef) -> None:
    assert mixed.path is not None
    turns = turns_of(read(mixed))
    before = mixed.path.read_bytes()
    for number in range(1, len(turns) + 1):
        request = request_for(mixed, turns, number)
        ClaudeAdapter().confirm_turn(request)
        checkpoint = turns[number - 1].checkpoint
        store = LocalAtomicStore(mixed.path, mixed.provider_session_id, checkpoint, lambda child_id: None)
        child_id = sdk.fork(sdk.load(), store, mixed.provider_session_id, checkpoint, request.marker)
        accepted = ClaudeAdapter().verify(request, child_id)
        child = ref_of(mixed.home.path, child_id)
        assert told(turns_of(read(child))) == told(turns[:number])
        assert len(accepted.mapping) == number
        assert child.path is not None
        assert b"sub-agent" not in child.path.read_bytes()
    assert mixed.path.read_bytes() == before
