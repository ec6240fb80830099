"""Whatever is done in whatever order, every session shows exactly what a plain list would."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from sessions import history, store
from sessions.errors import ForkInsideTurn, TurnConflict
from sessions.models import Event, EventLog, Session, Turn, Workspace
from tests.store.histories import fresh, hosted

START, WORD, END, ALONE = "turn.start", "message.user", "turn.end", "context"


@dataclass
class Told:
    """What a session ought to show: kind, number and turn of each event."""

    session_id: uuid.UUID
    events: list[tuple[str, int, int | None]] = field(default_factory=list)
    turns: int = 0
    seed: int = 0
    revision: int = 0

    @property
    def open(self) -> bool:
        """Whether the last turn is open."""
        brackets = [kind for kind, _, _ in self.events if kind in (START, END)]
        return bool(brackets) and brackets[-1] == START

    def add(self, kind: str, number: int) -> None:
        """Append as the store has to."""
        if kind == START:
            if self.open:
                self.events.append((END, -1, self.turns))
            self.turns += 1
            self.events.append((START, number, self.turns))
        else:
            self.events.append((kind, number, self.turns if self.open else None))

    def through(self, seq: int) -> Told:
        """The same, cut."""
        events = self.events[:seq]
        return replace(self, events=events, turns=max((turn or 0 for _, _, turn in events), default=0))

    def inside(self, seq: int) -> bool:
        """Whether a cut after ``seq`` lies inside a turn."""
        return self.through(seq).open


class Histories(RuleBasedStateMachine):
    """Appends, forks, rewinds and purges over a family of sessions."""

    workspace: Workspace

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.number = 0
        self.told = [Told(hosted(self.workspace).pk)]

    def teardown(self) -> None:
        try:
            self.check_the_end()
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    def pick(self, data: Any) -> Told:
        """One of the living sessions."""
        chosen: Told = data.draw(st.sampled_from(self.told))
        return chosen

    @rule(data=st.data(), kinds=st.lists(st.sampled_from([START, WORD, END, ALONE]), min_size=1, max_size=6))
    def append(self, data: Any, kinds: list[str]) -> None:
        told = self.pick(data)
        copy, entries = replace(told, events=list(told.events)), []
        legal = True
        for kind in kinds:
            self.number += 1
            legal = legal and (kind != END or copy.open)
            copy.add(kind, self.number)
            if kind == START:
                entries.append(store.TurnStart(self.number, f"p{self.number}"))
            elif kind == END:
                entries.append(store.TurnEnd(self.number, "completed"))
            else:
                entries.append(store.NewEvent(kind, self.number, {"n": self.number}))
        if not legal:
            with pytest.raises(TurnConflict):
                store.append(told.session_id, entries)
            return
        appended = store.append(told.session_id, entries, expected_revision=told.revision)
        assert (appended.first_seq, appended.last_seq) == (len(told.events) + 1, len(copy.events))
        self.told[self.told.index(told)] = copy

    @precondition(lambda self: len(self.told) < 6)
    @rule(data=st.data())
    def fork(self, data: Any) -> None:
        told = self.pick(data)
        boundary = data.draw(st.integers(1, len(told.events))) if told.events else None
        seq = boundary or 0
        snapshot_of = store.freeze
        if told.inside(seq):
            with pytest.raises(ForkInsideTurn):
                snapshot_of(told.session_id, boundary)
            return
        snapshot = store.Snapshot.from_json(snapshot_of(told.session_id, boundary).to_json())
        child = store.materialise(snapshot, uuid.uuid4(), operation_id=uuid.uuid4(), title="child", binding_kept=True)
        self.told.append(replace(told.through(seq), session_id=child.pk, seed=seq, revision=0))

    @rule(data=st.data())
    def rewind(self, data: Any) -> None:
        told = self.pick(data)
        through = data.draw(st.integers(0, len(told.events)))
        store.rewind(told.session_id, through)
        while told.inside(through):
            through -= 1
        if through == len(told.events):
            return
        cut = told.through(through)
        self.told[self.told.index(told)] = replace(cut, seed=min(told.seed, through), revision=told.revision + 1)

    @precondition(lambda self: len(self.told) > 1)
    @rule(data=st.data())
    def purge(self, data: Any) -> None:
        told = self.pick(data)
        store.purge.__wrapped__(told.session_id)  # type: ignore[attr-defined]
        self.told.remove(told)

    @invariant()
    def every_session_shows_what_it_ought_to(self) -> None:
        for told in self.told:
            session = fresh(Session(pk=told.session_id))
            views = history.events(session, limit=1000)
            assert [(view.kind, view.turn_no) for view in views] == [(kind, turn) for kind, _, turn in told.events]
            numbers = [view.at_unix_ms for view, (_, number, _) in zip(views, told.events, strict=True) if number > 0]
            assert numbers == [number for _, number, _ in told.events if number > 0]
            assert [view.seq for view in views] == list(range(1, len(views) + 1))
            assert (session.last_seq, session.seed_length) == (len(told.events), told.seed)
            assert (session.turn_count, session.history_revision) == (told.turns, told.revision)
            turns = history.turns(session, limit=1000)
            assert [view.ordinal for view in turns] == list(range(1, told.turns + 1))

    def check_the_end(self) -> None:
        """Ids lead back to their turns, and after everything is purged nothing is left."""
        for told in self.told:
            session = fresh(Session(pk=told.session_id))
            assert all(history.turn_by_id(session, view.id) == view for view in history.turns(session, limit=1000))
            assert len(history.event_digests(session, 1, session.last_seq)) == session.last_seq
        for told in self.told:
            store.purge.__wrapped__(told.session_id)  # type: ignore[attr-defined]
        assert (Event.objects.count(), Turn.objects.count(), EventLog.objects.count()) == (0, 0, 0)


@pytest.mark.django_db
def test_every_session_shows_what_a_plain_list_would(workspace: Workspace) -> None:
    assert connection.in_atomic_block
    Histories.workspace = workspace
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=12,
            stateful_step_count=16,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
