"""Damaged lines are reported by number and cost nothing but themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessions.providers.base import (
    EventKind,
    HomeRef,
    ReadCursor,
    ReadDamage,
    ReadEvent,
    ReadItem,
    SessionRef,
    Unreadable,
)
from sessions.providers.codex.adapter import CodexAdapter
from tests.codex.support import LEGACY, outcomes, recorded_home, recorded_ids, recorded_ref, turn_ids

ANSWER = 9  # the line of the legacy source that holds the first turn's answer


@pytest.fixture
def recorded(tmp_path: Path) -> HomeRef:
    return recorded_home(LEGACY, tmp_path)


@pytest.fixture
def source(recorded: HomeRef) -> SessionRef:
    return recorded_ref(LEGACY, recorded, "source")


def rows_of(ref: SessionRef) -> list[bytes]:
    assert ref.path is not None
    return ref.path.read_bytes().split(b"\n")


def write_rows(ref: SessionRef, rows: list[bytes]) -> None:
    assert ref.path is not None
    ref.path.write_bytes(b"\n".join(rows))


def texts(items: list[ReadItem], kind: EventKind) -> list[str]:
    return [item.payload["text"] for item in items if isinstance(item, ReadEvent) and item.kind is kind]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b'{"timestamp":"2026-12-01T00:43:25.4', "not_json"),
        (b"", "not_json"),
        (b"\0" * 4096, "not_json"),
        (b"not a record", "not_json"),
        (b'{"a":"\xff\xfe"}', "not_utf8"),
        (b'{"a":"\xed\xa0\x80"}', "not_utf8"),
        (b'["a list"]', "no_payload"),
        (b'{"type":"event_msg"}', "no_payload"),
        (b'{"payload":{"n":NaN}}', "not_json"),
        (b"[" * 200_000, "nested_too_deep"),
    ],
)
def test_a_line_that_cannot_be_read_is_reported_by_number_and_the_rest_goes_on(
    adapter: CodexAdapter, source: SessionRef, broken: bytes, reason: str
) -> None:
    before = list(adapter.read(source, None, None))
    rows = rows_of(source)
    write_rows(source, [*rows[:ANSWER], broken, *rows[ANSWER:]])
    after = list(adapter.read(source, None, None))

    assert [item for item in after if isinstance(item, ReadDamage)] == [ReadDamage(ANSWER + 1, reason)]
    assert turn_ids(after) == turn_ids(before)
    assert outcomes(after) == outcomes(before)


def test_a_torn_line_glued_to_the_next_one_costs_both_and_no_more(adapter: CodexAdapter, source: SessionRef) -> None:
    rows = rows_of(source)
    write_rows(source, [*rows[: ANSWER - 1], rows[ANSWER - 1][:40] + rows[ANSWER], *rows[ANSWER + 1 :]])
    items = list(adapter.read(source, None, None))

    assert [item for item in items if isinstance(item, ReadDamage)] == [ReadDamage(ANSWER, "not_json")]
    assert len(turn_ids(items)) == 6


def test_an_unfinished_last_line_is_no_damage_and_is_read_once_it_is_whole(
    adapter: CodexAdapter, source: SessionRef
) -> None:
    assert source.path is not None
    data = source.path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    source.path.write_bytes(data[: last + 30])
    first = list(adapter.read(source, None, None))
    assert not [item for item in first if isinstance(item, ReadDamage)]
    cursor = first[-1]
    assert isinstance(cursor, ReadCursor)
    assert cursor.done < cursor.total

    source.path.write_bytes(data)
    assert outcomes(adapter.read(source, cursor.cursor, None)) == ["interrupted"]


def test_separators_that_only_look_like_line_ends_stay_inside_their_text(
    adapter: CodexAdapter, source: SessionRef
) -> None:
    odd = "a\u2028b\u2029c\u0085d\x0be\x1cf\r"
    rows = rows_of(source)
    record = json.loads(rows[ANSWER - 1])
    record["payload"]["message"] = odd
    rows[ANSWER - 1] = json.dumps(record, ensure_ascii=False).encode()
    write_rows(source, rows)

    assert texts(list(adapter.read(source, None, None)), EventKind.MESSAGE_ASSISTANT)[0] == odd


def test_lone_surrogates_and_nul_in_a_text_are_kept(adapter: CodexAdapter, source: SessionRef) -> None:
    rows = rows_of(source)
    record = json.loads(rows[ANSWER - 1])
    record["payload"]["message"] = "half \ud83d and nul \0"
    rows[ANSWER - 1] = json.dumps(record).encode()
    write_rows(source, rows)

    assert texts(list(adapter.read(source, None, None)), EventKind.MESSAGE_ASSISTANT)[0] == "half \ud83d and nul \0"


def test_a_line_of_twelve_megabytes_is_read(adapter: CodexAdapter, source: SessionRef) -> None:
    rows = rows_of(source)
    record = json.loads(rows[ANSWER - 1])
    record["payload"]["message"] = "x" * (12 << 20)
    rows[ANSWER - 1] = json.dumps(record).encode()
    write_rows(source, rows)

    assert len(texts(list(adapter.read(source, None, None)), EventKind.MESSAGE_ASSISTANT)[0]) == 12 << 20


def test_a_line_longer_than_can_be_held_is_reported_and_skipped(
    adapter: CodexAdapter, source: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.providers.codex.lines.LONGEST", 1 << 20)
    rows = rows_of(source)
    write_rows(source, [*rows[:ANSWER], b"y" * (3 << 20), *rows[ANSWER:]])
    items = list(adapter.read(source, None, None))

    assert [item for item in items if isinstance(item, ReadDamage)] == [ReadDamage(ANSWER + 1, "line_too_long")]
    assert len(turn_ids(items)) == 6


@pytest.mark.parametrize("first_line", [b"", b'{"timestamp":"2026-12-01T00:43:25.425Z","type":"sess', b"{}\n"])
def test_a_rollout_without_a_whole_first_line_is_no_session(
    adapter: CodexAdapter, recorded: HomeRef, source: SessionRef, first_line: bytes
) -> None:
    assert source.path is not None
    source.path.write_bytes(first_line)

    assert source.provider_session_id not in {found.ref.provider_session_id for found in adapter.discover(recorded, {})}
    with pytest.raises(Unreadable) as refused:
        list(adapter.read(source, None, None))
    assert refused.value.code == "source_damaged"


def test_a_child_whose_source_is_gone_is_listed_and_says_so(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home("0.171.0", tmp_path)
    source = recorded_ref("0.171.0", home, "source")
    child = recorded_ids("0.171.0")["threads"]["child (fork at source turn 2)"]["id"]
    assert source.path is not None
    source.path.unlink()

    found = {session.ref.provider_session_id: session for session in adapter.discover(home, {})}
    assert found[child].extra["unreadable"] == "source_transcript_missing"
    with pytest.raises(Unreadable) as refused:
        list(adapter.read(found[child].ref, None, None))
    assert refused.value.code == "source_transcript_missing"
