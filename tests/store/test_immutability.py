"""What is settled stays as it is, also for somebody who writes SQL past the store. Both databases."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from sessions import store
from sessions.models import Event, Session, Turn, Workspace
from sessions.providers.base import TurnBinding
from sessions.store.rows import EventRow, insert_events
from tests.store.histories import execute, fresh, hosted, open_turn, shown, turn


@pytest.fixture
def session(workspace: Workspace) -> Session:
    """Two settled turns, and a third that is open."""
    made = hosted(workspace)
    store.append(made.pk, [*turn(1), *turn(2), *open_turn(3)])
    return fresh(made)


def refused(write: Callable[[], object]) -> None:
    """The database has to say no."""
    with pytest.raises(IntegrityError), transaction.atomic():
        write()


def test_no_event_is_ever_changed(session: Session) -> None:
    before = shown(session)
    for column, value in (("payload", "{}"), ("kind", "note"), ("at_unix_ms", 1), ("digest", b"x"), ("turn_no", 2)):
        refused(
            lambda column=column, value=value: Event.objects.filter(log_id=session.log_id, seq=2).update(
                **{column: value}
            )
        )
    refused(lambda: execute("UPDATE agent_sessions_event SET seq = seq + 100"))
    assert shown(session) == before


def test_no_shown_event_or_turn_is_removed(session: Session) -> None:
    before = shown(session)
    refused(lambda: execute("DELETE FROM agent_sessions_event WHERE seq = 11"))
    refused(lambda: execute("DELETE FROM agent_sessions_event"))
    refused(lambda: execute("DELETE FROM agent_sessions_turn WHERE ordinal = 1"))
    assert shown(session) == before


def test_replacing_a_row_is_no_way_around(session: Session, vendor: str) -> None:
    before = shown(session)
    columns = "log_id, seq, turn_no, kind, at_unix_ms, payload, digest"
    values = f"{session.log_id}, 2, 1, 'note', 1, '{{}}', '\\x00'"
    if vendor == "sqlite":
        refused(lambda: execute(f"INSERT OR REPLACE INTO agent_sessions_event ({columns}) VALUES ({values})"))
    else:
        refused(
            lambda: execute(
                f"INSERT INTO agent_sessions_event ({columns}) VALUES ({values})"
                " ON CONFLICT (log_id, seq) DO UPDATE SET payload = excluded.payload"
            )
        )
    assert shown(session) == before


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outcome", "failed"),
        ("last_seq", 8),
        ("first_seq", 2),
        ("ordinal", 9),
        ("prompt", "another"),
        ("model", "another"),
        ("effort", "another"),
        ("origin", "another"),
        ("digest", b"another"),
        ("usage", {"tokens": 1}),
        ("started_at_unix_ms", 1),
        ("settled_at_unix_ms", 1),
    ],
)
def test_a_settled_turn_never_changes(session: Session, column: str, value: object) -> None:
    refused(lambda: Turn.objects.filter(ordinal=1).update(**{column: value}))


def test_a_settled_turn_never_opens_again(session: Session) -> None:
    refused(
        lambda: Turn.objects.filter(ordinal=2).update(
            phase="open", last_seq=None, outcome=None, digest=None, settled_at_unix_ms=None
        )
    )


def test_a_binding_is_fixed_once_a_later_turn_began(session: Session) -> None:
    refused(lambda: Turn.objects.filter(ordinal=1).update(provider_turn_id="x"))
    refused(lambda: Turn.objects.filter(ordinal=2).update(binding={"row": 99}))
    assert Turn.objects.filter(ordinal=3).update(provider_turn_id="x", binding={"row": 99}) == 1


def test_the_latest_binding_moves_and_an_empty_one_is_filled_later(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*turn(1, binding=None), *turn(2)])
    assert Turn.objects.filter(ordinal=2).update(provider_turn_id="t2b") == 1
    assert Turn.objects.filter(ordinal=1).update(provider_turn_id="t1", binding_state="bound") == 1
    refused(lambda: Turn.objects.filter(ordinal=1).update(provider_turn_id="t1b"))


def row(session: Session, seq: int, log_id: int | None = None) -> EventRow:
    """An event as somebody else might write it."""
    return EventRow(log_id or session.log_id, seq, None, "note", 1, "{}", b"d" * 32)


@pytest.mark.parametrize("many", [1, 40])
def test_a_gap_and_a_double_are_refused(session: Session, many: int) -> None:
    Session.objects.filter(pk=session.pk).update(last_seq=500)
    last = session.last_seq
    refused(lambda: insert_events([row(session, last + 2 + n) for n in range(many)]))
    refused(lambda: insert_events([row(session, last + n) for n in range(many)]))
    refused(lambda: insert_events([row(session, last + 1 + n + (n == many - 1)) for n in range(many)]))
    insert_events([row(session, last + 1 + n) for n in range(many)])


@pytest.mark.parametrize("many", [1, 40])
def test_an_event_beyond_the_sessions_last_seq_is_refused(session: Session, many: int) -> None:
    Session.objects.filter(pk=session.pk).update(last_seq=session.last_seq + many - 1)
    refused(lambda: insert_events([row(session, session.last_seq + 1 + n) for n in range(many)]))


def test_nothing_is_written_below_a_logs_first_seq(workspace: Workspace, session: Session) -> None:
    child = store.fork(session.pk, 8)
    refused(lambda: insert_events([row(child, 8)]))
    refused(lambda: insert_events([row(child, 1)]))


def test_a_fence_holds_against_naive_writers(session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(last_seq=500, turn_count=9, write_fence=uuid.uuid4())
    refused(lambda: insert_events([row(session, session.last_seq + 1)]))
    refused(lambda: Turn.objects.filter(ordinal=3).update(prompt="changed"))
    refused(lambda: new_turn(session, 4).save(force_insert=True))


def test_a_log_left_behind_by_a_rewind_takes_nothing_more(session: Session) -> None:
    store.rewind(session.pk, 4)
    refused(lambda: insert_events([row(session, session.last_seq + 1, session.log_id)]))


def new_turn(session: Session, ordinal: int) -> Turn:
    """An open turn as somebody else might write it."""
    return Turn(log_id=session.log_id, ordinal=ordinal, first_seq=100 + ordinal, started_at_unix_ms=1)


def test_a_second_open_turn_and_a_turn_beyond_the_session_are_refused(session: Session) -> None:
    refused(lambda: new_turn(session, 4).save(force_insert=True))
    Session.objects.filter(pk=session.pk).update(turn_count=4)
    refused(lambda: new_turn(session, 4).save(force_insert=True))


def test_two_writers_of_one_log_are_impossible(workspace: Workspace, session: Session) -> None:
    other = hosted(workspace)
    with pytest.raises(DatabaseError), transaction.atomic():
        Session.objects.filter(pk=other.pk).update(log_id=session.log_id)


def test_the_store_says_no_before_the_database_has_to(session: Session) -> None:
    store.append(session.pk, [store.TurnEnd(9, "completed")])
    store.bind_turn(session.pk, TurnBinding("t3b"))
    assert Turn.objects.get(ordinal=3).provider_turn_id == "t3b"
