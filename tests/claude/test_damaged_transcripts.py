"""Transcripts are read as bytes: odd characters, broken lines and huge lines cost a line at most."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessions.providers.base import EventKind, HomeRef, ReadDamage, Rejected, SessionFacts, SessionRef, Unreadable
from sessions.providers.claude.adapter import ClaudeAdapter
from tests.claude.support import place, read, ref_of, request_for, session_id, turns_of

FACTS = SessionFacts("s", "2.1.332", "/home/dev/project", damaged=True)


@pytest.fixture
def ref(config: Path) -> SessionRef:
    place(config, "source")
    return ref_of(config, session_id("source"))


def lines_of(ref: SessionRef) -> list[bytes]:
    assert ref.path is not None
    return ref.path.read_bytes().split(b"\n")


def rewrite(ref: SessionRef, lines: list[bytes]) -> None:
    assert ref.path is not None
    ref.path.write_bytes(b"\n".join(lines))


def damage_of(ref: SessionRef) -> list[ReadDamage]:
    return [item for item in read(ref) if isinstance(item, ReadDamage)]


def test_broken_lines_are_named_by_number_and_the_rest_is_read(ref: SessionRef) -> None:
    lines = lines_of(ref)
    lines[5:5] = [b"{broken", b"[1, 2]", b"\xff\xfe", b""]
    rewrite(ref, lines)
    assert damage_of(ref) == [ReadDamage(6, "not_json"), ReadDamage(7, "not_json"), ReadDamage(8, "not_utf8")]
    assert [turn.outcome for turn in turns_of(read(ref))] == ["completed"] * 4


def test_odd_characters_stay_in_one_line(ref: SessionRef) -> None:
    lines = lines_of(ref)
    odd = "a\u2028b\u2029c\u0085d\x1ce"
    lines[2] = lines[2].replace(b"Name a colour. [[say:Blue.]]", json.dumps(odd, ensure_ascii=False)[1:-1].encode())
    lines[20] = lines[20].replace(b"Run echo hi.", rb"nul \u0000 lone \ud800 end")
    lines[34] = lines[34].replace(b"Name a fruit.", b"bad \xff\xc3 bytes")
    rewrite(ref, lines)
    prompts = [turn.prompt for turn in turns_of(read(ref))]
    assert prompts[0] == odd
    assert prompts[1].startswith("nul \x00 lone \ud800 end")
    assert prompts[2].startswith("bad \ufffd\ufffd bytes")
    assert damage_of(ref) == []


def test_numbers_that_no_database_holds_do_not_stop_an_import(ref: SessionRef) -> None:
    lines = lines_of(ref)
    lines[26] = lines[26].replace(b'"input":{', b'"input":{"huge":1e999,"big":123456789012345678901234567890,')
    lines[27:27] = [b'{"type":"user","uuid":"x","parentUuid":null,"n":NaN}', b'{"n":' + b"1" * 5000 + b"}"]
    rewrite(ref, lines)
    call = next(event for event in turns_of(read(ref))[1].events if event.kind is EventKind.TOOL_CALL)
    assert call.payload["input"]["huge"] is None
    assert call.payload["input"]["big"] == 123456789012345678901234567890
    assert damage_of(ref) == [ReadDamage(28, "not_json"), ReadDamage(29, "not_json")]


def test_a_line_of_twelve_megabytes_is_read(ref: SessionRef) -> None:
    lines = lines_of(ref)
    lines[31] = lines[31].replace(b"reply 2 to: Run echo hi.", b"x" * 12_000_000)
    rewrite(ref, lines)
    assert len(turns_of(read(ref))[1].items[-1][1]) == 12_000_000


def test_a_line_beyond_every_measure_is_passed_over(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions.providers.claude.transcripts.MAX_LINE_BYTES", 100_000)
    lines = lines_of(ref)
    lines[3:3] = [b'{"type":"mode","mode":"' + b"x" * 350_000 + b'"}']
    rewrite(ref, lines)
    assert damage_of(ref) == [ReadDamage(4, "line_too_long")]
    assert len(turns_of(read(ref))) == 4


def test_a_lost_row_costs_its_turn_a_line_and_bars_forks_behind_it(ref: SessionRef, adapter: ClaudeAdapter) -> None:
    lines = lines_of(ref)
    lines[31] = lines[31][:50]
    rewrite(ref, lines)
    turns = turns_of(read(ref))
    assert [turn.outcome for turn in turns] == ["completed", "interrupted", "completed", "completed"]
    attestation = adapter.attest(ref.home)
    answers = [adapter.can_fork(attestation, FACTS, turn.binding) for turn in turns]
    assert answers == ["", "", "transcript_damaged", "transcript_damaged"]
    adapter.confirm_turn(request_for(ref, turns, 1))
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(request_for(ref, turns, 3))
    assert refused.value.code == "transcript_damaged"


def test_a_torn_tail_waits_for_its_writer_and_is_damage_once_nobody_is_left(ref: SessionRef) -> None:
    lines = lines_of(ref)
    rewrite(ref, [*lines[:31], lines[31][:200]])
    assert damage_of(ref) == [ReadDamage(32, "torn_tail")]
    assert [turn.outcome for turn in turns_of(read(ref))] == ["completed", "interrupted"]


def test_rows_that_point_at_each_other_end_the_walk(ref: SessionRef) -> None:
    rows = [json.loads(line) for line in lines_of(ref) if line]
    rows[2]["parentUuid"] = rows[4]["uuid"]
    rewrite(ref, [json.dumps(row).encode() for row in rows] + [b""])
    assert len(turns_of(read(ref))) == 4


def test_a_transcript_that_is_gone_is_unreadable(config: Path, adapter: ClaudeAdapter) -> None:
    gone = SessionRef(HomeRef("claude", config), "x", config / "gone.jsonl", "/home/dev/project")
    with pytest.raises(Unreadable) as error:
        list(adapter.read(gone, None, None))
    assert error.value.code == "source_transcript_missing"
