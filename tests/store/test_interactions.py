"""Questions, approvals and plans lie in the log; forks share them and never answer them."""

from __future__ import annotations

import uuid

import pytest

from sessions import history, identities, store
from sessions.errors import InteractionConflict, UnknownReference
from sessions.models import Session, Workspace
from tests.store.histories import fresh, hosted, imported, open_turn, row_counts, turn


@pytest.fixture
def session(workspace: Workspace) -> Session:
    """One turn with an answered and a pending question, settled."""
    made = hosted(workspace)
    store.append(made.pk, open_turn(1))
    answered = store.ask_interaction(made.pk, "approval", {"tool": "rm"}, key="a")
    store.ask_interaction(made.pk, "question", {"text": "which?"}, key="b")
    store.answer_interaction(made.pk, answered.pk, {"decision": "yes"})
    store.append(made.pk, [store.TurnEnd(9, "completed")])
    return fresh(made)


def states(session: Session) -> list[tuple[str, str]]:
    """Key and state of each interaction."""
    return [(view.key, view.state) for view in history.interactions(fresh(session))]


def test_asking_and_answering_are_events_with_a_state(session: Session) -> None:
    assert states(session) == [("a", "answered"), ("b", "pending")]
    kinds = [event.kind for event in history.events(session)]
    assert kinds[3:6] == ["interaction.asked", "interaction.asked", "interaction.answered"]
    assert history.events(session)[5].payload == {"decision": "yes", "interactionId": "a", "kind": "approval"}


def test_a_session_that_waits_says_so(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, open_turn(1))
    asked = store.ask_interaction(session.pk, "plan")
    assert fresh(session).activity == "waiting"
    store.supersede_interaction(session.pk, asked.pk)
    assert fresh(session).activity == "running"


def test_what_is_pending_at_the_boundary_is_superseded_in_the_child_alone(session: Session) -> None:
    before = row_counts()
    child = store.fork(session.pk)
    assert row_counts()["Interaction"] == before["Interaction"]
    assert states(child) == [("a", "answered"), ("b", "superseded")]
    assert states(session) == [("a", "answered"), ("b", "pending")]
    pending = history.interactions(session)[1]
    store.answer_interaction(session.pk, pending.id)
    assert states(child) == [("a", "answered"), ("b", "superseded")]


def test_an_answer_after_the_boundary_is_not_the_childs(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, turn(1))
    asked = store.ask_interaction(session.pk, "question", key="q")
    boundary = fresh(session).last_seq
    store.answer_interaction(session.pk, asked.pk)
    snapshot = store.freeze(session.pk, boundary)
    assert [item.key for item in snapshot.interactions] == ["q"]
    assert store.freeze(session.pk).interactions == ()
    assert states(store.fork(session.pk, boundary)) == [("q", "superseded")]
    assert states(store.fork(session.pk)) == [("q", "answered")]


def test_an_inherited_interaction_has_an_id_of_the_child_and_takes_no_answer(session: Session) -> None:
    child = store.fork(session.pk)
    view, origin = history.interactions(child)[1], history.interactions(session)[1]
    assert child.fork_operation_id is not None
    assert view.id == identities.inherited_interaction_id(child.fork_operation_id, origin.id)
    for wrong in (view.id, origin.id, uuid.uuid4()):
        with pytest.raises(InteractionConflict):
            store.answer_interaction(child.pk, wrong)


def test_an_interaction_is_asked_once_and_closed_once(session: Session) -> None:
    with pytest.raises(UnknownReference):
        store.ask_interaction(session.pk, "question", key="a")
    with pytest.raises(InteractionConflict):
        store.answer_interaction(session.pk, history.interactions(session)[0].id)
    with pytest.raises(UnknownReference):
        store.append(session.pk, [store.NewEvent("interaction.answered", 1, {"interactionId": "nobody"})])
    with pytest.raises(UnknownReference):
        store.append(session.pk, [store.NewEvent("interaction.asked", 1, {"interactionId": ""})])


def test_a_rewind_supersedes_what_is_left_waiting(session: Session) -> None:
    store.append(session.pk, turn(2))
    store.rewind(session.pk, session.last_seq)
    assert states(session) == [("a", "answered"), ("b", "superseded")]


@pytest.mark.parametrize(
    "references",
    [
        [{"type": "turn", "ordinal": 2}],
        [{"type": "turn", "ordinal": 0}],
        [{"type": "turn", "ordinal": True}],
        [{"type": "event", "seq": 99}],
        [{"type": "event", "ordinal": 1}],
        [{"type": "event", "seq": 1, "more": 1}],
        [{"type": "session", "id": "x"}],
        [{"type": ["turn"], "ordinal": 1}],
        [{"type": "turn", "ordinal": 1}, {"type": "turn", "ordinal": 1}],
        ["turn 1"],
        {"type": "turn", "ordinal": 1},
    ],
)
def test_unknown_and_double_references_are_refused(session: Session, references: object) -> None:
    with pytest.raises(UnknownReference):
        store.append(session.pk, [store.NewEvent("note", 1, {"references": references})])
    assert fresh(session).last_seq == session.last_seq


def test_known_references_mean_the_same_in_every_fork(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, turn(1))
    payload = {"text": "as said", "references": [{"type": "turn", "ordinal": 1}, {"type": "event", "seq": 2}]}
    store.append(session.pk, [store.NewEvent("note", 1, payload)])
    assert history.events(store.fork(session.pk))[-1].payload == payload


def test_imported_payloads_are_not_searched_for_references(workspace: Workspace) -> None:
    session = imported(workspace)
    store.append(session.pk, [store.NewEvent("note", 1, {"references": "free text"})])
    assert history.events(fresh(session))[0].kind == "note"
