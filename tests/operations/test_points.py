"""Four shapes of a fork point, and nothing else."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from operations.points import InvalidPoint, PointRefused, parse_point, resolve
from sessions import history, store
from sessions.models import Session
from sessions.store import NewEvent
from tests.conftest import People
from tests.operations.support import World, through, turn

TURN = str(uuid.uuid4())


@pytest.mark.parametrize(
    "point",
    [
        {"type": "throughTurn", "turnId": TURN},
        {"type": "atSeq", "seq": 3},
        {"type": "atSeq"},
        {"type": "throughSeq", "seq": 1},
        {"type": "latestSettled"},
    ],
)
def test_a_point_reads_back_as_it_was_written(point: dict[str, Any]) -> None:
    assert parse_point(point).as_json() == point


def test_a_turn_id_compares_in_any_case() -> None:
    assert parse_point({"type": "throughTurn", "turnId": TURN.upper()}) == parse_point(
        {"type": "throughTurn", "turnId": TURN}
    )


@pytest.mark.parametrize(
    ("point", "field"),
    [
        (None, ""),
        ("latestSettled", ""),
        ([], ""),
        ({}, "/type"),
        ({"type": "beforeTurn", "turnId": TURN}, "/type"),
        ({"type": ["throughTurn"]}, "/type"),
        ({"type": "throughTurn"}, "/turnId"),
        ({"type": "throughTurn", "turnId": ""}, "/turnId"),
        ({"type": "throughTurn", "turnId": str(uuid.UUID(int=0))}, "/turnId"),
        ({"type": "throughTurn", "turnId": 7}, "/turnId"),
        ({"type": "throughTurn", "turnId": TURN, "seq": 3}, "/seq"),
        ({"type": "atSeq", "seq": 3, "turnId": TURN}, "/turnId"),
        ({"type": "atSeq", "seq": -1}, "/seq"),
        ({"type": "atSeq", "seq": 0}, "/seq"),
        ({"type": "atSeq", "seq": 1.5}, "/seq"),
        ({"type": "atSeq", "seq": 1.0}, "/seq"),
        ({"type": "atSeq", "seq": True}, "/seq"),
        ({"type": "atSeq", "seq": "3"}, "/seq"),
        ({"type": "atSeq", "seq": None}, "/seq"),
        ({"type": "atSeq", "seq": 2**63}, "/seq"),
        ({"type": "throughSeq"}, "/seq"),
        ({"type": "latestSettled", "turn": 1}, "/turn"),
    ],
)
def test_anything_else_is_refused_naming_the_field(point: Any, field: str) -> None:
    with pytest.raises(InvalidPoint) as refused:
        parse_point(point)
    assert refused.value.field == field


@pytest.mark.django_db
class TestResolving:
    """What a point means in a history: turns of four events, a standalone event after the second."""

    @pytest.fixture
    def session(self, world: World) -> Session:
        source = world.new_source(turns=2)
        store.append(source.pk, [NewEvent("context", 5000, {"text": "between"}), *turn(3)])
        source.refresh_from_db()
        return source

    @pytest.mark.parametrize(
        ("seq", "ordinal"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (10, 3), (13, 3), (14, 3), (10**9, 3), (None, 3)]
    )
    def test_an_anchor_takes_the_first_turn_that_ends_there_or_later(
        self, session: Session, seq: int | None, ordinal: int
    ) -> None:
        point = {"type": "atSeq"} if seq is None else {"type": "atSeq", "seq": seq}
        resolved = resolve(session, parse_point(point))
        assert resolved.turn is not None
        assert resolved.turn.ordinal == ordinal
        assert resolved.seq == resolved.turn.last_seq

    def test_an_anchor_with_no_turn_end_after_it_never_falls_back(self, session: Session) -> None:
        store.append(session.pk, [NewEvent("context", 9000, {"text": "at the end"})])
        session.refresh_from_db()
        with pytest.raises(PointRefused) as refused:
            resolve(session, parse_point({"type": "atSeq", "seq": 14}))
        assert refused.value.code == "fork-unavailable"

    def test_through_a_turn_is_inclusive(self, session: Session) -> None:
        assert resolve(session, through(session, 2)).seq == 8

    def test_exact_seqs_are_for_hosted_sessions(self, session: Session) -> None:
        with pytest.raises(PointRefused) as refused:
            resolve(session, parse_point({"type": "throughSeq", "seq": 8}))
        assert refused.value.code == "point_not_supported"


@pytest.mark.django_db
@pytest.mark.parametrize(("seq", "code"), [(4, ""), (5, ""), (2, "fork_inside_turn"), (6, "invalid_fork_boundary")])
def test_an_exact_seq_of_a_hosted_session_lies_outside_of_turns(people: People, seq: int, code: str) -> None:
    session = store.create(workspace=people.workspace, provider="hosted", title="Notes")
    store.append(session.pk, [*turn(1), NewEvent("context", 5000, {"text": "after"})])
    session.refresh_from_db()
    point = parse_point({"type": "throughSeq", "seq": seq})
    if not code:
        assert resolve(session, point).seq == seq
        assert history.digest_at(session, seq)
        return
    with pytest.raises(PointRefused) as refused:
        resolve(session, point)
    assert refused.value.code == code
