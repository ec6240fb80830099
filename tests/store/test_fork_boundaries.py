"""Where a session can be forked, and what is refused, in which order."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection

from sessions import history, store, triggers
from sessions.errors import (
    ForkInsideTurn,
    InvalidForkBoundary,
    SessionAlreadyExists,
    SessionGone,
    SessionNotFound,
    StaleSession,
)
from sessions.models import Event, Session, Workspace
from tests.store.histories import fresh, hosted, open_turn, row_counts, shown, texts, turn


@pytest.fixture
def source(workspace: Workspace) -> Session:
    """Turn 1 (1-4), a standalone context (5), turn 2 (6-9), and an open turn 3 (10-12)."""
    session = hosted(workspace, cwd="/home/dev/project")
    store.append(session.pk, [*turn(1), store.NewEvent("context", 1, {"text": "main"}), *turn(2), *open_turn(3)])
    return fresh(session)


def test_an_empty_source_forks_into_an_empty_child(workspace: Workspace) -> None:
    child = store.fork(hosted(workspace, cwd="/home/dev").pk)
    assert (child.last_seq, child.seed_length, child.turn_count, child.cwd) == (0, 0, 0, "/home/dev")
    store.append(child.pk, turn(1))
    assert texts(child) == ["prompt 1", "answer 1"]


def test_without_a_boundary_the_whole_log_is_inherited(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*turn(1), *turn(2)])
    child = store.fork(session.pk)
    assert (child.last_seq, child.seed_length) == (8, 8)
    assert texts(child) == texts(session)


def test_child_and_source_go_on_apart(source: Session) -> None:
    child = store.fork(source.pk, 9)
    store.append(child.pk, turn(7))
    store.append(source.pk, turn(8))
    assert texts(child)[-2:] == ["prompt 7", "answer 7"]
    assert texts(source)[-2:] == ["prompt 8", "answer 8"]
    assert texts(child)[:4] == texts(source)[:4]
    assert history.events(fresh(child))[9].seq == 10


def test_a_standalone_event_after_a_closed_turn_is_a_boundary(source: Session) -> None:
    child = store.fork(source.pk, 5)
    assert history.events(child)[-1].kind == "context"
    assert child.turn_count == 1


def test_an_earlier_end_forks_fine_while_a_later_turn_is_open(source: Session) -> None:
    child = store.fork(source.pk, 4)
    assert texts(child) == ["prompt 1", "answer 1"]
    assert (child.activity, child.turn_count) == ("idle", 1)


@pytest.mark.parametrize("outcome", ["completed", "failed", "canceled", "interrupted"])
def test_every_ending_is_a_boundary(workspace: Workspace, outcome: str) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*turn(1, outcome=outcome), *open_turn(2)])
    child = store.fork(session.pk, 4)
    assert [view.outcome for view in history.turns(child)] == [outcome]


def test_an_end_made_by_the_next_turn_is_a_boundary(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*open_turn(1), *open_turn(2)])
    assert [view.outcome for view in history.turns(store.fork(session.pk, 4))] == ["interrupted"]


@pytest.mark.parametrize("boundary", [0, -1, 13, 2**63, 2**70, 1.5, 4.0, "4", True, float("nan")])
def test_what_is_no_event_is_refused_before_any_child_exists(source: Session, boundary: Any) -> None:
    before = row_counts()
    with pytest.raises(InvalidForkBoundary):
        store.fork(source.pk, boundary)
    assert row_counts() == before


def test_zero_on_an_empty_log_is_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidForkBoundary):
        store.fork(hosted(workspace).pk, 0)


@pytest.mark.parametrize(("boundary", "ordinal"), [(1, 1), (3, 1), (6, 2), (8, 2), (10, 3), (12, 3), (None, 3)])
def test_a_boundary_inside_a_turn_is_refused_and_names_the_turn(
    source: Session, boundary: int | None, ordinal: int
) -> None:
    before = row_counts()
    with pytest.raises(ForkInsideTurn) as refusal:
        store.fork(source.pk, boundary)
    assert refusal.value.turn_ordinal == ordinal
    assert row_counts() == before


def test_an_unknown_source_is_not_found_before_anything_else(source: Session) -> None:
    with pytest.raises(SessionNotFound):
        store.fork(uuid.uuid4(), 999, source.pk)


def test_a_stale_source_is_refused_before_the_child_and_the_boundary(source: Session) -> None:
    store.rewind(source.pk, 4)
    with pytest.raises(StaleSession):
        store.fork(source, 999, source.pk)
    store.fork(fresh(source), 4)


def test_a_taken_child_id_is_refused_before_the_boundary(workspace: Workspace, source: Session) -> None:
    other = hosted(workspace)
    for boundary in (999, 2, 4):
        with pytest.raises(SessionAlreadyExists):
            store.fork(source.pk, boundary, other.pk)


def test_the_id_of_a_purged_session_is_never_used_again(workspace: Workspace, source: Session) -> None:
    child = store.fork(source.pk, 4)
    plain = hosted(workspace)
    store.purge(child.pk)
    store.purge(plain.pk)
    for taken in (child.pk, plain.pk):
        with pytest.raises(SessionAlreadyExists):
            store.fork(source.pk, 4, taken)
        with pytest.raises(SessionAlreadyExists):
            hosted(workspace, session_id=taken)


def test_a_binned_source_is_refused(source: Session) -> None:
    store.tombstone(source.pk)
    with pytest.raises(SessionGone):
        store.fork(source.pk, 4)


def test_a_fork_changes_nothing_of_its_source(source: Session) -> None:
    before, row = shown(source), Session.objects.values().get(pk=source.pk)
    store.fork(source.pk, 9)
    assert (shown(source), Session.objects.values().get(pk=source.pk)) == (before, row)


def test_a_child_inherits_what_was_in_force_at_its_boundary(workspace: Workspace) -> None:
    session = hosted(
        workspace,
        cwd="/home/dev/project",
        settings={"permissionMode": "plan"},
        visibility="private",
        project="forkhost",
        runtime_context={"branch": "main"},
        pinned=True,
    )
    store.append(session.pk, [*turn(1, model="m1", effort="low"), *turn(2, model="m2", effort="high")])
    store.open_claim(session.pk, "goal_control")
    child = fresh(store.fork(session.pk, 4))
    assert (child.model, child.effort) == ("m1", "low")
    assert (child.cwd, child.project, child.visibility) == ("/home/dev/project", "forkhost", "private")
    assert (child.settings, child.runtime_context) == ({"permissionMode": "plan"}, {"branch": "main"})
    assert (child.kind, child.root_session_id, child.family_id) == ("root", None, session.family_id)
    assert (child.pinned, child.claims.count(), child.provider_session_id) == (False, 0, None)


def test_lineage_names_both_ends(source: Session) -> None:
    from sessions import lineage

    child = store.fork(source.pk, 9)
    edge = lineage.lineage_of(child.pk)
    assert edge is not None
    source_turn, target_turn = history.turn_by_ordinal(source, 2), history.turn_by_ordinal(child, 2)
    assert source_turn is not None
    assert target_turn is not None
    assert (edge.source_session_id, edge.source_seq, edge.source_ordinal) == (source.pk, 9, 2)
    assert (edge.source_turn_id, edge.target_turn_id) == (source_turn.id, target_turn.id)
    assert lineage.forks_of(source.pk) == [edge]
    assert lineage.lineage_of(source.pk) is None


def test_a_log_that_misses_its_boundary_event_is_refused(source: Session) -> None:
    triggers.drop(connection)
    Event.objects.filter(log_id=source.log_id, seq=4).delete()
    triggers.install(connection)
    with pytest.raises(InvalidForkBoundary):
        store.fork(source.pk, 4)
    assert Session.objects.count() == 1
