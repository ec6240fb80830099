"""What must hold after every step, whatever happened: I1 to I10, and the fences."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from typing import Any

from operations.choices import MOVES, OPEN_STATUSES, SETTLEMENTS, Act, NotificationKind, OperationStatus
from operations.models import Evidence, Notification, Operation, OperationAudit, RequestAlias
from sessions import history
from sessions.choices import ForkContract
from sessions.models import Lineage, Session
from sessions.store import Snapshot
from tests.random_runs.model import Model
from tests.random_runs.places import Tenant

S = OperationStatus
LARGE = ("snapshot", "result_session", "binding", "receipt", "frozen", "target_mapping")


class Judge:
    """Looks at a run from outside. Each check raises AssertionError; what was proven of immutable rows is kept."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sources = {tenant.workspace.pk: tenant.source_bytes() for tenant in model.tenants}
        self.ended: dict[uuid.UUID, tuple[int, str]] = {}
        self.proven: set[uuid.UUID] = set()
        self.steps = 0

    def check(self) -> None:
        """Every invariant once."""
        self.steps += 1
        self.operations = {row.pk: row for row in self.model.mine().defer(*LARGE)}
        self.model.order.update(
            dict.fromkeys(
                sorted(set(self.operations) - set(self.model.order), key=lambda pk: self.operations[pk].prepared_at)
            )
        )
        rows = Session.objects.filter(workspace_id__in=self.sources).defer("binding_map")
        self.sessions = {row.pk: row for row in rows}
        self.i1_nobody_is_called_twice()
        self.i2_children_shown_are_children_made()
        self.i3_states_move_along_the_drawn_edges()
        self.i4_a_request_id_is_one_operation()
        self.i5_targets_are_never_shared_or_used_again()
        self.i6_sources_stay_what_they_are()
        self.i7_nobody_sees_another_workspace()
        self.i8_lineage_is_a_forest()
        self.i9_every_unknown_is_in_the_queue()
        self.fences_belong_to_forks_on_their_way()

    def i1_nobody_is_called_twice(self) -> None:
        for tenant in self.model.tenants:
            calls = Counter(call["operation"] for call in tenant.seen("calls"))
            assert all(count == 1 for count in calls.values()), calls
            sent = {str(row.pk) for row in self._of(tenant) if row.calls == 1}
            assert set(calls) <= sent
            unsent = [row for row in self._of(tenant) if row.calls == 0]
            assert all(row.dispatch_token is None for row in unsent)

    def i2_children_shown_are_children_made(self) -> None:
        for tenant in self.model.tenants:
            made = {child["id"]: uuid.UUID(child["operation"]) for child in tenant.seen("children")}
            assert max(Counter(made.values()).values(), default=0) <= 1
            for session in self._forks(tenant):
                operation = self.operations[session.fork_operation_id]
                assert made[session.provider_session_id] == operation.pk
                assert (operation.status, operation.target_session_id) == (S.COMMITTED, session.pk)
                self._prove_child(session)
            for child, operation_id in made.items():
                self._not_lost(child, self.operations[operation_id])
            for operation in self._of(tenant):
                there = operation.target_session_id in self.sessions
                gone = operation.target_session_id in self.model.purged
                if operation.status == S.COMMITTED:
                    assert there or gone

    def _not_lost(self, child: str, operation: Operation) -> None:
        """A child that exists is shown, is on its way, or is somebody's open question."""
        if operation.status in (S.COMMITTED, S.PROVIDER_ACCEPTED):
            assert operation.child_provider_session_id == child
        else:
            assert operation.status in (S.DISPATCHING, S.UNKNOWN) or self._confirmed(operation), (
                f"{operation.pk} is {operation.status} ({operation.error_code}), and the agent has {child}"
            )

    def _confirmed(self, operation: Operation) -> bool:
        """A person said that there was no child."""
        return OperationAudit.objects.filter(operation_id=operation.pk, reason=Act.CONFIRMED_NOT_CREATED).exists()

    def _prove_child(self, session: Session) -> None:
        """Once, right after it was made: it is exactly what was frozen, and its turns are its source's."""
        if session.pk in self.proven:
            return
        self.proven.add(session.pk)
        operation = Operation.objects.get(pk=session.fork_operation_id)
        snapshot = Snapshot.from_json(operation.snapshot)
        assert (session.seed_length, operation.target_seq) == (operation.resolved_seq, operation.resolved_seq)
        assert history.digest_at(session, session.seed_length).hex() == snapshot.digest
        ordinal = operation.resolved_ordinal or 0
        own = [each.provider_turn_id for each in history.bindings_through(session, ordinal)]
        frozen = self.model.frozen.get(operation.pk)
        if frozen is None:
            return
        assert own[-1].endswith(frozen[ordinal - 1]), "the child cannot be forked where it begins"
        for mine, theirs in zip(own, frozen[:ordinal], strict=True):
            assert not mine or mine.endswith(theirs), f"a turn of the child is tied to another: {mine}, not {theirs}"

    def i3_states_move_along_the_drawn_edges(self) -> None:
        """And I10: each act has an actor; each settlement its reason and evidence."""
        moved = [row for row in self.operations.values() if self.ended.get(row.pk, (0, ""))[0] != row.version]
        rows: dict[uuid.UUID, list[OperationAudit]] = defaultdict(list)
        for act in OperationAudit.objects.filter(operation_id__in=[row.pk for row in moved]).order_by("sequence"):
            rows[act.operation_id].append(act)
        for operation in moved:
            seen, state = self.ended.get(operation.pk, (0, ""))
            assert [act.sequence for act in rows[operation.pk]] == list(range(1, operation.version + 1))
            for act in rows[operation.pk][seen:]:
                assert act.actor
                assert act.reason in Act.values
                if act.to_status:
                    assert act.from_status == state
                    assert not state or S(act.to_status) in MOVES[S(state)]
                    state = act.to_status
                if act.from_status == S.UNKNOWN and act.to_status:
                    self.i10_a_settlement_says_who_why_and_by_what(act)
            assert state == operation.status
            self.ended[operation.pk] = (operation.version, state)
            self._told(operation, rows[operation.pk])

    def i10_a_settlement_says_who_why_and_by_what(self, act: OperationAudit) -> None:
        assert act.reason in SETTLEMENTS
        by_person = act.actor.startswith("user:")
        if act.reason == Act.CONFIRMED_NOT_CREATED or by_person:
            assert by_person
            assert act.detail["reason"]
        if act.reason != Act.CONFIRMED_NOT_CREATED:
            found = Evidence.objects.get(pk=act.detail["evidence"], operation_id=act.operation_id)
            if act.reason == Act.ADOPTED:
                assert act.detail["child"] in {*found.detail.get("verified", {}), self._late(found)}
            if act.reason == Act.PROVEN_NOT_CREATED:
                assert found.absence_proves
        self.model.reached[f"settled: {act.reason}"] += 1

    @staticmethod
    def _late(evidence: Evidence) -> str:
        return str((evidence.detail.get("accepted") or {}).get("child", ""))

    def _told(self, operation: Operation, acts: list[OperationAudit]) -> None:
        """The webhook is told of every settlement, and of each time a person is needed, once."""
        told = Counter(Notification.objects.filter(operation_id=operation.pk).values_list("kind", flat=True))
        settled = sum(act.from_status == S.UNKNOWN and act.reason in SETTLEMENTS for act in acts)
        assert told[NotificationKind.SETTLED] == settled
        assert told[NotificationKind.NEEDS_PERSON] >= operation.needs_person
        self.model.reached["person needed"] += operation.needs_person

    def i4_a_request_id_is_one_operation(self) -> None:
        if len(self.model.answers) and self.steps % 5 == 0:
            rows = RequestAlias.objects.filter(workspace_id__in=self.sources)
            found = {(row.workspace_id, row.request_id): row.operation_id for row in rows}
            assert len(found) == len(rows)
            assert {key: found.get(key) for key in self.model.answers} == self.model.answers

    def i5_targets_are_never_shared_or_used_again(self) -> None:
        owners: dict[uuid.UUID, uuid.UUID] = {}
        for operation in self.operations.values():
            if operation.status != S.FAILED:
                assert operation.target_session_id not in owners
                owners[operation.target_session_id] = operation.pk
                session = self.sessions.get(operation.target_session_id)
                assert session is None or session.fork_operation_id == operation.pk
        for session_id in self.model.purged:
            assert session_id not in self.sessions
            owner = owners.get(session_id)
            assert owner is None or self.operations[owner].status == S.COMMITTED

    def i6_sources_stay_what_they_are(self) -> None:
        for tenant in self.model.tenants:
            if self.steps % 10 == 0:
                assert tenant.source_bytes() == self.sources[tenant.workspace.pk]
        # One session after the other: what is written never changes, so that it is found out soon enough.
        session = self.model.one(sorted(self.sessions), self.steps // 2)
        if session is None or self.steps % 2:
            return
        row = Session.objects.select_related("log").get(pk=session)
        known = self.model.histories.get(row.pk)
        if known is not None:
            assert row.last_seq >= known[0]
            assert history.digest_at(row, known[0]) == known[1], "history was written anew"
        self.model.histories[row.pk] = (row.last_seq, history.digest_at(row, row.last_seq))

    def i7_nobody_sees_another_workspace(self) -> None:
        turn = self.steps // 3
        if self.steps % 3:
            return
        tenant = self.model.tenants[turn % len(self.model.tenants)]
        user = tenant.clients[turn // 2 % len(tenant.clients)]
        for model in (Operation, Session):
            rows: Any = model.objects.visible_to(user)
            assert set(rows.values_list("workspace_id", flat=True)) <= {tenant.workspace.pk}
        private = Session.objects.visible_to(user).filter(visibility="private").exclude(created_by_id=user.pk)
        assert not private.exists()

    def i8_lineage_is_a_forest(self) -> None:
        parents = {
            row.child_session_id: row
            for row in Lineage.objects.filter(workspace_id__in=self.sources).only(
                "child_session_id", "source_session_id", "operation_id"
            )
        }
        for child, row in parents.items():
            operation = self.operations[row.operation_id]
            assert (operation.target_session_id, operation.source_session_id) == (child, row.source_session_id)
            above, at = {child}, row.source_session_id
            while at in parents:
                assert at not in above, "a session is its own ancestor"
                above.add(at)
                at = parents[at].source_session_id
        for session in self.sessions.values():
            assert (session.fork_operation_id is not None) == (session.pk in parents)

    def i9_every_unknown_is_in_the_queue(self) -> None:
        queued = set(self.model.mine().queue().values_list("pk", flat=True))
        for operation in self.operations.values():
            if operation.status == S.UNKNOWN:
                assert operation.pk in queued
                assert operation.next_run_at is not None or operation.needs_person
            if operation.status in OPEN_STATUSES:
                assert operation.next_run_at is not None
            if operation.status in (S.COMMITTED, S.FAILED):
                assert operation.next_run_at is None
                assert operation.lease_token is None

    def fences_belong_to_forks_on_their_way(self) -> None:
        fences = {row.pk: row.write_fence for row in self.sessions.values() if row.write_fence is not None}
        strict = [row for row in self.operations.values() if row.contract == ForkContract.STRICT]
        for source, fence in fences.items():
            operation = self.operations[fence]
            assert (operation.source_session_id, operation.contract) == (source, ForkContract.STRICT)
            assert operation.status in OPEN_STATUSES
        # An adopted fork goes on without a fence: its history was frozen at prepare.
        for operation in strict:
            if operation.status in (S.PREPARED, S.DISPATCHING):
                assert fences[operation.source_session_id] == operation.pk
        barriers = Counter(
            (row.source_session_id, row.resolved_seq)
            for row in strict
            if row.status != S.FAILED and row.observed_at is None
        )
        assert max(barriers.values(), default=0) <= 1

    def _of(self, tenant: Tenant) -> list[Operation]:
        return [row for row in self.operations.values() if row.workspace_id == tenant.workspace.pk]

    def _forks(self, tenant: Tenant) -> list[Session]:
        rows = self.sessions.values()
        return [row for row in rows if row.workspace_id == tenant.workspace.pk and row.fork_operation_id is not None]
