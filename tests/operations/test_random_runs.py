"""A random run of everything that can happen to forks, judged after every step.

Requests and replays, workers that die before and after the mark, answers lost, torn or late, look-ups, operators,
acknowledgements, switches of the contract. That the rare ways were really taken is checked at the end.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from forkhost.kit.leases import Lease
from operations import dispatch, evidence, recovery, saga
from operations.choices import MOVES, OPEN_STATUSES, OperationStatus
from operations.models import Evidence, Operation, OperationAudit, RequestAlias
from operations.outcomes import Made
from operations.saga import transitions
from sessions import lineage, store
from sessions.choices import ForkContract
from sessions.errors import SessionFenced
from sessions.models import Lineage, Session, Workspace
from sessions.providers.base import ForkAccepted, TurnBinding, TurnMapping
from sessions.workspaces import join
from tests.operations.support import ACTOR, LEASE_SECONDS, World, make_world, through, turn

S = OperationStatus
STEPS = [
    "accept",
    "accept",
    "accept",
    "reject",
    "not_started",
    "lose",
    "lose_answer",
    "torn",
    "explode",
    "half",
    "half",
]
EXAMPLES, STEP_COUNT = 10, 80
# What may happen next; what is named more often happens more often.
HAPPENINGS = [
    *["ask"] * 4,
    "ask_again",
    "reuse_the_request_id",
    *["acknowledge"] * 2,
    "switch",
    *["the_source_goes_on"] * 3,
    *["a_worker_works"] * 3,
    "a_worker_dies_before_the_mark",
    "a_worker_dies_after_the_mark",
    *["a_worker_that_lost_its_operation_answers"] * 2,
    *["sweep"] * 2,
    *["look_up"] * 4,
    *["settle"] * 2,
]

seen: Counter[str] = Counter()


class Forks(RuleBasedStateMachine):
    """One workspace, one source, one runner, and whatever happens."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        name = uuid.uuid4().hex
        workspace = Workspace.objects.create(name=name, slug=name)
        user = User.objects.create(username=name)
        join(user, workspace)
        self.world: World = make_world(workspace, user, self.folder / name)
        self.world.agent.configure(process="dead")
        self.requests: list[saga.PrepareRequest] = []
        self.answers: dict[str, uuid.UUID] = {}
        self.zombies: list[tuple[Operation, Lease, uuid.UUID]] = []

    @property
    def mine(self) -> Any:
        return Operation.objects.filter(workspace_id=self.world.workspace.pk)

    def pick(self, number: int, *statuses: S) -> Operation | None:
        rows = list(self.mine.filter(status__in=statuses).order_by("prepared_at", "pk"))
        return rows[number % len(rows)] if rows else None

    @initialize(luck=st.integers(0, 2**32))
    def begin(self, luck: int) -> None:
        """A run is its seed: the same luck, the same happenings."""
        self.random = random.Random(luck)
        self.switch(self.random.randrange(2))

    @rule()
    def happen(self) -> None:
        """One rule, so that every run mixes everything."""
        getattr(self, self.random.choice(HAPPENINGS))(self.random.randrange(60))

    # Callers -------------------------------------------------------------------------------------------------------

    def ask(self, number: int) -> None:
        self._ask(self.world.request(point=through(self.world.source, number % 3 + 1)))

    def ask_again(self, number: int) -> None:
        if not self.requests:
            return
        self._ask(self.requests[number % len(self.requests)])
        seen["replayed"] += 1

    def reuse_the_request_id(self, number: int) -> None:
        if not self.requests:
            return
        old = self.requests[number % len(self.requests)]
        with pytest.raises(saga.Refused, match="used for a different fork"):
            saga.prepare(self.world.request(request_id=old.request_id))

    def acknowledge(self, number: int) -> None:
        operation = self.pick(number, *S)
        if operation is None:
            return
        if operation.status == S.COMMITTED:
            assert saga.acknowledge(operation.pk, "user:x").observed_at is not None
            seen["acknowledged"] += 1
        else:
            with pytest.raises(saga.Refused, match="Only a committed fork"):
                saga.acknowledge(operation.pk, "user:x")

    def switch(self, number: int) -> None:
        self.world.workspace.fork_contract = ForkContract.values[number % 2]
        self.world.workspace.save()

    def the_source_goes_on(self, number: int) -> None:
        self.world.source.refresh_from_db()
        try:
            store.append(self.world.source.pk, turn(self.world.source.turn_count + 1))
        except SessionFenced:
            seen["fenced"] += 1

    # Workers -------------------------------------------------------------------------------------------------------

    def a_worker_works(self, number: int) -> None:
        self.world.agent.script(STEPS[number % len(STEPS)])
        self.world.work()

    def a_worker_dies_before_the_mark(self, number: int) -> None:
        self._bury(self.world.claim())

    def a_worker_dies_after_the_mark(self, number: int) -> None:
        lease = self.world.claim()
        operation = self.mine.filter(pk=lease.pk, status=S.PREPARED).first() if lease else None
        if lease is None or operation is None:
            self._bury(lease)
            return
        token = transitions.mark_dispatching(operation, lease, ACTOR)
        operation.refresh_from_db()
        if number % 2:
            self.world.agent.add_child(
                source=operation.source_provider_session_id,
                turn=operation.source_provider_turn_id,
                marker=f"forkhost:{operation.pk}",
            )
        else:
            self.zombies.append((operation, lease, token))
        self._bury(lease)
        seen["worker_lost"] += 1

    def a_worker_that_lost_its_operation_answers(self, number: int) -> None:
        if not self.zombies:
            return
        operation, lease, token = self.zombies.pop()
        if number % 4:
            recovery.sweep()
        child = self.world.agent.add_child(
            source=operation.source_provider_session_id, turn=operation.source_provider_turn_id, marker="late"
        )
        bound = TurnBinding(operation.source_provider_turn_id)
        accepted = ForkAccepted(child, [TurnMapping(bound.provider_turn_id, bound)], True, {"bound": {}}, None)
        try:
            transitions.accept(operation, lease, token, accepted, ACTOR)
        except transitions.Lost:
            assert evidence.leave_late_answer(operation, token, Made(accepted), ACTOR) is not None
            seen["late_answer"] += 1
        else:
            # Nobody had noticed that the lease ran out.
            seen["in_time"] += 1

    def sweep(self, number: int) -> None:
        recovery.sweep()

    def look_up(self, number: int) -> None:
        operation = self.pick(number, S.UNKNOWN)
        if operation is not None:
            Operation.objects.filter(pk=operation.pk).update(next_run_at=operation.prepared_at)
            lease = self.world.claim()
            assert lease is not None
            dispatch.work(lease, actor=ACTOR, lease_seconds=LEASE_SECONDS)
            seen["looked_up"] += 1

    # Operators -----------------------------------------------------------------------------------------------------

    def settle(self, number: int) -> None:
        operation = self.pick(number, S.UNKNOWN)
        if operation is None:
            return
        common: dict[str, Any] = {"actor": "user:op", "reason": "Seen.", "expected_version": operation.version}
        try:
            if child := self._verified(operation):
                saga.adopt(operation.pk, child, **common)
                seen["adopted"] += 1
            elif number % 4 == 0:
                saga.adopt(operation.pk, "nobody's", **common)
            elif number % 2:
                saga.confirm_not_created(operation.pk, **common)
            else:
                saga.keep_unknown(operation.pk, **common)
        except saga.Refused as refused:
            seen[f"not settled: {refused.code}"] += 1

    # What must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_is_called_twice(self) -> None:
        calls = Counter(call["operation"] for call in self.world.agent.calls)
        assert all(count == 1 for count in calls.values())
        sent = {str(pk) for pk in self.mine.filter(calls=1).values_list("pk", flat=True)}
        assert set(calls) <= sent

    @invariant()
    def every_child_shown_was_made_and_is_shown_once(self) -> None:
        made = {child["id"] for child in self.world.agent.children}
        shown = list(
            Session.objects.filter(workspace=self.world.workspace, fork_operation_id__isnull=False).values_list(
                "provider_session_id", "turn_count", "last_seq", "fork_operation_id"
            )
        )
        assert len({row[0] for row in shown}) == len(shown)
        assert {row[0] for row in shown} <= made
        committed = {
            row.pk: (row.child_provider_session_id, row.resolved_ordinal, row.resolved_seq)
            for row in self.mine.filter(status=S.COMMITTED)
        }
        assert {row[3]: row[:3] for row in shown} == committed

    @invariant()
    def states_move_along_the_drawn_edges_and_each_move_says_who_and_why(self) -> None:
        rows: dict[uuid.UUID, list[OperationAudit]] = {operation.pk: [] for operation in self.mine}
        for row in OperationAudit.objects.filter(operation_id__in=rows).order_by("operation_id", "sequence"):
            rows[row.operation_id].append(row)
        for operation in self.mine:
            state = ""
            for number, row in enumerate(rows[operation.pk], start=1):
                assert (row.sequence, bool(row.actor), bool(row.reason)) == (number, True, True)
                if row.to_status:
                    assert row.from_status == state
                    assert not state or S(row.to_status) in MOVES[S(state)]
                    state = row.to_status
            assert (state, len(rows[operation.pk])) == (operation.status, operation.version)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        assert not self.mine.filter(status__in=OPEN_STATUSES, next_run_at__isnull=True).exists()
        waiting = self.mine.filter(status=S.UNKNOWN, next_run_at__isnull=True)
        assert not waiting.filter(needs_person=False).exists()

    @invariant()
    def settled_unknowns_have_evidence_or_an_operators_reason(self) -> None:
        settled = OperationAudit.objects.filter(from_status=S.UNKNOWN, operation_id__in=self.mine.values("pk"))
        for row in settled:
            assert row.detail.get("reason") or Evidence.objects.filter(pk=row.detail["evidence"]).exists()

    @invariant()
    def a_request_id_stands_for_one_operation(self) -> None:
        for request_id, operation_id in self.answers.items():
            alias = RequestAlias.objects.get(workspace_id=self.world.workspace.pk, request_id=request_id)
            assert alias.operation_id == operation_id

    @invariant()
    def targets_are_never_shared(self) -> None:
        targets = list(self.mine.exclude(status=S.FAILED).values_list("target_session_id", flat=True))
        assert len(set(targets)) == len(targets)

    @invariant()
    def a_fence_belongs_to_a_fork_on_its_way(self) -> None:
        fence = Session.objects.values_list("write_fence", flat=True).get(pk=self.world.source.pk)
        strict = self.mine.filter(contract=ForkContract.STRICT)
        assert fence is None or strict.filter(pk=fence, status__in=OPEN_STATUSES).exists()
        # An adopted fork goes on without a fence: its history was frozen at prepare.
        needs = strict.filter(status__in=(S.PREPARED, S.DISPATCHING)).values_list("pk", flat=True)
        assert list(needs) in ([], [fence])

    @invariant()
    def lineage_leads_from_each_child_to_its_source(self) -> None:
        rows = Lineage.objects.filter(workspace_id=self.world.workspace.pk)
        assert {row.source_session_id for row in rows} <= {self.world.source.pk}
        assert len(lineage.forks_of(self.world.source.pk)) == rows.count()

    # Helpers -------------------------------------------------------------------------------------------------------

    def _ask(self, request: saga.PrepareRequest) -> None:
        try:
            answer = saga.prepare(request)
        except saga.Refused as refused:
            seen[f"refused: {refused.code}"] += 1
            return
        if request not in self.requests:
            self.requests.append(request)
            seen["barrier"] += answer.replayed
        assert self.answers.setdefault(request.request_id, answer.operation.pk) == answer.operation.pk

    def _verified(self, operation: Operation) -> str:
        """A child that a look-up proved to be the operation's; "" when there is none."""
        found = [
            child
            for row in Evidence.objects.filter(operation_id=operation.pk)
            for child in row.detail.get("verified", {})
        ]
        return found[0] if found else ""

    def _bury(self, lease: Lease | None) -> None:
        if lease is not None:
            long_ago = Operation.objects.get(pk=lease.pk).prepared_at
            Operation.objects.filter(pk=lease.pk).update(lease_until=long_ago)


WAYS = (
    "replayed",
    "barrier",
    "fenced",
    "refused: session_fenced",
    "refused: fork_in_progress",
    "worker_lost",
    "late_answer",
    "looked_up",
    "adopted",
    "acknowledged",
)
# Nothing else may be refused in these runs.
REFUSALS = {
    "refused: session_fenced",
    "refused: fork_in_progress",
    "not settled: evidence_missing",
    "not settled: child_taken",
}


@pytest.mark.django_db
def test_whatever_happens_no_fork_is_doubled_or_lost(tmp_path: Path, fake_agent: None) -> None:
    machine: Callable[[], Forks] = type("Run", (Forks,), {"folder": tmp_path})
    seen.clear()
    run_state_machine_as_test(
        seed(20260729)(machine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEP_COUNT,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert [way for way in WAYS if not seen[way]] == []
    assert {way for way in seen if "refused" in way or "settled" in way} <= REFUSALS
    assert set(Operation.objects.values_list("status", flat=True)) >= {S.COMMITTED, S.FAILED, S.UNKNOWN}
