"""A stream can be left at any cursor and read on, and notices when what it had read is no longer there."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from sessions.providers.base import HomeRef, Json, ReadCursor, ReadItem, ReadRestart, SessionRef
from sessions.providers.codex.adapter import CodexAdapter
from tests.codex.conftest import RECORDINGS
from tests.codex.support import LEGACY, PAGINATED, WITHOUT_IDS, recorded_home, recorded_ids, turn_ids

RICH, REVERTED, ROLLED_BACK = "0.163.0-rich", "0.163.0-revert", "0.147.0-rollback"


def refs_of(adapter: CodexAdapter, home: HomeRef) -> list[SessionRef]:
    return [found.ref for found in adapter.discover(home, {})]


def read_on(adapter: CodexAdapter, ref: SessionRef, since: Json | None) -> tuple[list[ReadItem], Json]:
    """The items without cursors, and the last cursor as a database would give it back."""
    items = list(adapter.read(ref, since, None))
    assert isinstance(items[-1], ReadCursor)
    return [item for item in items if not isinstance(item, ReadCursor)], json.loads(json.dumps(items[-1].cursor))


@pytest.mark.parametrize("version", [LEGACY, PAGINATED, WITHOUT_IDS, RICH])
def test_a_file_read_while_it_grows_line_by_line_reads_like_one_read_at_once(
    adapter: CodexAdapter, tmp_path: Path, version: str
) -> None:
    home = recorded_home(version, tmp_path)
    ref = max(refs_of(adapter, home), key=lambda found: found.path.stat().st_size if found.path else 0)
    assert ref.path is not None
    data = ref.path.read_bytes()
    whole, _ = read_on(adapter, ref, None)

    told: list[ReadItem] = []
    cursor: Json | None = None
    end = data.find(b"\n") + 1
    while end:
        for cut in (min(end + 7, len(data)), end):
            ref.path.write_bytes(data[:cut])
            added, cursor = read_on(adapter, ref, cursor)
            told += added
        end = data.find(b"\n", end) + 1
    assert told == whole


def test_reading_on_with_nothing_new_tells_nothing(adapter: CodexAdapter, tmp_path: Path) -> None:
    for ref in refs_of(adapter, recorded_home(PAGINATED, tmp_path)):
        _, cursor = read_on(adapter, ref, None)
        assert read_on(adapter, ref, cursor) == ([], cursor)


@pytest.mark.parametrize("change", ["truncated", "rewritten", "replaced"])
def test_a_file_that_is_no_longer_what_was_read_is_read_anew(
    adapter: CodexAdapter, tmp_path: Path, change: str
) -> None:
    home = recorded_home(LEGACY, tmp_path)
    ref = SessionRef(home, recorded_ids(LEGACY)["threads"]["source"]["id"], None, "")
    whole, cursor = read_on(adapter, ref, None)
    path = home.path / recorded_ids(LEGACY)["threads"]["source"]["rollout"]
    data = path.read_bytes()
    if change == "truncated":
        path.write_bytes(data[: data.rfind(b"\n", 0, -1) + 1])
    elif change == "rewritten":
        path.write_bytes(data.replace(b'"duration_ms":318', b'"duration_ms":819'))
    else:
        other = recorded_ids(LEGACY)["threads"]["grandchild (fork of child at inherited turn 1)"]["rollout"]
        path.write_bytes((home.path / other).read_bytes())

    again, _ = read_on(adapter, ref, cursor)
    assert isinstance(again[0], ReadRestart)
    assert turn_ids(again) == turn_ids(whole)[: len(turn_ids(again))]


def test_a_rollback_makes_the_stream_start_over_without_the_turns_taken_back(
    adapter: CodexAdapter, tmp_path: Path
) -> None:
    home = recorded_home(ROLLED_BACK, tmp_path)
    ids = recorded_ids(ROLLED_BACK)
    [ref] = refs_of(adapter, home)
    assert ref.path is not None
    data = ref.path.read_bytes()
    ref.path.write_bytes(data[: data.rfind(b"\n", 0, data.find(b'{"type":"thread_rolled_back"')) + 1])
    before, cursor = read_on(adapter, ref, None)
    ref.path.write_bytes(data)
    after, _ = read_on(adapter, ref, cursor)

    assert turn_ids(before) == [ids["one"], ids["two"], ids["three"]]
    assert isinstance(after[0], ReadRestart)
    assert turn_ids(after) == [ids["one"], ids["four"]]


def test_a_revert_makes_the_stream_start_over_in_the_new_segment(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(REVERTED, tmp_path)
    ids = recorded_ids(REVERTED)
    current = next(ref for ref in refs_of(adapter, home) if ref.provider_session_id == ids["thread"])
    assert current.path is not None
    first_file = current.path.with_name(current.path.name.rpartition("_")[0] + ".jsonl")
    before, cursor = read_on(adapter, SessionRef(home, ids["thread"], first_file, ""), None)
    after, _ = read_on(adapter, current, cursor)

    assert turn_ids(before) == [ids["one"], ids["two"], ids["three"]]
    assert isinstance(after[0], ReadRestart)
    assert turn_ids(after) == [ids["one"], ids["four"]]


def test_a_cursor_of_another_version_starts_over(adapter: CodexAdapter) -> None:
    home = HomeRef("codex", RECORDINGS / LEGACY / "codex-home")
    ref = refs_of(adapter, home)[0]
    _, cursor = read_on(adapter, ref, None)
    again, _ = read_on(adapter, ref, {**cursor, "version": 0})
    assert isinstance(again[0], ReadRestart)


def test_a_long_history_is_read_in_bounded_memory_with_cursors_on_the_way(
    adapter: CodexAdapter, tmp_path: Path
) -> None:
    home = recorded_home(LEGACY, tmp_path)
    path = home.path / recorded_ids(LEGACY)["threads"]["source"]["rollout"]
    rows = path.read_bytes().split(b"\n")
    head, turn = rows[0], b"\n".join(rows[1:12])
    with path.open("wb") as file:
        file.write(head + b"\n")
        for _ in range(1500):
            file.write(turn + b"\n")
    ref = SessionRef(home, recorded_ids(LEGACY)["threads"]["source"]["id"], path, "")

    tracemalloc.start()
    cursors = told = 0
    for item in adapter.read(ref, None, None):
        cursors += isinstance(item, ReadCursor)
        told += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert told > 5000
    assert cursors > told / 250
    assert path.stat().st_size > 15 << 20
    assert peak < 2 << 20
