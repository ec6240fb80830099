"""Reading again, from wherever, never doubles anything, and takes back only what the provider took back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sessions import history, store
from sessions.choices import SyncState, TurnPhase
from sessions.models import Home, Session, SessionSync
from sessions.providers.base import EventKind, ReadBinding, ReadEvent, TurnBinding
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, sessions_of, shown, texts
from tests.importing.told import START_MS, Told, ToldAdapter, turn

CLAUDE = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())


def retry_now() -> None:
    SessionSync.objects.update(next_run_at=SessionSync.objects.values("session__home__created_at")[:1])


def test_a_stream_that_starts_over_with_the_same_history_writes_nothing(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    one = Told("s", [*turn(1), *turn(2), *turn(3)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    before = shown(only_session(told_home))
    one.rewrite(one.items)
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert told.reads == ["s", "s"]
    assert shown(session) == before
    assert (session.history_revision, session.sync.state) == (0, SyncState.IMPORTED)


def test_a_stream_that_starts_over_goes_on_behind_what_is_known(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", [*turn(1), *turn(2)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    one.rewrite([*one.items, *turn(3)])
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert [t.prompt for t in history.turns(session)] == ["prompt 1", "prompt 2", "prompt 3"]
    assert session.history_revision == 0


def test_a_reader_that_died_between_two_cursors_doubles_nothing(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    answers = [f"answer {number}" for number in range(1250)]
    one = Told("s", [*turn(1), *turn(2, *answers)], cursor_every=10_000, stops_after=1230)
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert session.sync.state == SyncState.FAILED
    assert session.sync.problem_code == "import_failed"
    assert 0 < session.last_seq < 1230
    assert session.sync.cursor is None
    one.stops_after = None
    retry_now()
    desk.read_all()
    session = only_session(told_home)
    assert texts(session) == ["prompt 1", "answer 1", "prompt 2", *answers]
    assert (session.sync.state, session.sync.problem_code, session.history_revision) == (SyncState.IMPORTED, "", 0)


def test_a_rewind_outside_takes_back_what_is_gone_and_leaves_earlier_forks_alone(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    one = Told("s", [*turn(1), *turn(2), *turn(3)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    source = only_session(told_home)
    fork = store.fork(source.pk)
    kept = shown(fork)
    one.rewrite([*turn(1), *turn(20), *turn(21)])
    desk.read_all()
    desk.bring_in(told_home)
    session = Session.objects.select_related("sync").get(pk=source.pk)
    assert [t.prompt for t in history.turns(session)] == ["prompt 1", "prompt 20", "prompt 21"]
    assert [t.binding.provider_turn_id for t in history.turns(session) if t.binding] == ["t1", "t20", "t21"]
    assert session.history_revision == 1
    assert session.last_seq == len(history.events(session, limit=1000))
    assert shown(Session.objects.get(pk=fork.pk)) == kept


def test_a_history_that_became_shorter_outside_is_shortened(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", [*turn(1), *turn(2), *turn(3)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    one.rewrite(turn(1))
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert [t.prompt for t in history.turns(session)] == ["prompt 1"]
    assert session.turn_count == 1
    one.grow(*turn(4))
    desk.bring_in(told_home)
    assert [t.prompt for t in history.turns(only_session(told_home))] == ["prompt 1", "prompt 4"]


def test_a_divergence_inside_a_turn_takes_the_whole_turn_back(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", [*turn(1), *turn(2, "a", "b", "c")])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    one.rewrite([*turn(1), *turn(2, "a", "other")])
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert texts(session) == ["prompt 1", "answer 1", "prompt 2", "a", "other"]
    assert len({event.log_id for event in history.events(session, after=history.turns(session)[0].last_seq or 0)}) == 1


def test_a_settled_turn_stays_settled_when_its_proof_is_gone(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    one.rewrite(turn(1, ended=False))
    desk.bring_in(told_home)
    session = only_session(told_home)
    (settled,) = history.turns(session)
    assert (settled.phase, settled.outcome, session.history_revision) == (TurnPhase.SETTLED, "completed", 0)


def test_the_recorded_rewind_of_claude_leaves_the_branch_that_was_kept(desk: Desk) -> None:
    session_id = CLAUDE["rewind"]["session_id"]
    whole = (RECORDINGS / "claude" / "rewind.jsonl").read_bytes()
    home = put_claude(desk, rewind=session_id)
    path = next(Path(home.path).glob(f"projects/*/{session_id}.jsonl"))
    abandoned = whole.index(b"Second attempt")
    path.write_bytes(whole[: whole.rindex(b"\n", 0, abandoned) + 1])
    desk.bring_in(home)
    before = only_session(home)
    assert history.turns(before)[0].prompt.startswith("Start.")
    assert before.turn_count == 3
    path.write_bytes(whole)
    desk.bring_in(home)
    after = only_session(home)
    assert after.history_revision == 1
    assert [t.binding.data["checkpoint"] for t in history.turns(after) if t.binding] == [
        each["checkpoint"] for each in CLAUDE["rewind"]["turns"]
    ]
    shutil.rmtree(path.parent)
    elsewhere = desk.folder / "again"
    (elsewhere / "projects" / "p").mkdir(parents=True)
    (elsewhere / "projects" / "p" / path.name).write_bytes(whole)
    once = desk.home("claude", elsewhere)
    desk.bring_in(once)
    assert shown(after) == shown(only_session(once))


@pytest.mark.parametrize("between", [False, True])
def test_a_binding_moves_forward_until_the_next_turn_starts(
    desk: Desk, told: ToldAdapter, told_home: Home, between: bool
) -> None:
    one = Told("s", turn(1))
    sessions_of(told, told_home).append(one)
    if between:
        desk.bring_in(told_home)
    one.grow(ReadBinding(TurnBinding("t1", {"row": 17})), *turn(2))
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert [t.binding.data for t in history.turns(session) if t.binding] == [{"row": 17}, {"row": 2}]


def test_a_turn_that_starts_while_another_is_open_interrupts_it(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    one = Told("s", [*turn(1, ended=False), *turn(2)])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    one.rewrite([*one.items, ReadEvent(EventKind.CONTEXT, START_MS + 9000, {"text": "later"})])
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert [(t.prompt, t.outcome) for t in history.turns(session)] == [
        ("prompt 1", "interrupted"),
        ("prompt 2", "completed"),
    ]
    assert texts(session)[-1] == "later"
    assert session.history_revision == 0
