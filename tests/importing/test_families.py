"""Forks made outside are tied to the session they came from, whatever the order in which they are found."""

from __future__ import annotations

import json

import pytest

from sessions import families, history, titles
from sessions.choices import SessionKind
from sessions.models import Family, Home, Session
from sessions.providers.base import EventKind, ReadEvent
from tests.importing.conftest import RECORDINGS, Desk, put_claude, put_codex, sessions_of
from tests.importing.told import START_MS, Told, ToldAdapter, turn


def fork_of(parent: str, name: str, at: int) -> Told:
    return Told(name, turn(1), updated_at_ms=START_MS + at, facts={"observed_parent_id": parent})


def by_name(home: Home) -> dict[str, Session]:
    return {str(session.provider_session_id): session for session in Session.objects.filter(home=home)}


def test_a_chain_of_forks_shares_one_family_and_its_counter(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    sessions_of(told, told_home).extend([Told("a", turn(1)), fork_of("a", "b", 1), fork_of("b", "c", 2)])
    desk.scan(told_home)
    found = by_name(told_home)
    assert found["b"].observed_parent_id == found["a"].pk
    assert found["c"].observed_parent_id == found["b"].pk
    assert len({session.family_id for session in found.values()}) == 1
    assert titles.fork_title(found["c"].family_id).endswith(" (2)")
    assert titles.fork_title(found["a"].family_id).endswith(" (3)")


def test_numbers_taken_before_two_families_met_are_not_taken_again(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    sessions_of(told, told_home).append(fork_of("a", "b", 1))
    desk.scan(told_home)
    lonely = by_name(told_home)["b"]
    assert lonely.observed_parent_id is None
    assert [titles.fork_title(lonely.family_id)[-4:] for _ in range(3)] == [" (2)", " (3)", " (4)"]
    sessions_of(told, told_home).append(Told("a", turn(1)))
    desk.scan(told_home)
    found = by_name(told_home)
    assert found["a"].family_id == found["b"].family_id
    assert titles.fork_title(found["a"].family_id).endswith(" (5)")
    assert Family.objects.filter(pk=lonely.family_id).exists(), "a fork under way may have frozen its id"


def test_a_session_that_names_itself_or_its_own_fork_stays_unlinked(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    sessions_of(told, told_home).extend([fork_of("self", "self", 1), fork_of("y", "x", 2), fork_of("x", "y", 3)])
    desk.scan(told_home)
    found = by_name(told_home)
    assert found["self"].observed_parent_id is None
    assert {found["x"].observed_parent_id is None, found["y"].observed_parent_id is None} == {True, False}
    assert families.link_observed_parents(told_home.pk) == 0


def test_recorded_forks_of_claude_name_their_parents(desk: Desk) -> None:
    ids = {name: facts["session_id"] for name, facts in _claude().items()}
    home = put_claude(desk, **{name: ids[name] for name in ("source", "child", "child_continued", "grandchild")})
    desk.scan(home)
    found = by_name(home)
    assert found[ids["child"]].observed_parent_id == found[ids["source"]].pk
    assert found[ids["grandchild"]].observed_parent_id is not None
    assert len({session.family_id for session in found.values()}) == 1


def _claude() -> dict[str, dict[str, str]]:
    loaded: dict[str, dict[str, str]] = json.loads((RECORDINGS / "claude" / "expected_turns.json").read_text())
    return loaded


def test_a_sub_agents_lane_hangs_below_its_session_at_the_call_that_started_it(desk: Desk) -> None:
    home = put_codex(desk, "0.163.0-rich")
    desk.bring_in(home)
    lane = Session.objects.get(home=home, kind=SessionKind.CHILD)
    parent = Session.objects.get(home=home, kind=SessionKind.ROOT)
    assert (lane.parent_session_id, lane.root_session_id) == (parent.pk, parent.pk)
    assert lane.preview == "count the files"


@pytest.mark.parametrize("lane_first", [True, False])
def test_a_lane_is_tied_to_the_turn_whose_call_started_it(
    desk: Desk, told: ToldAdapter, told_home: Home, lane_first: bool
) -> None:
    call = ReadEvent(EventKind.TOOL_CALL, START_MS, {"callId": "call_7", "name": "Agent", "input": {}})
    start, asked, answered, ended = turn(2)
    root = Told("root", [*turn(1), start, asked, call, answered, ended], updated_at_ms=START_MS + 5)
    lane = Told("lane", turn(1), updated_at_ms=START_MS + (9 if lane_first else 1), parent="root")
    lane.facts = {"parent_tool_call_id": "call_7"}
    sessions_of(told, told_home).extend([root, lane])
    desk.bring_in(told_home)
    found = by_name(told_home)
    assert found["lane"].parent_tool_call_id == "call_7"
    assert found["lane"].parent_turn_id == history.turns(found["root"])[1].id


def test_a_lane_that_is_found_after_its_call_was_read_is_tied_to_it(
    desk: Desk, told: ToldAdapter, told_home: Home
) -> None:
    call = ReadEvent(EventKind.TOOL_CALL, START_MS, {"callId": "call_7", "name": "Agent", "input": {}})
    sessions_of(told, told_home).append(Told("root", [*turn(1, ended=False), call]))
    desk.bring_in(told_home)
    lane = Told("lane", turn(1), parent="root", facts={"parent_tool_call_id": "call_7"})
    sessions_of(told, told_home).append(lane)
    desk.bring_in(told_home)
    found = by_name(told_home)
    assert found["lane"].parent_turn_id == history.turns(found["root"])[0].id


def test_lanes_wait_for_their_parents_and_may_be_nested(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    inner = Told("inner", turn(1), updated_at_ms=START_MS + 9, parent="outer")
    outer = Told("outer", turn(1), updated_at_ms=START_MS + 8, parent="root")
    scanner = desk.scanner(told_home)
    sessions_of(told, told_home).extend([inner, outer])
    scanner.scan()
    assert not Session.objects.exists()
    sessions_of(told, told_home).append(Told("root", turn(1)))
    scanner.scan()
    scanner.note_missing()
    scanner.scan()
    found = by_name(told_home)
    assert found["outer"].parent_session_id == found["root"].pk
    assert found["inner"].parent_session_id == found["outer"].pk
    assert found["inner"].root_session_id == found["root"].pk
    assert found["root"].kind == SessionKind.ROOT
