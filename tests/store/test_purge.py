"""A purge removes what only the purged session showed, and keeps its neighbours byte for byte."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator

import pytest

from sessions import attachments, history, retention, store
from sessions.errors import SessionHeld, SessionNotFound
from sessions.models import (
    Attachment,
    Blob,
    Event,
    EventLog,
    Interaction,
    Lineage,
    Segment,
    Session,
    SessionAudit,
    Turn,
    WorkClaim,
    Workspace,
)
from sessions.store import Snapshot
from tests.store.histories import fresh, hosted, open_turn, shown, texts, turn


@pytest.fixture
def source(workspace: Workspace) -> Session:
    """Three settled turns and one open."""
    session = hosted(workspace)
    store.append(session.pk, [*turn(1), *turn(2), *turn(3), *open_turn(4)])
    return session


def nothing_is_left() -> bool:
    """Whether no row of any history remains."""
    tables = (Session, Segment, EventLog, Event, Turn, Interaction, Attachment, WorkClaim)
    return not any(model._default_manager.exists() for model in tables)


def test_a_child_outlives_its_source_byte_for_byte(source: Session) -> None:
    child = store.fork(source.pk, 8)
    store.append(child.pk, turn(7))
    before = shown(child)
    store.purge(source.pk)
    assert shown(child) == before
    assert Event.objects.count() == 12
    assert sorted(Turn.objects.values_list("ordinal", flat=True)) == [1, 2, 3]
    assert Lineage.objects.get(pk=child.pk).source_session_id == source.pk


def test_siblings_source_and_grandchild_survive_the_purge_of_the_middle(source: Session) -> None:
    child, sibling = store.fork(source.pk, 8), store.fork(source.pk, 12)
    store.append(child.pk, [*turn(5), *turn(6)])
    grandchild = store.fork(child.pk, 12)
    before = [shown(session) for session in (source, sibling, grandchild)]
    store.purge(child.pk)
    assert [shown(session) for session in (source, sibling, grandchild)] == before
    assert Event.objects.filter(seq__gt=12).exclude(log_id=source.log_id).count() == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_when_all_are_gone_nothing_is_left(source: Session, order: tuple[int, ...]) -> None:
    store.ask_interaction(source.pk, "question")
    store.open_claim(source.pk, "submit")
    child = store.fork(source.pk, 8)
    store.append(child.pk, turn(5))
    store.rewind(source.pk, 4)
    store.append(source.pk, turn(9))
    store.rewind(source.pk, 2)
    family = [source, child, store.fork(child.pk)]
    for index in order:
        store.purge(family[index].pk)
    assert nothing_is_left()
    assert SessionAudit.objects.filter(action="purge").count() == 3


def test_what_a_rewind_hid_goes_with_the_session(source: Session) -> None:
    child = store.fork(source.pk, 4)
    store.rewind(source.pk, 4)
    store.append(source.pk, turn(9))
    before = shown(child)
    assert Event.objects.count() == 15 + 4
    store.purge(source.pk)
    assert shown(child) == before
    assert Event.objects.count() == 4


def test_what_a_fork_gives_up_of_a_purged_source_goes(source: Session) -> None:
    child, sibling = store.fork(source.pk, 12), store.fork(source.pk, 4)
    store.purge(source.pk)
    assert Event.objects.count() == 12
    store.rewind(child.pk, 8)
    assert Event.objects.count() == 8
    store.rewind(child.pk, 0)
    assert texts(sibling) == ["prompt 1", "answer 1"]
    store.purge(sibling.pk)
    store.purge(child.pk)
    assert nothing_is_left()


def test_a_purged_session_is_gone_and_says_so(source: Session) -> None:
    store.purge(source.pk, actor="ann")
    with pytest.raises(SessionNotFound):
        store.purge(source.pk)
    audit = SessionAudit.objects.get()
    assert (audit.session_id, audit.actor, audit.action) == (source.pk, "ann", "purge")


def test_sub_agents_lanes_go_with_their_root(workspace: Workspace, source: Session) -> None:
    lane = hosted(workspace, kind="child", root_session_id=source.pk, parent_session_id=source.pk)
    store.append(lane.pk, turn(1))
    store.purge(source.pk)
    assert nothing_is_left()


@pytest.fixture
def keeper() -> Iterator[list[Snapshot | bool]]:
    """Stands for the operations: the snapshots (or a plain yes) that unfinished forks hold."""
    held: list[Snapshot | bool] = []

    def keep(session_id: uuid.UUID | None, log_ids: Collection[int]) -> retention.Needs:
        through = {log_id: seq for item in held if isinstance(item, Snapshot) for log_id, seq in item.shown.items()}
        return retention.Needs(session=True in held and session_id is not None, through=through)

    retention.register(keep)
    yield held
    retention.unregister(keep)


def test_a_purge_waits_for_a_fork_under_way(source: Session, keeper: list[Snapshot | bool]) -> None:
    keeper.append(True)
    before = shown(source)
    with pytest.raises(SessionHeld):
        store.purge(source.pk)
    assert shown(source) == before
    keeper.clear()
    store.purge(source.pk)


def test_a_frozen_history_survives_until_its_operation_is_settled(
    source: Session, keeper: list[Snapshot | bool]
) -> None:
    expected = texts(source)[:4]
    snapshot = store.freeze(source.pk, 8)
    keeper.append(snapshot)
    store.rewind(source.pk, 0)
    store.purge(source.pk)
    assert Event.objects.count() == 8
    child = store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="late")
    assert texts(child) == expected
    keeper.clear()
    store.sweep(snapshot.shown)
    assert texts(child) == expected
    store.purge(child.pk)
    assert nothing_is_left()


def test_a_sweep_drops_what_a_failed_operation_held(source: Session, keeper: list[Snapshot | bool]) -> None:
    snapshot = store.freeze(source.pk, 8)
    keeper.append(snapshot)
    store.purge(source.pk)
    store.sweep(snapshot.shown)
    assert Event.objects.count() == 8
    keeper.clear()
    store.sweep(snapshot.shown)
    assert nothing_is_left()


@pytest.mark.django_db(transaction=True)
def test_files_go_with_the_last_history_that_points_to_them() -> None:
    workspace = Workspace.objects.create(name="Here", slug="here")
    session = hosted(workspace)
    kept, gone = attachments.store_bytes(b"kept"), attachments.store_bytes(b"gone")
    image = {"text": "look", "images": [{"sha256": kept, "name": "a.png"}]}
    store.append(session.pk, [*turn(1), store.NewEvent("context", 1, image)])
    child = store.fork(session.pk)
    store.append(session.pk, [store.NewEvent("context", 2, {"images": [{"sha256": gone}]})])
    store.purge(session.pk)
    assert set(Blob.objects.values_list("pk", flat=True)) == {kept}
    assert attachments.path_of(kept).exists()
    assert not attachments.path_of(gone).exists()
    assert history.events(fresh(child))[-1].payload == image
    store.purge(child.pk)
    assert not attachments.path_of(kept).exists()
