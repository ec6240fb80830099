"""Whatever stands in a rollout, reading it goes on and its turns stay well formed."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions.providers.base import (
    EventKind,
    HomeRef,
    ReadCursor,
    ReadEvent,
    ReadItem,
    ReadTurnEnd,
    ReadTurnStart,
    SessionRef,
)
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.records import other_events, parse
from tests.codex.conftest import RECORDINGS
from tests.codex.support import LEGACY, recorded_home, recorded_ids, recorded_ref

RICH = "0.163.0-rich"
ODD = st.sampled_from([None, True, -1, 1e300, 10**30, "", "x", [], ["x", 1], [None], {}, {"a": None}, [[{}]]])


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HomeRef]:
    """One copy of each recording, rewritten by every example."""
    found = {}
    for version in (LEGACY, RICH):
        path = tmp_path_factory.mktemp("odd") / "home"
        shutil.copytree(RECORDINGS / version / "codex-home", path)
        found[version] = HomeRef("codex", path)
    return found


def main_thread(version: str, home: HomeRef) -> SessionRef:
    if version == LEGACY:
        return recorded_ref(LEGACY, home, "source")
    thread_id = recorded_ids(version)["thread"]
    path = next(home.path.glob(f"sessions/*/*/*/*{thread_id}.jsonl"))
    return SessionRef(home, thread_id, path, "")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, (*path, key))


def assert_well_formed(items: list[ReadItem]) -> None:
    is_open = False
    for item in items:
        if isinstance(item, ReadTurnStart):
            assert not is_open
            is_open = True
        elif isinstance(item, ReadTurnEnd):
            assert is_open
            is_open = False
        elif isinstance(item, ReadEvent):
            json.dumps(item.payload)
            assert is_open or item.kind in (EventKind.CONTEXT, EventKind.NOTE, EventKind.COMPACTION)
    assert isinstance(items[-1], ReadCursor)


@pytest.mark.parametrize("version", [LEGACY, RICH])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_may_be_anything(
    adapter: CodexAdapter, homes: dict[str, HomeRef], version: str, data: st.DataObject
) -> None:
    ref = main_thread(version, homes[version])
    assert ref.path is not None
    recorded = RECORDINGS / version / "codex-home" / ref.path.relative_to(ref.home.path)
    rows = [json.loads(row) for row in recorded.read_bytes().split(b"\n") if row]
    for _ in range(data.draw(st.integers(1, 12))):
        row = rows[data.draw(st.integers(1, len(rows) - 1))]
        *path, last = data.draw(st.sampled_from(list(places(row))))
        inner = row
        for key in path:
            inner = inner[key]
        inner[last] = copy.deepcopy(data.draw(ODD))
    ref.path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    assert_well_formed(list(adapter.read(ref, None, None)))
    assert len(list(adapter.discover(ref.home, {}))) >= 1


@pytest.mark.parametrize("version", [LEGACY, RICH])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_byte_may_be_anything(
    adapter: CodexAdapter, homes: dict[str, HomeRef], version: str, data: st.DataObject
) -> None:
    ref = main_thread(version, homes[version])
    assert ref.path is not None
    recorded = RECORDINGS / version / "codex-home" / ref.path.relative_to(ref.home.path)
    whole = recorded.read_bytes()
    begin = whole.index(b"\n") + 1
    spoiled = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(begin, len(whole) - 1))
        piece = data.draw(st.binary(max_size=20))
        spoiled[at : at + data.draw(st.integers(0, 400))] = piece
    ref.path.write_bytes(bytes(spoiled))

    assert_well_formed(list(adapter.read(ref, None, None)))


def test_a_message_sent_while_a_turn_runs_belongs_to_that_turn(adapter: CodexAdapter, tmp_path: Path) -> None:
    ref = recorded_ref(LEGACY, recorded_home(LEGACY, tmp_path), "source")
    assert ref.path is not None
    rows = ref.path.read_bytes().split(b"\n")
    ref.path.write_bytes(b"\n".join([*rows[:9], rows[7].replace(b"First prompt", b"And then"), *rows[9:]]))
    items = list(adapter.read(ref, None, None))
    texts = [item.payload.get("text") for item in items if isinstance(item, ReadEvent)][:3]

    assert texts == [
        "First prompt: remember APPLE",
        "MOCK 1: First prompt: remember APPLE",
        "And then: remember APPLE",
    ]
    assert len([item for item in items if isinstance(item, ReadTurnStart)]) == 6


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
            [("tool.call", {"callId": "c", "name": "local_shell", "input": {"type": "exec", "command": ["ls"]}})],
        ),
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
            [("tool.call", {"callId": "line-7", "name": "web_search", "input": {"type": "search", "query": "q"}})],
        ),
        (
            {"type": "function_call", "name": "f", "arguments": "no json", "call_id": "c"},
            [("tool.call", {"callId": "c", "name": "f", "input": "no json"})],
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": {"content": "no", "success": False}},
            [("tool.result", {"callId": "c", "output": "no", "isError": True})],
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "a"}, {"type": "input_image"}],
            },
            [("tool.result", {"callId": "c", "output": "a\n[input_image]", "isError": False})],
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": "Exit code: 2\nWall time: 1 seconds\nOutput:\nbad",
            },
            [("tool.result", {"callId": "c", "output": "bad", "isError": True, "exitCode": 2})],
        ),
        (
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]},
            [("reasoning", {"text": "raw"})],
        ),
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, []),
    ],
)
def test_shapes_that_other_versions_and_tools_write_are_told_in_the_same_words(
    payload: dict[str, Any], told: list[tuple[str, Any]]
) -> None:
    record = parse(json.dumps({"type": "response_item", "payload": payload}).encode())
    assert [(kind.value, event) for kind, event in other_events(record, paginated=False, fallback_id="line-7")] == told
