"""What a child must be to be accepted or adopted, tried on children the real SDK made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sessions.providers.base import ForkRequest, HomeRef, MatchStrength, Rejected, Unreadable
from sessions.providers.claude.adapter import ClaudeAdapter
from tests.claude.support import PROJECT_KEY, place, read, ref_of, request_for, session_id, turns_of

MADE_MS = 1796085647000


def transcript(config: Path, name: str) -> Path:
    return config / "projects" / PROJECT_KEY / f"{session_id(name)}.jsonl"


def asked(config: Path, source: str, number: int, mark: str) -> ForkRequest:
    """The request that made a recorded child."""
    ref = ref_of(config, session_id(source))
    return replace(request_for(ref, turns_of(read(ref)), number), marker=mark)


def changed(path: Path, place_in_file: int, change: Callable[[dict[str, Any]], None]) -> None:
    lines = path.read_bytes().split(b"\n")
    row = json.loads(lines[place_in_file])
    change(row)
    lines[place_in_file] = json.dumps(row).encode()
    path.write_bytes(b"\n".join(lines))


def test_an_untouched_child_is_proven_and_every_turn_mapped(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source", "child")
    accepted = adapter.verify(asked(config, "source", 2, "fork-op:7f3a"), session_id("child"))
    child = turns_of(read(ref_of(config, session_id("child"))))
    assert [entry.target for entry in accepted.mapping] == [turn.binding for turn in child]
    assert accepted.receipt["inheritedRows"] == 17
    assert accepted.receipt["permissionMode"] == "default"


def test_a_child_that_went_on_meanwhile_is_still_proven(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source", "child_continued")
    accepted = adapter.verify(asked(config, "source", 2, "fork-op:7f3b"), session_id("child_continued"))
    assert len(accepted.mapping) == 2


def test_a_fork_of_a_fork_is_proven_against_its_own_source(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "child_continued", "grandchild")
    accepted = adapter.verify(asked(config, "child_continued", 3, "fork-op:7f3c"), session_id("grandchild"))
    assert len(accepted.mapping) == 3


@pytest.mark.parametrize(
    ("source", "number", "child", "mark", "why"),
    [
        ("source", 2, "child_torn", "fork-op:7f3a", "differs from the source"),
        ("compacted", 4, "compacted_child", "fork-op:7f3d", "kept by a compaction"),
        ("u2028", 3, "u2028_child_broken", "fork-op:7f3e", "does not name row 1"),
        ("source", 1, "child", "fork-op:7f3a", "goes beyond the chosen turn"),
        ("source", 3, "child", "fork-op:7f3a", "row 17 differs from the source"),
        ("source", 2, "child", "fork-op:other", "mark of another fork"),
        ("tools", 2, "child", "fork-op:7f3a", "does not name row 1"),
        ("source", 2, "cli_fork_child", "fork-op:7f3a", "ends before the chosen turn"),
        ("source", 2, "source", "fork-op:7f3a", "not one of a child"),
    ],
)
def test_anything_else_is_refused_with_the_reason(
    config: Path, adapter: ClaudeAdapter, source: str, number: int, child: str, mark: str, why: str
) -> None:
    place(config, source, child)
    with pytest.raises(Rejected, match=why) as refused:
        adapter.verify(asked(config, source, number, mark), session_id(child))
    assert refused.value.code == "wrong_child"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda row: row.update(sessionId="x"), "belongs to another session"),
        (lambda row: row["message"].update(content="Something else."), "differs from the source"),
        (lambda row: row.update(permissionMode="bypassPermissions"), "differs from the source"),
        (lambda row: row.update(parentUuid=None), "hangs on another row"),
        (lambda row: row["forkedFrom"].update(messageUuid="x"), "does not name row 11"),
    ],
)
def test_one_changed_row_is_enough(
    config: Path, adapter: ClaudeAdapter, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    place(config, "source", "child")
    request = asked(config, "source", 2, "fork-op:7f3a")
    changed(transcript(config, "child"), 10, change)
    with pytest.raises(Rejected, match=why):
        adapter.verify(request, session_id("child"))


def test_a_child_without_its_last_row_is_not_whole(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source", "child")
    request = asked(config, "source", 2, "fork-op:7f3a")
    path = transcript(config, "child")
    lines = [line + b"\n" for line in path.read_bytes().split(b"\n") if line]
    for kept, why in ((lines[:-1], "not written whole"), (lines[:-3], "ends before the chosen turn")):
        path.write_bytes(b"".join(kept))
        with pytest.raises(Rejected, match=why):
            adapter.verify(request, session_id("child"))
    path.write_bytes(b"".join(lines)[:-1])
    with pytest.raises(Rejected, match="not written whole"):
        adapter.verify(request, session_id("child"))


def test_files_of_the_source_that_the_child_needs_are_named(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source", "child")
    kept = "<persisted-output>\nOutput too large (1MB). Full output saved to: /home/dev/s/tool-results/a1.txt\n"
    for name in ("source", "child"):
        path = transcript(config, name)
        path.write_bytes(path.read_bytes().replace(b"Let me run that.", json.dumps(kept)[1:-1].encode()))
    accepted = adapter.verify(asked(config, "source", 2, "fork-op:7f3a"), session_id("child"))
    assert accepted.receipt["dependsOnSourceFiles"] == ["/home/dev/s/tool-results/a1.txt"]


def test_a_child_that_is_not_there_is_missing_not_wrong(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source")
    with pytest.raises(Unreadable) as error:
        adapter.verify(asked(config, "source", 2, "fork-op:7f3a"), session_id("child"))
    assert error.value.code == "child_missing"


def test_the_same_home_verifies_and_another_one_is_refused(
    config: Path, tmp_path: Path, adapter: ClaudeAdapter
) -> None:
    place(config, "source", "child")
    request = asked(config, "source", 2, "fork-op:7f3a")
    accepted = adapter.verify(request, session_id("child"))
    assert adapter.bind(request, accepted, HomeRef("claude", config))["method"] == "same_home"
    with pytest.raises(Rejected) as refused:
        adapter.bind(request, accepted, HomeRef("claude", tmp_path / "other"))
    assert refused.value.code == "bind_unsupported"


# --------------------------------------------------------------------------------------------------------------------
# Looking for the child of a lost call


def test_the_marked_child_is_exact_and_its_sister_at_the_same_point_is_likely(
    config: Path, adapter: ClaudeAdapter
) -> None:
    place(config, "source", "child", "child_continued", "grandchild", "tools", "cli_fork_child")
    seen = adapter.find_children(asked(config, "source", 2, "fork-op:7f3a"), MADE_MS, "")
    assert [(each.provider_session_id, each.strength, each.complete) for each in seen.candidates] == [
        (session_id("child"), MatchStrength.EXACT, True),
        (session_id("child_continued"), MatchStrength.LIKELY, True),
    ]
    assert seen.absence_proves


def test_the_announced_child_is_exact_even_when_its_mark_is_lost_and_incomplete_when_torn(
    config: Path, adapter: ClaudeAdapter
) -> None:
    place(config, "source", "child_torn", "child")
    request = asked(config, "source", 2, "fork-op:nobody")
    (whole, *_) = adapter.find_children(request, MADE_MS, session_id("child")).candidates
    assert (whole.provider_session_id, whole.strength, whole.complete) == (
        session_id("child"),
        MatchStrength.EXACT,
        True,
    )
    torn = [
        each
        for each in adapter.find_children(request, MADE_MS, session_id("child_torn")).candidates
        if each.provider_session_id == session_id("child_torn")
    ]
    assert [(each.strength, each.complete) for each in torn] == [(MatchStrength.EXACT, False)]


def test_children_of_other_points_of_earlier_times_and_of_other_operations_are_left_out(
    config: Path, adapter: ClaudeAdapter
) -> None:
    place(config, "source", "child", "child_continued")
    at_other = adapter.find_children(asked(config, "source", 1, "fork-op:nobody"), MADE_MS, "")
    later = adapter.find_children(asked(config, "source", 2, "fork-op:nobody"), MADE_MS + 3_600_000, "")
    assert (list(at_other.candidates), list(later.candidates)) == ([], [])
    path = transcript(config, "child")
    path.write_bytes(path.read_bytes().replace(b"fork-op:7f3a", b"forkhost:00000000-0000-4000-8000-000000000009"))
    seen = adapter.find_children(asked(config, "source", 2, "fork-op:nobody"), MADE_MS, "")
    assert [each.provider_session_id for each in seen.candidates] == [session_id("child_continued")]


def test_without_the_folder_nothing_is_claimed(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source")
    request = asked(config, "source", 2, "fork-op:7f3a")
    transcript(config, "source").unlink()
    transcript(config, "source").parent.rmdir()
    with pytest.raises(Unreadable):
        adapter.find_children(request, MADE_MS, "")


# --------------------------------------------------------------------------------------------------------------------
# The source before the call


def test_every_turn_of_every_recording_is_confirmed_with_its_whole_prefix(config: Path, adapter: ClaudeAdapter) -> None:
    names = ("source", "tools", "interrupted", "rewind", "compacted", "u2028", "child_continued", "cli_fork_child")
    place(config, *names)
    confirmed = 0
    for name in names:
        ref = ref_of(config, session_id(name))
        turns = turns_of(read(ref))
        for number in range(1, len(turns) + 1):
            adapter.confirm_turn(replace(request_for(ref, turns, number), require_prefix=True))
            confirmed += 1
    assert confirmed == 27


def test_a_turn_that_is_gone_is_refused(config: Path, adapter: ClaudeAdapter) -> None:
    place(config, "source", "tools")
    request = asked(config, "source", 2, "m")
    other = asked(config, "tools", 2, "m")
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(replace(request, turn=other.turn))
    assert refused.value.code == "turn_missing"
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(replace(request, prefix=other.prefix, require_prefix=True))
    assert refused.value.code == "prefix_missing"


def test_a_cut_between_rows_of_two_branches_is_refused(config: Path, adapter: ClaudeAdapter) -> None:
    """The agent would continue the branch whose last message stands later in the file."""
    place(config, "source")
    request = asked(config, "source", 1, "m")
    path = transcript(config, "source")
    lines = path.read_bytes().split(b"\n")
    answer, checkpoint = json.loads(lines[14]), json.loads(lines[15])
    assert checkpoint["uuid"] == request.turn.binding.data["checkpoint"]
    stray = {**answer, "uuid": "10000000-0000-4000-8000-000000000001"}
    lines.insert(15, json.dumps(stray).encode())
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(request)
    assert refused.value.code == "turn_missing"
