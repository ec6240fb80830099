"""Which turn an anchor means."""

from __future__ import annotations

import pytest

from sessions import history, store
from sessions.models import Session, Workspace
from tests.store.histories import fresh, hosted, open_turn, turn


@pytest.fixture(params=["root", "fork", "rewound"])
def session(workspace: Workspace, request: pytest.FixtureRequest) -> Session:
    """Turn 1 (1-4), context (5), turn 2 (6-9), context (10), open turn 3 (11-13), over one or more logs."""
    made = hosted(workspace)
    store.append(made.pk, [*turn(1), store.NewEvent("context", 1, {"text": "a"})])
    if request.param == "fork":
        made = store.fork(made.pk)
        store.append(made.pk, turn(2))
        made = store.fork(made.pk)
    elif request.param == "rewound":
        store.append(made.pk, turn(9))
        store.rewind(made.pk, 5)
        store.append(made.pk, turn(2))
    else:
        store.append(made.pk, turn(2))
    store.append(made.pk, [store.NewEvent("context", 1, {"text": "b"}), *open_turn(3)])
    return fresh(made)


@pytest.mark.parametrize(
    ("seq", "ordinal"), [(1, 1), (3, 1), (4, 1), (5, 2), (6, 2), (9, 2), (10, None), (11, None), (13, None)]
)
def test_an_anchor_cuts_at_the_first_end_at_or_after_it(session: Session, seq: int, ordinal: int | None) -> None:
    found = history.turn_ending_at_or_after(session, seq)
    assert (found.ordinal if found else None) == ordinal


@pytest.mark.parametrize(
    ("seq", "ordinal"), [(0, None), (1, 1), (4, 1), (5, None), (6, 2), (10, None), (11, 3), (13, 3), (14, None)]
)
def test_an_event_knows_its_turn(session: Session, seq: int, ordinal: int | None) -> None:
    found = history.turn_at(session, seq)
    assert (found.ordinal if found else None) == ordinal


def test_the_latest_and_the_latest_settled_turn(session: Session) -> None:
    latest, settled = history.latest_turn(session), history.latest_settled_turn(session)
    assert latest is not None
    assert settled is not None
    assert (latest.ordinal, settled.ordinal) == (3, 2)
    store.append(session.pk, [store.TurnEnd(9, "failed")])
    settled = history.latest_settled_turn(fresh(session))
    assert settled is not None
    assert settled.ordinal == 3


def test_a_session_without_turns_has_neither(workspace: Workspace) -> None:
    empty = hosted(workspace)
    assert history.latest_turn(empty) is None
    assert history.latest_settled_turn(empty) is None
    assert history.turn_ending_at_or_after(empty, 1) is None
    assert history.turns(empty) == []
    assert history.events(empty) == []


def test_pages_are_ranges_over_all_logs(session: Session) -> None:
    assert [event.seq for event in history.events(session, after=3, limit=5)] == [4, 5, 6, 7, 8]
    assert [event.seq for event in history.events(session, after=3, limit=50, through=6)] == [4, 5, 6]
    assert [view.ordinal for view in history.turns(session, first=2, limit=1)] == [2]
    assert [event.turn_no for event in history.events(session)] == [1] * 4 + [None] + [2] * 4 + [None] + [3] * 3
    turns = {view.ordinal: view.id for view in history.turns(session)}
    assert all(event.turn_id == turns[event.turn_no] for event in history.events(session) if event.turn_no)
