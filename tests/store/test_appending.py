"""What an append writes, and when it refuses."""

from __future__ import annotations

import uuid

import pytest

from sessions import history, store
from sessions.choices import Activity, TurnOutcome, TurnPhase
from sessions.digests import event_digest
from sessions.errors import SessionFenced, SessionGone, SessionNotFound, StaleSession, TurnConflict
from sessions.models import Event, Segment, Session, Workspace
from tests.store.histories import fresh, hosted, imported, open_turn, turn


def test_an_append_numbers_events_and_turns_without_gaps(workspace: Workspace) -> None:
    session = hosted(workspace)
    assert store.append(session.pk, turn(1)) == (1, 4, 1)
    assert store.append(session.pk, [*turn(2), *turn(3)]) == (5, 12, 3)
    now = fresh(session)
    assert [event.seq for event in history.events(now)] == list(range(1, 13))
    assert [(view.ordinal, view.first_seq, view.last_seq) for view in history.turns(now)] == [
        (1, 1, 4),
        (2, 5, 8),
        (3, 9, 12),
    ]


def test_an_empty_session_has_no_segment_until_something_is_written(workspace: Workspace) -> None:
    session = hosted(workspace)
    assert store.append(session.pk, []) == (1, 0, 0)
    assert not Segment.objects.exists()
    store.append(session.pk, turn(1))
    assert Segment.objects.count() == 1


def test_a_new_turn_settles_the_open_one_as_interrupted(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, open_turn(1))
    assert fresh(session).activity == Activity.RUNNING
    appended = store.append(session.pk, open_turn(2))
    first, second = history.turns(fresh(session))
    assert (first.phase, first.outcome, first.last_seq) == (TurnPhase.SETTLED, TurnOutcome.INTERRUPTED, 4)
    assert (second.phase, second.outcome, second.last_seq) == (TurnPhase.OPEN, None, None)
    assert appended.first_seq == 4
    assert history.events(fresh(session))[3].kind == "turn.end"


def test_a_new_turn_settles_the_open_one_within_one_append_as_well(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*open_turn(1), *open_turn(2), *turn(3)])
    outcomes = [view.outcome for view in history.turns(fresh(session))]
    assert outcomes == ["interrupted", "interrupted", "completed"]


def test_a_turn_settles_over_several_appends(workspace: Workspace) -> None:
    session = hosted(workspace)
    for entry in turn(1, extra=2):
        store.append(session.pk, [entry])
    view = history.latest_settled_turn(fresh(session))
    assert view is not None
    assert (view.first_seq, view.last_seq, view.outcome) == (1, 6, "completed")
    assert fresh(session).activity == Activity.IDLE


def test_an_end_without_an_open_turn_is_refused_and_writes_nothing(workspace: Workspace) -> None:
    session = hosted(workspace)
    with pytest.raises(TurnConflict):
        store.append(session.pk, [*turn(1), store.TurnEnd(2, "completed")])
    assert (fresh(session).last_seq, Event.objects.count()) == (0, 0)


def test_a_bracket_as_a_plain_event_is_refused(workspace: Workspace) -> None:
    session = hosted(workspace)
    with pytest.raises(TurnConflict):
        store.append(session.pk, [store.NewEvent("turn.start", 1, {})])


def test_a_standalone_event_belongs_to_no_turn(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [*turn(1), store.NewEvent("context", 9, {"text": "branch: main"}), *turn(2)])
    context = history.events(fresh(session))[4]
    assert (context.kind, context.turn_no, context.turn_id) == ("context", None, None)


def test_the_running_digest_covers_every_event(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, turn(1))
    store.append(session.pk, turn(2))
    digest = b""
    for event in Event.objects.order_by("seq"):
        digest = event_digest(digest, event.seq, event.kind, event.at_unix_ms, event.payload)
        assert bytes(event.digest) == digest
    last = history.latest_turn(fresh(session))
    assert last is not None
    assert history.digest_at(fresh(session), 8) == digest


def test_the_session_row_follows_its_history(workspace: Workspace) -> None:
    session = hosted(workspace, title="", created_at_unix_ms=5)
    store.append(session.pk, turn(1, model="m1", effort="high"))
    store.append(session.pk, turn(2, model="m2"))
    now = fresh(session)
    assert (now.model, now.effort, now.preview) == ("m2", "high", "prompt 1")
    assert (now.updated_at_unix_ms, now.turn_count, now.last_seq) == (2900, 2, 8)
    assert now.family.title == "prompt 1"


def test_expectations_that_do_not_hold_are_stale(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, turn(1), expected_last_seq=0, expected_revision=0)
    with pytest.raises(StaleSession):
        store.append(session.pk, turn(2), expected_last_seq=0)
    with pytest.raises(StaleSession):
        store.append(session.pk, turn(2), expected_revision=1)
    assert fresh(session).last_seq == 4


def test_unknown_binned_and_fenced_sessions_take_no_event(workspace: Workspace) -> None:
    session, operation_id = hosted(workspace), uuid.uuid4()
    with pytest.raises(SessionNotFound):
        store.append(uuid.uuid4(), turn(1))
    assert store.set_fence(session.pk, operation_id)
    with pytest.raises(SessionFenced):
        store.append(session.pk, turn(1))
    assert not store.set_fence(session.pk, uuid.uuid4())
    assert not store.release_fence(session.pk, uuid.uuid4())
    assert store.release_fence(session.pk, operation_id)
    store.tombstone(session.pk)
    with pytest.raises(SessionGone):
        store.append(session.pk, turn(1))
    store.restore(session.pk)
    store.append(session.pk, turn(1))


def test_every_write_of_history_meets_the_fence(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, open_turn(1))
    asked = store.ask_interaction(session.pk, "question")
    claim = store.open_claim(session.pk, "submit")
    store.set_fence(session.pk, uuid.uuid4())
    before = Session.objects.values().get(pk=session.pk)
    for write in (
        lambda: store.append(session.pk, turn(2)),
        lambda: store.bind_turn(session.pk, turn(1)[0].binding),
        lambda: store.fill_binding(session.pk, 1, turn(1)[0].binding),
        lambda: store.rewind(session.pk, 0),
        lambda: store.ask_interaction(session.pk, "question"),
        lambda: store.answer_interaction(session.pk, asked.pk),
        lambda: store.open_claim(session.pk, "submit"),
        lambda: store.settle_claim(session.pk, claim.pk),
        lambda: store.update_facts(session.pk, settings={"sandbox": "off"}),
        lambda: store.tombstone(session.pk),
        lambda: store.purge(session.pk),
    ):
        with pytest.raises(SessionFenced):
            write()
    assert Session.objects.values().get(pk=session.pk) == before
    store.rename(session.pk, "Another title")
    store.set_pinned(session.pk, True)


def test_an_imported_event_that_cannot_stand_becomes_a_note(workspace: Workspace) -> None:
    session = imported(workspace)
    odd = store.NewEvent("interaction.answered", 2, {"interactionId": "never-asked", "text": "yes"})
    broken = store.NewEvent("tool.result", 3, {"output": float("nan")})
    store.append(session.pk, [*open_turn(1), odd, broken, store.TurnEnd(9, "completed", usage={"cost": float("inf")})])
    events = history.events(fresh(session))
    assert [event.kind for event in events[3:]] == ["note", "note", "turn.end"]
    assert events[3].payload["payload"] == {"interactionId": "never-asked", "text": "yes"}
    assert (events[3].payload["reason"], events[4].payload["reason"]) == ("unknown_reference", "payload_refused")
