"""What ties turns to a provider, how it moves, and whose it is."""

from __future__ import annotations

import uuid

import pytest

from sessions import history, store
from sessions.errors import BindingConflict, TurnConflict
from sessions.models import Session, Workspace
from sessions.providers.base import TurnBinding
from tests.store.histories import fresh, hosted, imported, open_turn, turn


@pytest.fixture
def session(workspace: Workspace) -> Session:
    """Turn 1 unbound, turn 2 bound to t2."""
    made = hosted(workspace)
    store.append(made.pk, [*turn(1, binding=TurnBinding("", reason="turn_id_synthesized")), *turn(2)])
    return made


def ids(session: Session) -> list[str]:
    """The provider turn ids in order."""
    now = fresh(session)
    return [binding.provider_turn_id for binding in history.bindings_through(now, now.turn_count)]


def test_the_latest_binding_moves_forward_until_the_next_turn_starts(session: Session) -> None:
    store.bind_turn(session.pk, TurnBinding("t2", {"row": 5}))
    store.bind_turn(session.pk, TurnBinding("t2b", {"row": 6}))
    assert ids(session) == ["", "t2b"]
    store.append(session.pk, open_turn(3))
    store.bind_turn(session.pk, TurnBinding("t3b"))
    assert ids(session) == ["", "t2b", "t3b"]


def test_a_binding_is_never_taken_away(session: Session) -> None:
    with pytest.raises(BindingConflict):
        store.bind_turn(session.pk, TurnBinding(""))
    assert ids(session) == ["", "t2"]


def test_an_end_may_carry_the_binding(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, open_turn(1, binding=None))
    store.append(session.pk, [store.TurnEnd(2, "completed", binding=TurnBinding("late"))])
    assert ids(session) == ["late"]


def test_an_end_without_a_binding_leaves_the_one_of_the_start(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*open_turn(1), store.TurnEnd(2, "completed", binding=TurnBinding("", reason="gone"))])
    assert ids(session) == ["t1"]


def test_an_empty_binding_is_filled_once(session: Session) -> None:
    store.fill_binding(session.pk, 1, TurnBinding("t1", {"row": 1}))
    assert ids(session) == ["t1", "t2"]
    with pytest.raises(BindingConflict):
        store.fill_binding(session.pk, 1, TurnBinding("t1b"))


def test_an_id_that_belongs_to_another_turn_is_refused(session: Session) -> None:
    with pytest.raises(BindingConflict):
        store.fill_binding(session.pk, 1, TurnBinding("t2"))
    with pytest.raises(BindingConflict):
        store.append(session.pk, turn(2))
    with pytest.raises(BindingConflict):
        store.append(session.pk, [*turn(5), *turn(5)])
    store.append(session.pk, turn(3))
    with pytest.raises(BindingConflict):
        store.bind_turn(session.pk, TurnBinding("t2"))
    assert ids(session) == ["", "t2", "t3"]


def test_a_turn_that_does_not_exist_takes_no_binding(workspace: Workspace, session: Session) -> None:
    with pytest.raises(TurnConflict):
        store.fill_binding(session.pk, 3, TurnBinding("t3"))
    with pytest.raises(TurnConflict):
        store.bind_turn(hosted(workspace).pk, TurnBinding("x"))


def test_an_imported_turn_with_anothers_id_needs_recovery(workspace: Workspace) -> None:
    session = imported(workspace)
    store.append(session.pk, [*turn(1), *turn(1), *turn(2)])
    views = history.turns(fresh(session))
    assert [view.binding_state for view in views] == ["bound", "recovery_required", "bound"]
    assert (views[1].binding, views[1].binding_reason) == (None, "binding_conflict")
    store.fill_binding(session.pk, 2, TurnBinding("t1b"))
    assert ids(session) == ["t1", "t1b", "t2"]


def test_an_inherited_turns_binding_cannot_move(session: Session) -> None:
    child = store.fork(session.pk, binding_kept=True)
    with pytest.raises(TurnConflict):
        store.bind_turn(child.pk, TurnBinding("x"))


def test_an_inherited_turns_empty_binding_is_filled_in_the_child_alone(session: Session) -> None:
    child = store.materialise(
        store.freeze(session.pk), uuid.uuid4(), operation_id=uuid.uuid4(), title="m", binding_map={2: ["c2", {}]}
    )
    with pytest.raises(BindingConflict):
        store.fill_binding(child.pk, 1, TurnBinding("c2"))
    store.fill_binding(child.pk, 1, TurnBinding("c1", {"row": 7}))
    assert ids(child) == ["c1", "c2"]
    assert ids(session) == ["", "t2"]
    with pytest.raises(BindingConflict):
        store.fill_binding(child.pk, 1, TurnBinding("c1b"))


def test_an_inherited_id_counts_as_owned_in_the_child(session: Session) -> None:
    kept = store.fork(session.pk, binding_kept=True)
    with pytest.raises(BindingConflict):
        store.append(kept.pk, turn(2))
    mapped = store.materialise(
        store.freeze(session.pk), uuid.uuid4(), operation_id=uuid.uuid4(), title="m", binding_map={2: ["c2", {}]}
    )
    with pytest.raises(BindingConflict):
        store.append(mapped.pk, turn(3, binding=TurnBinding("c2")))
    store.append(mapped.pk, turn(2))
    assert ids(mapped) == ["", "c2", "t2"]


def test_the_same_id_in_two_sessions_is_fine(workspace: Workspace, session: Session) -> None:
    store.append(hosted(workspace).pk, turn(2))
