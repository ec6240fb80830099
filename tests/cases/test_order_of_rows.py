"""The order in which rows were written, and what their clocks say, decide nothing: links and places do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessions.providers.base import SessionRef
from tests.claude.support import place, read, ref_of, session_id, turns_of


@pytest.fixture
def source(tmp_path: Path) -> SessionRef:
    config = tmp_path / "config"
    (config / "projects").mkdir(parents=True)
    place(config, "source")
    return ref_of(config, session_id("source"))


def rewrite(ref: SessionRef, rows: list[dict[str, object]]) -> None:
    assert ref.path is not None
    ref.path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def rows_of(ref: SessionRef) -> list[dict[str, object]]:
    assert ref.path is not None
    return [json.loads(line) for line in ref.path.read_bytes().split(b"\n") if line]


def test_a_row_written_before_the_one_it_follows_is_in_its_place(source: SessionRef) -> None:
    expected = [(turn.prompt, turn.outcome, turn.checkpoint) for turn in turns_of(read(source))]
    rows = rows_of(source)
    at = next(
        number
        for number, row in enumerate(rows[:-1])
        if row.get("type") == "user" and rows[number + 1].get("parentUuid") == row.get("uuid")
    )
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    rewrite(source, rows)
    assert [(turn.prompt, turn.outcome, turn.checkpoint) for turn in turns_of(read(source))] == expected


def test_times_in_other_zones_and_out_of_order_change_no_boundary(source: SessionRef) -> None:
    expected = [(turn.prompt, turn.outcome, turn.checkpoint) for turn in turns_of(read(source))]
    rows = rows_of(source)
    for number, row in enumerate(rows):
        if "timestamp" in row:
            row["timestamp"] = ("2026-12-01T10:00:00+02:00", "2026-12-01T07:30:00.5Z", "not a time")[number % 3]
    rewrite(source, rows)
    assert [(turn.prompt, turn.outcome, turn.checkpoint) for turn in turns_of(read(source))] == expected
