"""Whatever a transcript holds arrives as it is or as a note, on both databases; the agents' files are never touched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sessions import history
from sessions.choices import SyncState
from sessions.models import Home
from sessions.providers.base import EventKind, Json, ReadDamage, ReadEvent, ReadTitle, ReadTurnStart, TurnBinding
from tests.importing.conftest import RECORDINGS, Desk, only_session, put_claude, put_codex, sessions_of, shown
from tests.importing.told import START_MS, Told, ToldAdapter, turn

HOSTILE = "half \ud83d, NUL \x00, right \u202eto left\u202c, \U0001f600, 汉字, e\u0301, line\u2028break, <script>"


def test_hostile_text_is_kept_in_payloads_and_made_plain_in_columns(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    said = ReadEvent(EventKind.MESSAGE_ASSISTANT, START_MS, {"text": HOSTILE, HOSTILE: [HOSTILE, 10**40, 1.5, None]})
    start, *rest = turn(1, prompt=HOSTILE)
    one = Told("s", [start, said, *rest, ReadTitle(HOSTILE)], facts={"title": HOSTILE, "preview": HOSTILE})
    one.facts |= {"model": HOSTILE, "settings": {"name": HOSTILE}, "extra": {"name": HOSTILE}}
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert session.sync.state == SyncState.IMPORTED
    assert history.events(session)[1].payload == said.payload
    assert session.title == HOSTILE.replace("\ud83d", "\ufffd").replace("\x00", "\ufffd")
    assert history.turns(session)[0].prompt == session.title
    one.rewrite(one.items)
    desk.bring_in(told_home)
    assert only_session(told_home).history_revision == 0


@pytest.mark.parametrize(
    "item",
    [
        ReadEvent(EventKind.INTERACTION_ANSWERED, START_MS, {"interactionId": "never asked", "kind": "question"}),
        ReadEvent(EventKind.INTERACTION_ASKED, START_MS, {"kind": "question"}),
        ReadEvent(EventKind.NOTE, START_MS, {"text": "not a number", "value": float("nan")}),
    ],
)
def test_what_cannot_stand_in_a_history_becomes_a_note_and_is_recognised_again(
    desk: Desk, told: ToldAdapter, told_home: Home, item: ReadEvent
) -> None:
    start, *rest = turn(1)
    one = Told("s", [start, item, *rest])
    sessions_of(told, told_home).append(one)
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert history.events(session)[1].kind == EventKind.NOTE
    before = shown(session)
    one.rewrite([*one.items, *turn(2)])
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert (session.history_revision, session.turn_count) == (0, 2)
    assert shown(session)[: len(before)] == before


def test_two_turns_that_claim_one_id_leave_the_first_bound(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    again = ReadTurnStart(START_MS + 5, TurnBinding("t1"), "again", "model")
    sessions_of(told, told_home).append(Told("s", [*turn(1), again, ReadDamage(9, "cut"), *turn(3)]))
    desk.bring_in(told_home)
    states = [(each.prompt, each.binding_state) for each in history.turns(only_session(told_home))]
    assert states == [("prompt 1", "bound"), ("again", "recovery_required"), ("prompt 3", "bound")]


def test_an_end_without_a_turn_ends_nothing(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).append(Told("s", [*turn(1), turn(1)[-1], *turn(2)]))
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert (session.sync.state, session.turn_count) == (SyncState.IMPORTED, 2)


def digests(folder: Path) -> Json:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_importing_changes_no_file_of_an_agent(desk: Desk) -> None:
    expected = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
    homes = [
        put_codex(desk, "0.163.0-rich"),
        put_claude(desk, tools=expected["tools"]["session_id"], child_torn=expected["child_torn"]["session_id"]),
    ]
    before = [digests(Path(home.path)) for home in homes]
    for home in homes:
        desk.bring_in(home)
    assert [digests(Path(home.path)) for home in homes] == before
    assert all(before)
