"""Two writers at once. One is held inside its transaction until the other has run into it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from sessions import history, store
from sessions.errors import HistoryGone, SessionFenced, SessionNotFound, StaleSession, StoreError
from sessions.models import Event, EventLog, Session, Turn, Workspace
from sessions.providers.base import TurnBinding
from tests.store.histories import fresh, hosted, open_turn, shown, texts, turn
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20


def collide(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Run ``first`` in a transaction that commits only once ``second`` waits for it (or is through).

    What each returned, or the :class:`StoreError` that it raised.
    """
    inside, started = threading.Event(), threading.Event()
    futures: dict[str, Future[Any]] = {}

    def lead() -> Any:
        try:
            with transaction.atomic():
                result = first()
                inside.set()
                assert started.wait(SECONDS)
                _wait_until_blocked(futures["second"])
                return result
        finally:
            inside.set()
            connections.close_all()

    def follow() -> Any:
        try:
            assert inside.wait(SECONDS)
            started.set()
            return second()
        except StoreError as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=2) as pool:
        futures["second"] = pool.submit(follow)
        leading = pool.submit(lead)
        return leading.result(SECONDS), futures["second"].result(SECONDS)


def _wait_until_blocked(other: Future[Any]) -> None:
    """Until ``other`` waits for a lock. SQLite shows no waiters, but there its one write lock is held already."""
    if connection.vendor != "postgresql":
        return
    until = time.monotonic() + SECONDS
    with connection.cursor() as cursor:
        while not other.done() and time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return


@pytest.fixture
def session() -> Session:
    """Two settled turns."""
    made = hosted(Workspace.objects.create(name="Here", slug="here"))
    store.append(made.pk, [*turn(1), *turn(2)])
    return made


def purge_in_transaction(session_id: uuid.UUID) -> None:
    """A purge whose transaction somebody else ends."""
    store.purge.__wrapped__(session_id)  # type: ignore[attr-defined]


def test_a_freeze_waits_for_an_append_and_sees_all_of_it(session: Session) -> None:
    _, snapshot = collide(lambda: store.append(session.pk, turn(3)), lambda: store.freeze(session.pk))
    assert (snapshot.boundary, snapshot.turn_count) == (12, 3)


def test_an_append_behind_a_freeze_with_a_fence_is_refused(session: Session) -> None:
    def prepare() -> store.Snapshot:
        snapshot = store.freeze(session.pk)
        assert store.set_fence(session.pk, uuid.uuid4())
        return snapshot

    snapshot, refusal = collide(prepare, lambda: store.append(session.pk, turn(3)))
    assert isinstance(refusal, SessionFenced)
    assert fresh(session).last_seq == snapshot.boundary == Event.objects.count() == 8


def test_a_fence_behind_an_append_comes_after_it(session: Session) -> None:
    operation_id = uuid.uuid4()
    _, fenced = collide(lambda: store.append(session.pk, turn(3)), lambda: store.set_fence(session.pk, operation_id))
    assert fenced
    assert (fresh(session).last_seq, fresh(session).write_fence) == (12, operation_id)


def test_two_fences_at_once_are_one(session: Session) -> None:
    assert sorted(together([lambda: store.set_fence(session.pk, uuid.uuid4()) for _ in range(4)])) == [
        False,
        False,
        False,
        True,
    ]


def test_two_appends_follow_each_other_without_a_gap(session: Session) -> None:
    first, second = collide(lambda: store.append(session.pk, turn(3)), lambda: store.append(session.pk, turn(4)))
    assert (first.last_seq, second.first_seq, second.last_seq) == (12, 13, 16)
    assert texts(session)[-4:] == ["prompt 3", "answer 3", "prompt 4", "answer 4"]


def test_of_two_appends_to_the_same_place_one_is_stale(session: Session) -> None:
    _, refusal = collide(
        lambda: store.append(session.pk, turn(3), expected_last_seq=8),
        lambda: store.append(session.pk, turn(3), expected_last_seq=8),
    )
    assert isinstance(refusal, StaleSession)
    assert fresh(session).last_seq == 12


