"""A transcript that grows is read on from where the last reading stopped; one that changed is read again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessions.providers.base import (
    EventKind,
    HomeRef,
    ReadBinding,
    ReadCursor,
    ReadEvent,
    ReadRestart,
    ReadTurnEnd,
    ReadTurnStart,
    SessionRef,
    TurnBinding,
    Unreadable,
)
from tests.claude.support import RECORDINGS, at_work, cursor_of, expected, place, read, ref_of, session_id, turns_of


def lines_of(name: str) -> list[bytes]:
    return [line + b"\n" for line in (RECORDINGS / f"{name}.jsonl").read_bytes().split(b"\n") if line]


def growing(config: Path, name: str) -> tuple[SessionRef, list[bytes]]:
    """An empty transcript for a recording, and the lines to write to it."""
    folder = config / "projects" / "-home-dev-project"
    folder.mkdir(exist_ok=True)
    path = folder / f"{session_id(name)}.jsonl"
    path.write_bytes(b"")
    return SessionRef(HomeRef("claude", config), session_id(name), path, "/home/dev/project"), lines_of(name)


def append(ref: SessionRef, *lines: bytes) -> None:
    assert ref.path is not None
    with ref.path.open("ab") as file:
        file.write(b"".join(lines))


@pytest.mark.parametrize("name", sorted(set(expected()) - {"child_torn"}))
def test_read_line_by_line_it_is_the_same_history(name: str, config: Path) -> None:
    ref, lines = growing(config, name)
    working = at_work(config, ref.provider_session_id)
    items = read(ref)
    turns = turns_of(items)
    for line in lines:
        append(ref, line)
        items = read(ref, cursor_of(items))
        turns = turns_of(items, turns)
    working.unlink()
    turns = turns_of(read(ref, cursor_of(items)), turns)
    at_once = turns_of(read(ref))
    assert [(turn.turn_id, turn.items, turn.outcome) for turn in turns] == [
        (turn.turn_id, turn.items, turn.outcome) for turn in at_once
    ]
    assert turns[-1].binding == at_once[-1].binding


def test_a_rewind_starts_over_and_leaves_the_abandoned_turns_out(config: Path) -> None:
    ref, lines = growing(config, "rewind")
    append(ref, *lines[:34])
    before = read(ref)
    assert [turn.prompt[:13] for turn in turns_of(before)] == ["Start. [[say:", "First attempt", "First attempt"]
    append(ref, *lines[34:])
    after = read(ref, cursor_of(before))
    assert isinstance(after[0], ReadRestart)
    assert [turn.prompt[:14] for turn in turns_of(after)] == ["Start. [[say:B", "Second attempt"]


def test_nothing_new_yields_a_cursor_alone(config: Path) -> None:
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    items = read(ref, cursor_of(read(ref)))
    assert [type(item) for item in items] == [ReadCursor]


def test_a_file_that_was_replaced_is_read_from_the_beginning(config: Path) -> None:
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    cursor = cursor_of(read(ref))
    assert ref.path is not None
    ref.path.write_bytes((RECORDINGS / "tools.jsonl").read_bytes())
    items = read(ref, cursor)
    assert isinstance(items[0], ReadRestart)
    assert len(turns_of(items)) == 4


def test_a_cursor_of_another_version_is_read_from_the_beginning(config: Path) -> None:
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    assert isinstance(read(ref, {"v": 0})[0], ReadRestart)


def test_every_cursor_on_the_way_can_be_gone_on_from(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions.providers.claude.reader.CURSOR_EVERY_ROWS", 3)
    place(config, "tools")
    ref = ref_of(config, session_id("tools"))
    items = read(ref)
    whole = turns_of(items)
    places = [place for place, item in enumerate(items) if isinstance(item, ReadCursor)]
    assert len(places) > 10
    for cut in places:
        first = items[: cut + 1]
        again = turns_of(read(ref, cursor_of(first)), turns_of(first))
        assert [(turn.items, turn.binding, turn.outcome) for turn in again] == [
            (turn.items, turn.binding, turn.outcome) for turn in whole
        ]


def test_hidden_rows_after_a_settled_turn_move_its_binding(config: Path) -> None:
    ref, lines = growing(config, "source")
    append(ref, *lines[:15])
    first = read(ref)
    assert isinstance(first[-2], ReadTurnEnd)
    append(ref, lines[15])
    (moved, _) = read(ref, cursor_of(first))
    wanted = expected()["source"]["turns"][0]
    assert moved == ReadBinding(TurnBinding(wanted["prompt_uuid"], {"checkpoint": wanted["checkpoint"]}))


def test_visible_rows_after_a_settled_turn_are_context_and_do_not_move_its_binding(config: Path) -> None:
    ref, lines = growing(config, "source")
    append(ref, *lines[:32])
    first = read(ref)
    answer = json.loads(lines[31])
    late = {**answer, "uuid": "10000000-0000-4000-8000-000000000001", "parentUuid": answer["uuid"]}
    late["message"] = {**answer["message"], "content": [{"type": "text", "text": "One more thing."}]}
    hidden = {"type": "attachment", "uuid": "10000000-0000-4000-8000-000000000002", "parentUuid": late["uuid"]}
    append(ref, *(json.dumps(row).encode() + b"\n" for row in (late, hidden)))
    items = read(ref, cursor_of(first))
    (event,) = [item for item in items if not isinstance(item, ReadCursor)]
    assert isinstance(event, ReadEvent)
    assert (event.kind, event.payload["text"]) == (EventKind.CONTEXT, "One more thing.")


def test_a_child_rewound_into_what_it_inherited_says_so_and_reads_whole_without_its_boundary(config: Path) -> None:
    place(config, "child_continued")
    ref = ref_of(config, session_id("child_continued"))
    turns = turns_of(read(ref))
    own = read(ref, after=turns[1].binding)
    assert [turn.turn_id for turn in turns_of(own)] == [turns[2].turn_id]
    prompt = json.loads(next(line for line in lines_of("child_continued") if turns[2].turn_id.encode() in line))
    rewound = {**prompt, "uuid": "10000000-0000-4000-8000-000000000001", "parentUuid": turns[0].checkpoint}
    append(ref, json.dumps(rewound).encode() + b"\n")
    with pytest.raises(Unreadable, match="no longer part") as refused:
        read(ref, cursor_of(own), turns[1].binding)
    assert refused.value.code == "inherited_prefix_changed"
    assert [turn.turn_id for turn in turns_of(read(ref))] == [turns[0].turn_id, rewound["uuid"]]


def test_idle_before_the_turn_began_proves_nothing(config: Path) -> None:
    ref, lines = growing(config, "source")
    append(ref, *lines[:47])
    began = next(item.at_ms for item in reversed(read(ref)) if isinstance(item, ReadTurnStart))
    at_work(config, ref.provider_session_id, "idle", began - 1)
    assert [turn.outcome for turn in turns_of(read(ref))] == ["completed", "completed", "completed", ""]
    at_work(config, ref.provider_session_id, "idle", began + 1)
    assert [turn.outcome for turn in turns_of(read(ref))] == ["completed"] * 4


def test_an_unanswered_prompt_of_an_idle_agent_is_over_only_when_it_stays_idle(config: Path) -> None:
    """The agent writes its rows and its status apart: the answer may still be on its way to the disk."""
    ref, lines = growing(config, "source")
    prompt = json.loads(lines[2])
    now = datetime.now(UTC)
    prompt["timestamp"] = now.isoformat()
    append(ref, json.dumps(prompt).encode() + b"\n")
    began = int(now.timestamp() * 1000)
    at_work(config, ref.provider_session_id, "idle", began + 1)
    assert [turn.outcome for turn in turns_of(read(ref))] == [""]
    prompt["timestamp"] = (now - timedelta(minutes=1)).isoformat()
    assert ref.path is not None
    ref.path.write_bytes(json.dumps(prompt).encode() + b"\n")
    at_work(config, ref.provider_session_id, "idle", began - 30_000)
    assert [turn.outcome for turn in turns_of(read(ref))] == ["interrupted"]
