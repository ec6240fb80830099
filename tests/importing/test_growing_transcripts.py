"""A transcript that grows while it is read ends up exactly as if it had been read once at its end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessions import history
from sessions.choices import TurnPhase
from sessions.models import Home, Session
from tests.claude.support import at_work
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, put_codex, shown

CLAUDE = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
PAGINATED = "0.171.0"
SOURCE = json.loads((RECORDINGS / "codex" / PAGINATED / "ids.json").read_text())["threads"]["source"]


def write(path: Path, content: bytes, step: int) -> None:
    """Replace the file by a longer one, as appending to it would."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    os.utime(path, ns=(step * 10**9, step * 10**9))


def grow(desk: Desk, home: Home, path: Path, whole: bytes, cuts: list[int]) -> Session:
    for step, cut in enumerate(cuts, start=1):
        write(path, whole[:cut], step)
        desk.bring_in(home)
    return only_session(home)


def at_once(desk: Desk, home: Home) -> Session:
    """The same transcript in a home of its own, read once."""
    desk.bring_in(home)
    return only_session(home)


def line_ends(whole: bytes) -> list[int]:
    return [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]


def test_codex_line_by_line_and_torn_in_between(desk: Desk) -> None:
    home = put_codex(desk, PAGINATED)
    path = Path(home.path) / SOURCE["rollout"]
    for other in path.parent.iterdir():
        if other != path:
            other.unlink()
    whole = path.read_bytes()
    ends = line_ends(whole)
    grown = grow(desk, home, path, whole, [cut for end in ends[2:] for cut in (end - 7, end)])
    elsewhere = desk.home("codex", desk.folder / "once")
    target = Path(elsewhere.path) / SOURCE["rollout"]
    target.parent.mkdir(parents=True)
    target.write_bytes(whole)
    once = at_once(desk, elsewhere)
    assert shown(grown) == shown(once)
    assert grown.history_revision == 0
    assert [turn.binding for turn in history.turns(grown)] == [turn.binding for turn in history.turns(once)]
    assert grown.sync.damage == []


@pytest.mark.parametrize("recording", ["source", "tools", "interrupted", "compacted"])
def test_claude_some_lines_at_a_time_while_its_process_lives(desk: Desk, recording: str) -> None:
    session_id = CLAUDE[recording]["session_id"]
    whole = (RECORDINGS / "claude" / f"{recording}.jsonl").read_bytes()
    home = put_claude(desk, **{recording: session_id})
    path = next(Path(home.path).glob(f"projects/*/{session_id}.jsonl"))
    owner = at_work(Path(home.path), session_id)
    grow(desk, home, path, whole, [*line_ends(whole)[::3], len(whole)])
    owner.unlink()
    desk.bring_in(home)
    grown = only_session(home)
    assert [turn.binding.data["checkpoint"] for turn in history.turns(grown) if turn.binding] == [
        turn["checkpoint"] for turn in CLAUDE[recording]["turns"]
    ]
    assert all(turn.phase == TurnPhase.SETTLED for turn in history.turns(grown))
    assert grown.history_revision == 0


def test_a_turn_is_shown_while_it_runs_and_settles_in_place(desk: Desk) -> None:
    home = put_codex(desk, PAGINATED)
    path = Path(home.path) / SOURCE["rollout"]
    for other in path.parent.iterdir():
        if other != path:
            other.unlink()
    whole = path.read_bytes()
    first_end = whole.index(b'"task_complete"')
    running = whole[: whole.rindex(b"\n", 0, first_end) + 1]
    write(path, running, 1)
    desk.bring_in(home)
    session = only_session(home)
    (turn,) = history.turns(session)
    assert (turn.phase, session.activity) == (TurnPhase.OPEN, "running")
    write(path, whole[: whole.index(b"\n", first_end) + 1], 2)
    desk.bring_in(home)
    session = only_session(home)
    (settled,) = history.turns(session)
    assert (settled.id, settled.phase, settled.outcome) == (turn.id, TurnPhase.SETTLED, "completed")
    assert session.activity == "idle"
