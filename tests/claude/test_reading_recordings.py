"""Every recording of the real agent reads to the turns a person read in it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from sessions.providers.base import EventKind, ReadCursor, ReadDamage, ReadEvent, ReadTitle
from sessions.providers.claude.roles import command_output_text, command_text
from tests.claude.support import expected, place, read, ref_of, session_id, turns_of

STATES = {"settled": "completed", "interrupted": "interrupted"}
ORIGINS = {"prompt": "user", "compaction": "compaction"}


def wanted_items(items: list[list[Any]]) -> list[list[Any]]:
    """Commands are shown as typed, without the tags the agent stores them in."""
    return [["command", _untagged(item[1])] if item[0] == "command" else item for item in items]


def _untagged(text: str) -> str:
    return command_text(text) if text.startswith("<command") else command_output_text(text)


@pytest.mark.parametrize("name", sorted(expected()))
def test_a_recording_reads_to_its_expected_turns(name: str, config: Path) -> None:
    place(config, name)
    seen = turns_of(read(ref_of(config, session_id(name))))
    wanted = expected()[name]["turns"]
    assert [
        (ORIGINS[turn["kind"]], wanted_items(turn["items"]), turn["checkpoint"], STATES[turn["state"]])
        for turn in wanted
    ] == [(turn.origin, turn.items, turn.checkpoint, turn.outcome) for turn in seen]
    prompts = [(turn["prompt_uuid"], other.turn_id) for turn, other in zip(wanted, seen, strict=True)]
    assert all(theirs == ours for theirs, ours in prompts if theirs is not None)


@pytest.mark.parametrize("name", sorted(expected()))
def test_only_the_torn_recording_reports_damage(name: str, config: Path) -> None:
    place(config, name)
    items = read(ref_of(config, session_id(name)))
    damage = [item for item in items if isinstance(item, ReadDamage)]
    assert damage == ([ReadDamage(10, "torn_tail")] if expected()[name]["torn"] else [])


def test_a_turn_knows_its_model_and_the_tokens_of_each_message_once(config: Path) -> None:
    place(config, "tools")
    first = turns_of(read(ref_of(config, session_id("tools"))))[0]
    assert first.model == "claude-sonnet-4-5"
    assert first.usage == {
        "inputTokens": 20,
        "outputTokens": 24,
        "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0,
    }


def test_a_failed_command_keeps_its_exit_code_and_output(config: Path) -> None:
    place(config, "tools")
    second = turns_of(read(ref_of(config, session_id("tools"))))[1]
    result = next(event for event in second.events if event.kind is EventKind.TOOL_RESULT)
    assert result.payload["exitCode"] == 3
    assert result.payload["output"] == "Exit code 3\noops"


def test_a_picture_is_named_by_digest_and_file_and_carries_its_bytes_for_whoever_stores_them(config: Path) -> None:
    place(config, "tools")
    prompt = turns_of(read(ref_of(config, session_id("tools"))))[3].events[0]
    (image,) = prompt.payload["images"]
    assert image["mediaType"] == "image/png"
    assert image["path"].endswith("/images/1.png")
    assert image["size"] == 75
    assert hashlib.sha256(base64.b64decode(image["data"])).hexdigest() == image["sha256"]


def test_what_stands_before_the_first_turn_is_kept_as_context(config: Path) -> None:
    place(config, "u2028_child_broken")
    items = read(ref_of(config, session_id("u2028_child_broken")))
    first = items[0]
    assert isinstance(first, ReadEvent)
    assert (first.kind, first.payload["text"]) == (EventKind.CONTEXT, "Second.")


def test_a_stream_ends_with_a_cursor_and_names_the_title(config: Path) -> None:
    place(config, "child_continued")
    items = read(ref_of(config, session_id("child_continued")))
    assert isinstance(items[-1], ReadCursor)
    assert items[-1].done == items[-1].total
    assert ReadTitle("fork-op:7f3b") in items
