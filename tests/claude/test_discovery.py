"""Sessions are found by a quick look at heads and tails, and a session nobody touched is not opened again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from sessions.providers.base import DiscoveredSession, HomeRef, Unreadable
from sessions.providers.claude import discovery
from sessions.providers.claude.adapter import ClaudeAdapter
from tests.claude.support import OPERATION, PROJECT_KEY, at_work, place, session_id


def found_in(config: Path, known: dict[str, str] | None = None) -> dict[str, DiscoveredSession]:
    sessions = ClaudeAdapter().discover(HomeRef("claude", config), known or {})
    return {each.ref.provider_session_id: each for each in sessions}


def transcript(config: Path, name: str) -> Path:
    return config / "projects" / PROJECT_KEY / f"{session_id(name)}.jsonl"


def test_a_session_says_where_it_ran_what_it_is_about_and_with_what(config: Path) -> None:
    place(config, "source")
    session = found_in(config)[session_id("source")]
    assert session.ref.cwd == "/home/dev/project"
    assert session.preview == "Name a colour. [[say:Blue.]]"
    assert (session.provider_version, session.model) == ("2.1.332", "claude-sonnet-4-5")
    assert session.settings == {"permissionMode": "default"}
    assert session.created_at_ms == 1796085647515
    assert (session.observed_parent_id, session.fork_operation_id, session.title) == ("", "", "")


def test_the_newest_comes_first_and_known_stamps_are_left_out(config: Path) -> None:
    place(config, "source", "tools")
    os.utime(transcript(config, "source"), ns=(1, 2_000_000_000))
    os.utime(transcript(config, "tools"), ns=(1, 1_000_000_000))
    every = found_in(config)
    assert list(every) == [session_id("source"), session_id("tools")]
    known = {identity: session.stamp for identity, session in every.items()}
    assert found_in(config, known) == {}
    with transcript(config, "tools").open("ab") as file:
        file.write(b'{"type":"mode","mode":"normal"}\n')
    assert list(found_in(config, known)) == [session_id("tools")]


def test_a_known_session_is_not_even_opened(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(config, "source")
    known = {identity: session.stamp for identity, session in found_in(config).items()}

    def refuse(*_: object) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr(discovery, "_look", refuse)
    assert found_in(config, known) == {}


def test_the_stamp_tells_an_agent_at_work_from_one_just_idle_and_one_at_rest(config: Path) -> None:
    place(config, "source")
    identity = session_id("source")
    quiet = found_in(config)[identity].stamp
    at_work(config, identity, "busy")
    busy = found_in(config)[identity].stamp
    at_work(config, identity, "idle", int(time.time() * 1000))
    just_idle = found_in(config)[identity].stamp
    at_work(config, identity, "idle", int(time.time() * 1000) - 60_000)
    assert len({quiet, busy, just_idle}) == 3
    assert found_in(config)[identity].stamp == quiet


def test_an_empty_file_is_no_session_and_a_torn_one_is_listed_as_torn(config: Path) -> None:
    place(config, "child_torn", "source")
    transcript(config, "tools").write_bytes(b"")
    every = found_in(config)
    assert (
        set(every)
        == {session_id("child_torn"), session_id("source")}
        == ClaudeAdapter().present(HomeRef("claude", config))
    )
    assert every[session_id("child_torn")].extra == {"torn": True}
    assert every[session_id("source")].extra == {}


def test_files_with_other_names_are_no_sessions(config: Path) -> None:
    place(config, "source")
    content = transcript(config, "source").read_bytes()
    for name in ("agent-a12c7159.jsonl", "notes.jsonl", f"{session_id('tools')}.jsonl.bak"):
        (transcript(config, "source").parent / name).write_bytes(content)
    assert list(found_in(config)) == [session_id("source")]


def test_a_half_written_row_of_a_running_agent_is_not_torn(config: Path) -> None:
    place(config, "child_torn")
    at_work(config, session_id("child_torn"))
    assert found_in(config)[session_id("child_torn")].extra == {}


def test_a_fork_names_the_session_it_was_made_from(config: Path) -> None:
    place(config, "child_continued", "grandchild", "cli_fork_child")
    every = found_in(config)
    assert every[session_id("child_continued")].observed_parent_id == session_id("source")
    assert every[session_id("child_continued")].title == "fork-op:7f3b"
    assert every[session_id("grandchild")].observed_parent_id == session_id("child_continued")
    assert every[session_id("cli_fork_child")].observed_parent_id == ""


def test_our_mark_is_found_behind_a_long_inherited_part_and_is_never_shown_as_title(config: Path) -> None:
    place(config, "child_continued")
    path = transcript(config, "child_continued")
    filler = json.dumps({"type": "mode", "mode": "x" * 1000}).encode() + b"\n"
    head, mark, rest = path.read_bytes().partition(b'{"type":"custom-title"')
    marked = head + filler * 200 + mark + rest.replace(b"fork-op:7f3b", f"forkhost:{OPERATION}".encode()) + filler * 200
    path.write_bytes(marked)
    session = found_in(config)[session_id("child_continued")]
    assert session.fork_operation_id == OPERATION
    assert session.title == ""


def test_a_fork_of_our_fork_by_the_agent_itself_is_no_twin(config: Path) -> None:
    """It repeats the title, but in a row without a uuid."""
    place(config, "child")
    path = transcript(config, "child")
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    for row in rows:
        if row["type"] == "custom-title":
            row["customTitle"] = f"forkhost:{OPERATION}"
            del row["uuid"]
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    assert found_in(config)[session_id("child")].fork_operation_id == ""


def test_a_first_row_of_megabytes_still_gives_the_folder(config: Path) -> None:
    place(config, "source")
    path = transcript(config, "source")
    rows = path.read_bytes().split(b"\n")
    prompt = json.loads(rows[2])
    prompt["message"]["content"] = "Long. " + "x" * 3_000_000
    path.write_bytes(b"\n".join([json.dumps(prompt).encode(), *rows[3:]]))
    session = found_in(config)[session_id("source")]
    assert session.ref.cwd == "/home/dev/project"
    assert session.preview.startswith("Long. xxx")
    assert len(session.preview) == 200


def test_a_session_in_an_isolated_worktree_says_so(config: Path) -> None:
    place(config, "source")
    path = transcript(config, "source")
    path.write_bytes(path.read_bytes().replace(b"/home/dev/project", b"/home/dev/project/.claude/worktrees/try"))
    assert found_in(config)[session_id("source")].worktree_isolated


def test_a_home_that_is_gone_is_an_error_and_an_empty_one_is_not(config: Path) -> None:
    assert found_in(config) == {}
    with pytest.raises(Unreadable) as gone:
        found_in(config / "gone")
    assert gone.value.code == "home_missing"


def test_the_home_is_the_one_the_agent_itself_would_use(tmp_path: Path, adapter: ClaudeAdapter) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / "other").mkdir()
    assert adapter.default_home({"HOME": str(tmp_path)}) == HomeRef("claude", tmp_path / ".claude")
    other = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "other")}
    assert adapter.default_home(other) == HomeRef("claude", tmp_path / "other")
    assert adapter.default_home({"HOME": str(tmp_path / "nobody")}) is None
    assert adapter.default_home({}) is None
