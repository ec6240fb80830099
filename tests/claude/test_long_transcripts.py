"""The index of a transcript is small however long it is, and says the same however far apart the rows of a branch lie."""

from __future__ import annotations

import tracemalloc
import uuid
from pathlib import Path

import pytest

from sessions.providers.claude import index
from sessions.providers.claude.chain import canonical
from sessions.providers.claude.index import Rows
from tests.claude.support import RECORDINGS, SeenTurn, place, read, ref_of, session_id, turns_of

NAMES = sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
LINKS = ("uuid", "parentUuid", "logicalParentUuid")


def said(turns: list[SeenTurn]) -> list[object]:
    return [(turn.prompt, turn.origin, turn.model, turn.outcome, turn.items, turn.usage, turn.late) for turn in turns]


@pytest.mark.parametrize("name", NAMES)
def test_rows_far_from_each_other_are_joined_like_neighbours(
    name: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(config, name)
    near = turns_of(read(ref_of(config, session_id(name))))
    monkeypatch.setattr(index, "_RECENT_ROWS", 1)
    assert turns_of(read(ref_of(config, session_id(name)))) == near


@pytest.mark.parametrize("name", NAMES)
def test_names_of_rows_that_are_no_uuids_join_them_as_well(name: str, config: Path) -> None:
    place(config, name)
    ref = ref_of(config, session_id(name))
    usual = said(turns_of(read(ref)))
    assert ref.path is not None
    content = ref.path.read_bytes()
    for key in LINKS:
        content = content.replace(f'"{key}":"'.encode(), f'"{key}":"row '.encode())
    ref.path.write_bytes(content)
    assert said(turns_of(read(ref))) == usual


@pytest.mark.parametrize("name", ["source", "tools"])
def test_a_transcript_that_was_written_twice_says_everything_once(name: str, config: Path) -> None:
    place(config, name)
    ref = ref_of(config, session_id(name))
    once = turns_of(read(ref))
    assert ref.path is not None
    ref.path.write_bytes(ref.path.read_bytes() * 2)
    assert turns_of(read(ref)) == once


def test_while_a_transcript_is_written_a_second_time_it_says_what_it_said(config: Path) -> None:
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    once = turns_of(read(ref))
    assert ref.path is not None
    lines = ref.path.read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        ref.path.write_bytes(b"".join([*lines, *lines[:count]]))
        assert turns_of(read(ref)) == once


def test_a_row_takes_about_thirty_bytes() -> None:
    count = 50_000
    tracemalloc.start()
    try:
        rows, parent = Rows(), None
        for number in range(1, count + 1):
            own = str(uuid.UUID(int=number, version=4))
            message = {"id": f"msg_{number // 3}", "content": []}
            rows.add(
                number,
                number * 2000,
                number * 2000 + 1999,
                own,
                {
                    "type": "assistant" if number % 2 else "progress",
                    "uuid": own,
                    "parentUuid": parent,
                    "message": message,
                },
            )
            parent = own
        rows.settle()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / count < 40
    branch = canonical(rows)
    assert len(branch.rows) == count
    assert (branch.rows[-1].uuid, branch.rows[-1].number, branch.rows[-1].offset) == (parent, count, count * 2000)