def test_an_append_behind_a_rewind_is_stale(session: Session) -> None:
    _, refusal = collide(
        lambda: store.rewind(session.pk, 4), lambda: store.append(session.pk, turn(3), expected_revision=0)
    )
    assert isinstance(refusal, StaleSession)
    assert texts(session) == ["prompt 1", "answer 1"]


def test_a_binding_behind_the_next_turn_goes_to_that_turn(session: Session) -> None:
    collide(
        lambda: store.append(session.pk, open_turn(3)), lambda: store.bind_turn(session.pk, TurnBinding("t3", {"n": 1}))
    )
    assert list(Turn.objects.order_by("ordinal").values_list("provider_turn_id", flat=True)) == ["t1", "t2", "t3"]


def test_two_turns_at_once_settle_each_other(session: Session) -> None:
    collide(lambda: store.append(session.pk, open_turn(3)), lambda: store.append(session.pk, open_turn(4)))
    assert [view.outcome for view in history.turns(fresh(session))] == ["completed", "completed", "interrupted", None]


def child_of(snapshot: store.Snapshot) -> Session:
    """A child made from a snapshot."""
    return store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="child")


def test_a_purge_behind_a_fork_leaves_the_child_whole(session: Session) -> None:
    snapshot = store.freeze(session.pk, 4)
    child, _ = collide(lambda: child_of(snapshot), lambda: store.purge(session.pk))
    assert texts(child) == ["prompt 1", "answer 1"]
    assert not Session.objects.filter(pk=session.pk).exists()
    assert Event.objects.count() == 4


def test_a_fork_behind_a_purge_makes_no_torn_child(session: Session) -> None:
    snapshot = store.freeze(session.pk, 4)

    def late() -> Session:
        with transaction.atomic():
            return child_of(snapshot)

    _, refusal = collide(lambda: purge_in_transaction(session.pk), late)
    assert isinstance(refusal, HistoryGone)
    assert not Session.objects.exists()
    assert not EventLog.objects.exists()


def test_an_append_behind_a_purge_finds_nothing(session: Session) -> None:
    _, refusal = collide(lambda: purge_in_transaction(session.pk), lambda: store.append(session.pk, turn(3)))
    assert isinstance(refusal, SessionNotFound)


@pytest.mark.parametrize("round_", range(4))
def test_forks_and_purges_at_once_lose_and_leak_nothing(session: Session, round_: int) -> None:
    middle = store.fork(session.pk, 8)
    store.append(middle.pk, turn(5))
    snapshots = [store.freeze(session.pk, 4), store.freeze(middle.pk)]

    def fork(snapshot: store.Snapshot) -> Session | None:
        try:
            with transaction.atomic():
                return child_of(snapshot)
        except HistoryGone:
            return None

    def purge(doomed: Session) -> None:
        store.purge(doomed.pk)

    made = together(
        [
            lambda: fork(snapshots[0]),
            lambda: purge(session),
            lambda: fork(snapshots[1]),
            lambda: purge(middle),
            lambda: fork(snapshots[1]),
        ]
    )
    children = [child for child in made if child is not None]
    for child in children:
        shown(child)
        assert texts(child)[:2] == ["prompt 1", "answer 1"]
    for child in children:
        store.purge(child.pk)
    assert (Event.objects.count(), Turn.objects.count(), EventLog.objects.count()) == (0, 0, 0)


def test_many_writers_and_forkers_at_once_keep_every_history_whole(session: Session) -> None:
    def write(number: int) -> list[Session]:
        store.append(session.pk, turn(number))
        return []

    def fork() -> list[Session]:
        return [store.fork(session.pk, 8), store.fork(session.pk)]

    made = together([*(lambda n=n: write(n) for n in range(3, 7)), *(fork for _ in range(3))])
    whole = shown(session)
    assert fresh(session).turn_count == 6
    for child in (child for children in made for child in children):
        rows = shown(child)
        last = fresh(child).last_seq
        assert [row[1:] for row in rows[:last]] == [row[1:] for row in whole[:last]]
