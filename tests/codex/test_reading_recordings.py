"""Recorded rollouts of every format read to the turns that the real server answers for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions.providers.base import (
    EventKind,
    HomeRef,
    ReadCursor,
    ReadEvent,
    ReadItem,
    ReadTurnEnd,
    ReadTurnStart,
    SessionRef,
    TurnBinding,
)
from sessions.providers.codex.adapter import CodexAdapter
from tests.codex.conftest import RECORDINGS
from tests.codex.support import (
    LEGACY,
    PAGINATED,
    WITHOUT_IDS,
    answered_turns,
    outcomes,
    recorded_ids,
    recorded_ref,
    told_turns,
    turn_ids,
)

ROLES = list(recorded_ids(PAGINATED)["threads"])
RICH, REVERTED, ROLLED_BACK = "0.163.0-rich", "0.163.0-revert", "0.147.0-rollback"


def home_of(version: str) -> HomeRef:
    return HomeRef("codex", RECORDINGS / version / "codex-home")


def whole(adapter: CodexAdapter, version: str, thread_id: str) -> list[ReadItem]:
    home = home_of(version)
    ref = next(found.ref for found in adapter.discover(home, {}) if found.ref.provider_session_id == thread_id)
    return list(adapter.read(ref, None, None))


@pytest.mark.parametrize("version", [RICH, REVERTED, ROLLED_BACK])
def test_turns_outcomes_and_messages_are_those_the_server_lists(adapter: CodexAdapter, version: str) -> None:
    listed = json.loads((RECORDINGS / version / "turns.json").read_text())
    items = whole(adapter, version, recorded_ids(version)["thread"])

    assert told_turns(items) == answered_turns(listed)


@pytest.mark.parametrize("version", [LEGACY, PAGINATED])
@pytest.mark.parametrize("role", ROLES)
def test_every_recorded_thread_starts_with_the_turns_the_server_answered(
    adapter: CodexAdapter, version: str, role: str
) -> None:
    """The server was asked while the recording went on, so the thread may have grown since."""
    ref = recorded_ref(version, home_of(version), role)
    told = told_turns(adapter.read(ref, None, None))
    answers = [
        answered_turns(result["thread"]["turns"])
        for result in answers_of(version)
        if result.get("thread", {}).get("id") == ref.provider_session_id and result["thread"].get("turns")
    ]
    assert told
    assert answers or role not in ("source", "child (fork at source turn 2)")
    for answer in answers:
        assert told[: len(answer)] == answer


def answers_of(version: str) -> list[dict[str, Any]]:
    rows = (RECORDINGS / version / "transcript.jsonl").read_bytes().split(b"\n")
    return [message["result"] for row in rows if row and "result" in (message := json.loads(row)["msg"])]


def test_legacy_and_paginated_recordings_of_one_script_read_alike(adapter: CodexAdapter) -> None:
    def shape(version: str, role: str) -> list[tuple[str, str]]:
        items = adapter.read(recorded_ref(version, home_of(version), role), None, None)
        return [
            (item.kind.value, str(item.payload.get("text", item.payload.get("output", ""))))
            for item in items
            if isinstance(item, ReadEvent)
        ]

    for role in ROLES:
        assert shape(LEGACY, role) == shape(PAGINATED, role)


def test_a_turn_of_every_sort_is_told_once(adapter: CodexAdapter) -> None:
    ids = recorded_ids(RICH)
    told: dict[str, list[tuple[str, object]]] = {}
    current = ""
    for item in whole(adapter, RICH, ids["thread"]):
        if isinstance(item, ReadTurnStart):
            current = item.binding.provider_turn_id
        elif isinstance(item, ReadEvent):
            told.setdefault(current, []).append((item.kind.value, item.payload.get("isError")))

    assert told[ids["plain"]] == [("message.user", None), ("reasoning", None), ("message.assistant", None)]
    tool = [("message.user", None), ("tool.call", None), ("tool.result", True), ("message.assistant", None)]
    assert told[ids["failing command"]] == tool
    assert [kind for kind, _ in told[ids["custom tool"]]] == [kind for kind, _ in tool]
    assert [kind for kind, _ in told[ids["sub-agent"]]] == [kind for kind, _ in tool]
    assert told[ids["failed"]] == [("message.user", None), ("note", None)]
    assert told[ids["interrupted"]] == [("message.user", None)]


def test_tool_output_is_told_without_the_heading_that_codex_puts_before_it(adapter: CodexAdapter) -> None:
    results = [
        item.payload
        for item in whole(adapter, RICH, recorded_ids(RICH)["thread"])
        if isinstance(item, ReadEvent) and item.kind is EventKind.TOOL_RESULT
    ]
    assert results[0] == {"callId": "call_2", "output": "hi\n", "isError": True, "exitCode": 3}


def test_a_turn_whose_process_was_killed_is_settled_by_the_next_and_cannot_be_forked_at(
    adapter: CodexAdapter,
) -> None:
    ids = recorded_ids(RICH)
    ends = [item for item in whole(adapter, RICH, ids["thread"]) if isinstance(item, ReadTurnEnd)]
    killed = [end for end in ends if end.binding.reason]

    assert [end.binding for end in killed] == [TurnBinding("", {"turnId": ids["killed"]}, "turn_unended")]
    assert killed[0].outcome.value == "interrupted"


def test_every_turn_has_its_own_token_counts(adapter: CodexAdapter) -> None:
    ends = [item for item in whole(adapter, RICH, recorded_ids(RICH)["thread"]) if isinstance(item, ReadTurnEnd)]
    counted = [end.usage.get("totalTokens", 0) for end in ends]
    assert counted == [110, 220, 220, 220, 0, 110, 110, 0, 0, 0, 110]


def test_turns_without_ids_are_told_but_bound_to_nothing(adapter: CodexAdapter) -> None:
    home = home_of(WITHOUT_IDS)
    [found] = adapter.discover(home, {})
    items = list(adapter.read(found.ref, None, None))
    starts = [item for item in items if isinstance(item, ReadTurnStart)]

    assert [start.prompt for start in starts] == [
        "old prompt one",
        "old prompt two [run: echo old-shell]",
        "old prompt three",
    ]
    assert [(start.binding.provider_turn_id, start.binding.reason) for start in starts] == [
        ("", "turn_id_synthesized")
    ] * 3
    assert outcomes(items) == ["completed", "completed"]


@pytest.mark.parametrize("version", [LEGACY, PAGINATED])
def test_after_a_turn_only_what_follows_is_told(adapter: CodexAdapter, version: str) -> None:
    turns = recorded_ids(version)["turns"]
    home = home_of(version)
    child = recorded_ref(version, home, "child (fork at source turn 2)")
    empty = recorded_ref(version, home, "second child at the same point")
    after = TurnBinding(turns["source turn 2"])

    assert turn_ids(adapter.read(child, None, after)) == [turns["child own turn"]]
    assert [type(item) for item in adapter.read(empty, None, after)] == [ReadCursor]


def test_a_reverted_thread_is_told_through_its_newest_segment_and_so_is_its_fork(adapter: CodexAdapter) -> None:
    ids = recorded_ids(REVERTED)

    assert turn_ids(whole(adapter, REVERTED, ids["thread"])) == [ids["one"], ids["four"]]
    assert turn_ids(whole(adapter, REVERTED, ids["child"])) == [ids["one"], ids["four"], ids["child turn"]]


def test_what_a_rollback_took_back_is_not_told(adapter: CodexAdapter) -> None:
    ids = recorded_ids(ROLLED_BACK)
    assert turn_ids(whole(adapter, ROLLED_BACK, ids["thread"])) == [ids["one"], ids["four"]]


def test_the_model_in_force_is_told_with_every_turn(adapter: CodexAdapter) -> None:
    ref: SessionRef = recorded_ref(PAGINATED, home_of(PAGINATED), "source")
    starts = [item for item in adapter.read(ref, None, None) if isinstance(item, ReadTurnStart)]
    assert {start.model for start in starts} == {"mock-model"}
