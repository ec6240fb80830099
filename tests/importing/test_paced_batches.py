"""An import works a batch out before it locks anything, proves that nobody wrote meanwhile, and takes turns with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sessions import history, pacing, store
from sessions.choices import SyncState
from sessions.models import Home, Session, Workspace
from sessions.pacing import EVENTS_ALONE, EVENTS_BESIDE_OTHERS, Pace, background
from sessions.store.appending import Appender
from sessions.store.drafts import Draft
from tests.importing.conftest import Desk, only_session, sessions_of, texts
from tests.importing.told import Told, ToldAdapter, turn
from tests.threads import together


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few entries a batch that a turn does not fit into one."""
    monkeypatch.setattr(pacing, "EVENTS_ALONE", 3)
    monkeypatch.setattr(pacing, "EVENTS_BESIDE_OTHERS", 3)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[Session], None]) -> list[int]:
    """Have ``act`` happen once, right after the second batch was worked out; how many entries each draft had."""
    drafts: list[int] = []
    original = Appender.draft

    def draft(self: Appender, entries: Sequence[store.Entry], **expected: int) -> Draft:
        made = original(self, entries, **expected)
        drafts.append(len(entries))
        if len(drafts) == 2:
            act(made.session)
        return made

    monkeypatch.setattr(Appender, "draft", draft)
    return drafts


def test_batches_that_cut_turns_say_the_same_as_one(
    desk: Desk, told: ToldAdapter, told_home: Home, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2), *turn(3)]))
    desk.bring_in(told_home)
    session = only_session(told_home)
    assert texts(session) == [f"{who} {number}" for number in (1, 2, 3) for who in ("prompt", "answer")]
    turns = history.turns(session)
    assert [(one.ordinal, one.phase, one.outcome) for one in turns] == [
        (number, "settled", "completed") for number in (1, 2, 3)
    ]
    again = Told("again", [*turn(1), *turn(2), *turn(3)])
    sessions_of(told, told_home).append(again)
    monkeypatch.setattr(pacing, "EVENTS_ALONE", EVENTS_ALONE)
    monkeypatch.setattr(pacing, "EVENTS_BESIDE_OTHERS", EVENTS_BESIDE_OTHERS)
    desk.bring_in(told_home)
    other = Session.objects.get(home=told_home, provider_session_id="again")
    assert history.event_digests(other, 1, other.last_seq) == history.event_digests(session, 1, session.last_seq)


def test_how_far_an_import_came_is_written_with_each_batch(
    desk: Desk, told: ToldAdapter, told_home: Home, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2), *turn(3)], cursor_every=3))
    told_so_far: list[tuple[str, int, int]] = []
    rest = Pace.rest

    def look(self: Pace) -> None:
        sync = only_session(told_home).sync
        told_so_far.append((sync.state, sync.bytes_done, sync.bytes_total))
        rest(self)

    monkeypatch.setattr(Pace, "rest", look)
    desk.bring_in(told_home)
    assert [done for _, done, _ in told_so_far] == sorted({done for _, done, _ in told_so_far}), "it moves each time"
    assert len(told_so_far) > 3
    assert {(state, total) for state, _, total in told_so_far[:-1]} == {(SyncState.IMPORTING, 12)}
    assert told_so_far[-1] == (SyncState.IMPORTED, 12, 12), "nobody has to wait for the last rest"


def test_a_session_renamed_while_its_batch_is_worked_out_is_imported_all_the_same(
    desk: Desk, told: ToldAdapter, told_home: Home, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2)]))
    desk.scan(told_home)
    drafts = meanwhile(monkeypatch, lambda session: store.rename(session.pk, "A better name"))
    desk.read_all()
    session = only_session(told_home)
    assert texts(session) == ["prompt 1", "answer 1", "prompt 2", "answer 2"]
    assert session.title == "A better name"
    assert session.sync.state == SyncState.IMPORTED
    assert drafts[1] == drafts[2], "the batch was worked out again"


def test_nothing_is_written_to_a_session_fenced_while_its_batch_is_worked_out(
    desk: Desk, told: ToldAdapter, told_home: Home, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions_of(told, told_home).append(Told("s", [*turn(1), *turn(2)]))
    desk.scan(told_home)
    before: list[int] = []

    def fence(session: Session) -> None:
        before.append(session.last_seq)
        assert store.set_fence(session.pk, session.family_id)

    meanwhile(monkeypatch, fence)
    deferred = desk.read_one()
    assert deferred is not None
    assert deferred.sync.state == SyncState.DEFERRED
    assert [deferred.last_seq] == before


@pytest.mark.serial
@pytest.mark.django_db(transaction=True)
def test_batches_shrink_while_somebody_else_writes() -> None:
    def write() -> None:
        Workspace.objects.create(name="Other", slug=f"other-{Workspace.objects.count()}")

    pace = Pace()
    pace.rest()
    pace.rest()
    assert pace.events == EVENTS_ALONE
    with pace.writing():
        write()
    pace.rest()
    assert pace.events == EVENTS_ALONE, "what the importer writes itself counts for nothing"

    def write_in_background() -> None:
        with background:
            write()

    together([write_in_background])
    pace.rest()
    assert pace.events == EVENTS_ALONE, "nor does what its process writes and nobody waits for"
    together([write])
    pace.rest()
    assert pace.events == EVENTS_BESIDE_OTHERS


@pytest.mark.django_db(transaction=True)
def test_beside_others_they_are_left_alone_for_longer_than_a_batch_kept_them_waiting(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    now = iter(range(1000))
    pace = Pace()
    pace.rest()
    together([lambda: Workspace.objects.create(name="Other", slug="other")])
    pace.rest()
    monkeypatch.setattr("sessions.pacing.time.sleep", slept.append)
    monkeypatch.setattr("sessions.pacing.time.monotonic", lambda: next(now) * 0.005)
    with pace.writing():
        pass
    pace.rest()
    assert slept == [pytest.approx(0.005 * pacing.PAUSE_TIMES[vendor])]
