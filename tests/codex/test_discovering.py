"""Discovery finds every thread once, opens only what changed, and is fooled by no odd file."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import pytest

from forkhost.demo.codex_home import run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import DiscoveredSession, HomeRef, Rejected, SessionRef, Unreadable
from sessions.providers.codex import discovery
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.rollouts import MARKER_PREFIX, current_files, operation_id, parse_name, unix_ms, uuid7_ms
from tests.codex.conftest import RECORDINGS
from tests.codex.support import LEGACY, PAGINATED, Reporter, recorded_home, recorded_ids, request_for, turn_ids

RICH, REVERTED = "0.163.0-rich", "0.163.0-revert"


def by_id(adapter: CodexAdapter, home: HomeRef) -> dict[str, DiscoveredSession]:
    return {found.ref.provider_session_id: found for found in adapter.discover(home, {})}


def home_of(version: str) -> HomeRef:
    return HomeRef("codex", RECORDINGS / version / "codex-home")


@pytest.mark.parametrize("version", [LEGACY, PAGINATED])
def test_recorded_threads_are_found_with_their_origin_cwd_version_and_first_prompt(
    adapter: CodexAdapter, version: str
) -> None:
    threads = recorded_ids(version)["threads"]
    found = by_id(adapter, home_of(version))

    assert set(found) == {thread["id"] for thread in threads.values()} == adapter.present(home_of(version))
    source = found[threads["source"]["id"]]
    child = found[threads["child (fork at source turn 2)"]["id"]]
    grandchild = found[threads["grandchild (fork of child at inherited turn 1)"]["id"]]
    assert source.observed_parent_id == ""
    assert child.observed_parent_id == source.ref.provider_session_id
    assert grandchild.observed_parent_id == child.ref.provider_session_id
    assert {session.preview for session in found.values()} == {"First prompt: remember APPLE"}
    assert {session.ref.cwd for session in found.values()} == {"/home/dev/project"}
    assert {session.provider_version for session in found.values()} == {version.partition("-")[0]}
    assert source.created_at_ms == unix_ms(
        "2026-12-01T00:43:20.974Z" if version == PAGINATED else "2026-12-01T00:43:25.398Z"
    )


def test_a_sub_agent_names_its_parent_and_the_call_that_started_it(adapter: CodexAdapter) -> None:
    found = by_id(adapter, home_of(RICH))
    parent = recorded_ids(RICH)["thread"]
    [agent] = [session for session in found.values() if session.parent_provider_session_id]

    assert (agent.parent_provider_session_id, agent.parent_tool_call_id) == (parent, "call_6")
    assert agent.observed_parent_id == ""
    assert found[parent].title == "Rich session"


def test_segments_of_one_thread_are_one_session_with_its_newest_file(adapter: CodexAdapter) -> None:
    ids = recorded_ids(REVERTED)
    found = by_id(adapter, home_of(REVERTED))

    assert set(found) == {ids["thread"], ids["child"]}
    path = found[ids["thread"]].ref.path
    assert path is not None
    assert parse_name(path.name) is not None
    assert "_" in path.name
    assert found[ids["child"]].fork_operation_id == "00000000-0000-4000-8000-000000000001"


def test_only_changed_files_are_opened_and_the_newest_comes_first(
    adapter: CodexAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = recorded_home(LEGACY, tmp_path)
    known = {session.ref.provider_session_id: session.stamp for session in adapter.discover(home, {})}
    assert list(adapter.discover(home, known)) == []

    threads = recorded_ids(LEGACY)["threads"]
    changed = [threads[role] for role in ("source", "second child at the same point")]
    for age, thread in enumerate(changed):
        with (home.path / thread["rollout"]).open("ab") as file:
            file.write(b"\n")
        os.utime(home.path / thread["rollout"], (2_000_000_000 - age, 2_000_000_000 - age))
    opened: list[str] = []
    read_meta = discovery.read_meta
    monkeypatch.setattr(discovery, "read_meta", lambda path: opened.append(path.name) or read_meta(path))
    found = [session.ref.provider_session_id for session in adapter.discover(home, known)]

    assert found == [thread["id"] for thread in changed]
    assert len(opened) == 2


def test_a_new_title_changes_the_stamp_and_the_last_one_counts(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(LEGACY, tmp_path)
    source = recorded_ids(LEGACY)["threads"]["source"]["id"]
    known = {session.ref.provider_session_id: session.stamp for session in adapter.discover(home, {})}
    rows = [{"id": source, "thread_name": "Old"}, {"id": source, "thread_name": "New"}]
    index = b"\n".join([*(json.dumps(row).encode() for row in rows), b"\xff{torn", b'["odd"]'])
    (home.path / "session_index.jsonl").write_bytes(index)

    [found] = adapter.discover(home, known)
    assert (found.ref.provider_session_id, found.title) == (source, "New")


def test_archived_threads_say_so_and_cannot_be_forked(
    adapter: CodexAdapter, home: HomeRef, mock: MockResponses, project: Path
) -> None:
    thread = run_thread(home.path, project, ["to be archived"])
    with running_codex(home.path) as codex:
        codex.archive(thread)
    found = by_id(adapter, home)[thread.id]

    assert found.extra["archived"] is True
    ref = SessionRef(home, thread.id, thread.path, str(project))
    assert turn_ids(adapter.read(ref, None, None)) == thread.turns
    with pytest.raises(Rejected) as refused:
        adapter.fork(request_for(adapter, home, thread, project, 1), Reporter())
    assert refused.value.code == "source_archived"


def test_odd_files_are_no_sessions(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(LEGACY, tmp_path)
    before = adapter.present(home)
    folder = home.path / "sessions" / "2026" / "12" / "01"
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / "rollout-2026-12-01T00-00-00-not-an-id.jsonl").write_text("{}\n")
    (folder / f"rollout-2026-12-01T00-00-00-{uuid.uuid4()}.jsonl").mkdir()
    (folder / f"rollout-2026-12-01T00-00-01-{uuid.uuid4()}.jsonl").symlink_to("/nowhere")
    (home.path / "sessions" / "loop").symlink_to(home.path / "sessions")

    assert adapter.present(home) == before
    assert set(by_id(adapter, home)) == before


def test_a_file_whose_first_line_names_another_thread_is_no_session(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(LEGACY, tmp_path)
    source = home.path / recorded_ids(LEGACY)["threads"]["source"]["rollout"]
    other = source.with_name(f"rollout-2026-12-01T00-43-25-{uuid.uuid4()}.jsonl")
    other.write_bytes(source.read_bytes())
    assert len(by_id(adapter, home)) == 5


def test_ten_thousand_unchanged_files_are_looked_over_quickly(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(LEGACY, tmp_path)
    for day in range(10):
        folder = home.path / "sessions" / "2026" / "11" / f"{day + 1:02}"
        folder.mkdir(parents=True)
        for _ in range(1000):
            (folder / f"rollout-2026-11-01T00-00-00-{uuid.uuid4()}.jsonl").touch()
    known = {session.ref.provider_session_id: session.stamp for session in adapter.discover(home, {})}
    torn = {thread_id: stamp for thread_id, stamp in _stamps(home).items() if thread_id not in known}
    began = time.process_time()
    assert list(adapter.discover(home, {**known, **torn})) == []
    assert time.process_time() - began < 2


def _stamps(home: HomeRef) -> dict[str, str]:
    return {thread_id: file.stamp for thread_id, file in current_files(home.path).items()}


def test_a_home_that_is_gone_is_unreadable(adapter: CodexAdapter, tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as refused:
        list(adapter.discover(HomeRef("codex", tmp_path / "gone"), {}))
    assert refused.value.code == "home_missing"


def test_the_default_home_is_the_one_codex_itself_would_use(adapter: CodexAdapter, tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / "other").mkdir()
    assert adapter.default_home({"HOME": str(tmp_path)}) == HomeRef("codex", tmp_path / ".codex")
    named = adapter.default_home({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "other")})
    assert named == HomeRef("codex", tmp_path / "other")
    assert adapter.default_home({"HOME": str(tmp_path / "other")}) is None
    assert adapter.default_home({}) is None


def test_the_command_to_go_on_is_quoted_and_names_a_home_that_is_not_the_default(
    adapter: CodexAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = SessionRef(HomeRef("codex", tmp_path / ".codex"), "01a2", None, "/my project/it's")
    other = SessionRef(HomeRef("codex", tmp_path / "a b"), "01a2", None, "")
    assert adapter.resume_command(own) == """cd '/my project/it'"'"'s' && codex resume 01a2"""
    assert adapter.resume_command(other) == f"CODEX_HOME='{tmp_path}/a b' codex resume 01a2"


def test_a_marker_gives_its_operation_back_and_nothing_else_does() -> None:
    assert operation_id(f"{MARKER_PREFIX}5f1c8a52") == "5f1c8a52"
    assert operation_id("forkop:5f1c8a52") == operation_id("") == ""


def test_the_time_in_an_id_is_read_from_version_seven_only() -> None:
    assert uuid7_ms("01a22f0e-600b-7e01-a2fe-aa35afebbace") == unix_ms("2026-12-01T00:43:20.971Z")
    assert uuid7_ms(str(uuid.uuid4())) == uuid7_ms("x") == 0
