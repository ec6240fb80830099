"""A fork writes a constant number of rows and shares the rest; ids follow from ids."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from sessions import history, identities, store
from sessions.errors import BindingConflict, HistoryGone, SessionAlreadyExists
from sessions.models import Event, Session, Workspace
from sessions.providers.base import TurnBinding
from sessions.store import Snapshot
from tests.store.histories import execute, fresh, hosted, imported, open_turn, row_counts, shown, texts, turn


def source_of(workspace: Workspace, turns: int, extra: int) -> Session:
    """A settled source."""
    session = hosted(workspace, title=f"{turns} turns")
    for number in range(1, turns + 1):
        store.append(session.pk, turn(number, extra=extra))
    return fresh(session)


def test_rows_and_statements_of_a_fork_do_not_depend_on_the_history(workspace: Workspace) -> None:
    small, big = source_of(workspace, 2, 0), source_of(workspace, 60, 20)
    written: list[dict[str, int]] = []
    statements: list[int] = []
    for session in (small, big):
        before = row_counts()
        with CaptureQueriesContext(connection) as queries:
            store.fork(session.pk)
        statements.append(len(queries))
        after = row_counts()
        written.append({name: after[name] - before[name] for name in after})
    assert (
        written[0]
        == written[1]
        == {
            "Event": 0,
            "EventLog": 1,
            "Interaction": 0,
            "Lineage": 1,
            "Segment": 1,
            "Session": 1,
            "Turn": 0,
        }
    )
    assert statements[0] == statements[1]


def test_a_snapshot_is_as_small_for_a_long_history(workspace: Workspace) -> None:
    small, big = (store.freeze(source_of(workspace, n, n).pk).to_json() for n in (2, 30))
    assert abs(len(small) - len(big)) < 20


def test_a_snapshot_survives_its_json_and_materialises_without_the_live_source(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 1)
    store.append(source.pk, [store.NewEvent("context", 1, {"text": "c"})])
    text = store.freeze(source.pk, 10).to_json()
    snapshot = Snapshot.from_json(text)
    assert snapshot.to_json() == text
    assert snapshot == store.freeze(source.pk, 10)
    store.append(source.pk, turn(4))
    store.rename(source.pk, "Renamed")
    store.update_facts(source.pk, cwd="/elsewhere", model="another")
    store.rewind(source.pk, 5)
    child = store.materialise(
        snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="Child", provider_session_id="p-1"
    )
    assert texts(child) == ["prompt 1", "answer 1", "prompt 2", "answer 2"]
    assert (child.cwd, child.model, child.provider_session_id) == ("", "", "p-1")
    assert history.digest_at(child, 10).hex() == snapshot.digest


def test_a_snapshot_whose_history_is_not_what_was_frozen_makes_no_child(workspace: Workspace) -> None:
    source = source_of(workspace, 2, 0)
    snapshot = store.freeze(source.pk, 4)
    text = snapshot.to_json().replace(snapshot.digest, "00" * 32)
    with pytest.raises(HistoryGone):
        store.materialise(Snapshot.from_json(text), uuid.uuid4(), operation_id=uuid.uuid4(), title="x")
    store.purge(source.pk)
    with pytest.raises(HistoryGone):
        store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="x")
    assert not Session.objects.exists()


def test_a_snapshot_of_another_version_is_refused(workspace: Workspace) -> None:
    text = store.freeze(source_of(workspace, 1, 0).pk).to_json().replace('"version":1', '"version":2')
    with pytest.raises(ValueError, match="version"):
        Snapshot.from_json(text)


def test_the_same_operation_leads_to_the_same_ids(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 0)
    snapshot, operation_id, child_id = store.freeze(source.pk), uuid.uuid4(), uuid.uuid4()
    seen = []
    for _ in range(2):
        child = store.materialise(snapshot, child_id, operation_id=operation_id, title="x")
        seen.append([view.id for view in history.turns(child)] + [event.message_id for event in history.events(child)])
        execute("DELETE FROM agent_sessions_segment WHERE session_id = %s", db_uuid(child_id))
        child.delete()
    assert seen[0] == seen[1]
    assert len(set(seen[0]) - {None}) == 3 + 6
    origins = [view.origin_id for view in history.turns(source)]
    assert seen[0][:3] == [identities.inherited_turn_id(operation_id, origin) for origin in origins]


def db_uuid(value: uuid.UUID) -> object:
    """A UUID as the database takes it in raw SQL."""
    return value if connection.vendor == "postgresql" else value.hex


def test_two_forks_of_one_turn_and_their_source_share_no_public_id(workspace: Workspace) -> None:
    source = source_of(workspace, 2, 0)
    first, second = store.fork(source.pk), store.fork(source.pk)
    turns = [view.id for session in (source, first, second) for view in history.turns(session)]
    messages = [e.message_id for session in (source, first, second) for e in history.events(session) if e.message_id]
    assert len(set(turns)) == len(turns) == 6
    assert len(set(messages)) == len(messages) == 12


def test_a_turn_is_found_by_its_id_in_each_session_and_in_no_other(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 0)
    child = store.fork(source.pk, 8)
    store.append(child.pk, turn(9))
    grandchild = store.fork(child.pk)
    sessions = [source, fresh(child), fresh(grandchild)]
    for session in sessions:
        for view in history.turns(session):
            assert history.turn_by_id(session, view.id) == view
            others = [other for other in sessions if other.pk != session.pk]
            assert [history.turn_by_id(other, view.id) for other in others] == [None, None]
    assert history.turn_by_id(source, uuid.uuid4()) is None


def test_a_fork_of_a_fork_at_an_inherited_turn(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 0)
    child = store.fork(source.pk, 8)
    store.append(child.pk, turn(7))
    grandchild = store.fork(child.pk, 4)
    assert texts(grandchild) == ["prompt 1", "answer 1"]
    assert (grandchild.seed_length, grandchild.turn_count) == (4, 1)
    store.append(grandchild.pk, turn(8))
    assert texts(grandchild) == ["prompt 1", "answer 1", "prompt 8", "answer 8"]
    assert [view.inherited for view in history.turns(fresh(grandchild))] == [True, False]
    origin = history.turns(source)[0]
    assert history.turns(grandchild)[0].origin_id == origin.origin_id


def test_the_digest_chain_runs_on_through_forks_and_rewinds(workspace: Workspace) -> None:
    plain, source = hosted(workspace), hosted(workspace)
    store.append(plain.pk, [*turn(1), *turn(2), *turn(3)])
    store.append(source.pk, turn(1))
    child = store.fork(source.pk)
    store.append(child.pk, [*turn(2), *turn(9)])
    store.rewind(child.pk, 8)
    store.append(child.pk, turn(3))
    assert history.event_digests(fresh(child), 1, 12) == history.event_digests(fresh(plain), 1, 12)


def test_a_deep_line_of_forks_stays_flat(workspace: Workspace) -> None:
    session = hosted(workspace)
    statements: list[int] = []
    for generation in range(1, 30):
        store.append(session.pk, turn(generation))
        with CaptureQueriesContext(connection) as queries:
            session = store.fork(session.pk)
            history.events(session, limit=200)
        statements.append(len(queries))
    assert texts(session) == [text for n in range(1, 30) for text in (f"prompt {n}", f"answer {n}")]
    assert session.segments.count() == 29
    # The first source was no fork: it has no binding map to look into.
    assert set(statements[1:]) == {statements[-1]}


def test_kept_bindings_are_the_sources_and_mapped_ones_are_never(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 0)
    snapshot = store.freeze(source.pk, 8)
    kept = store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="k", binding_kept=True)
    assert [b.provider_turn_id for b in history.bindings_through(kept, 2)] == ["t1", "t2"]
    mapped = store.materialise(
        snapshot,
        uuid.uuid4(),
        operation_id=uuid.uuid4(),
        title="m",
        binding_map={2: TurnBinding("child-2", {"row": 22})},
    )
    first, second = history.turns(mapped)
    assert (first.binding, first.binding_state, first.binding_reason) == (None, "none", "inherited_unmapped")
    assert second.binding == TurnBinding("child-2", {"row": 22})


def test_bindings_kept_in_a_fork_of_a_mapped_fork_are_the_mapped_ones(workspace: Workspace) -> None:
    source = source_of(workspace, 3, 0)
    child = store.materialise(
        store.freeze(source.pk, 8),
        uuid.uuid4(),
        operation_id=uuid.uuid4(),
        title="m",
        binding_map={"2": ["child-2", {}]},
    )
    store.append(child.pk, turn(7))
    grandchild = store.materialise(
        store.freeze(child.pk), uuid.uuid4(), operation_id=uuid.uuid4(), title="k", binding_kept=True
    )
    assert [b.provider_turn_id for b in history.bindings_through(grandchild, 3)] == ["", "child-2", "t7"]


@pytest.mark.parametrize("binding_map", [{1: ["x", {}], 2: ["x", {}]}, {3: ["x", {}]}, {0: ["x", {}]}])
def test_a_mapping_that_is_not_one_to_one_is_refused(
    workspace: Workspace, binding_map: dict[int, list[object]]
) -> None:
    snapshot = store.freeze(source_of(workspace, 2, 0).pk)
    with pytest.raises(BindingConflict):
        store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="x", binding_map=binding_map)
    assert Session.objects.count() == 1


def test_one_provider_session_never_becomes_two_sessions(workspace: Workspace) -> None:
    source = imported(workspace)
    store.append(source.pk, turn(1))
    snapshot = store.freeze(source.pk)
    make = {"title": "x", "provider_session_id": "child-1"}
    store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), **make)
    with pytest.raises(SessionAlreadyExists), transaction.atomic():
        store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), **make)
    with pytest.raises(SessionAlreadyExists):
        imported(workspace, provider_session_id="child-1")


def test_what_forks_share_is_stored_once(workspace: Workspace) -> None:
    source = source_of(workspace, 2, 3)
    before = Event.objects.count()
    children = [store.fork(source.pk) for _ in range(20)]
    assert Event.objects.count() == before
    assert all([row[1:] for row in shown(child)][:14] == [row[1:] for row in shown(source)][:14] for child in children)


def test_an_open_turn_is_never_inherited(workspace: Workspace) -> None:
    source = source_of(workspace, 1, 0)
    store.append(source.pk, open_turn(2))
    child = store.fork(source.pk, 4)
    store.append(source.pk, [store.TurnEnd(9, "completed")])
    assert [view.ordinal for view in history.turns(fresh(child))] == [1]
    store.append(child.pk, turn(5))
    assert history.turns(fresh(child))[1].prompt == "prompt 5"
