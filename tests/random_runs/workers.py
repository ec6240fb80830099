"""What workers do and what becomes of them: two on each runner, killed, stalled, overtaken, restarted."""

from __future__ import annotations

import datetime as dt

from django.db.models import F

from forkhost.kit import clock
from forkhost.kit.leases import Lease
from operations import dispatch, holdings, recovery, worker
from operations.choices import OperationStatus
from operations.models import Evidence, Operation
from sessions import runners
from sessions.providers.base import DiscoveredSession, HomeRef, SessionRef
from sessions.providers.crashpoints import CrashPoint
from tests.operations.support import LEASE_SECONDS
from tests.random_runs.model import Model
from tests.random_runs.places import Killed, Tenant, die, meanwhile

S = OperationStatus
LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
STEPS = (*["accept"] * 5, "reject", "not_started", *["lose"] * 2, *["lose_answer"] * 2, "torn", "explode", "half")
# Where no transaction is open, so that others can act while this worker stands there.
BETWEEN = (
    CrashPoint.AFTER_DISPATCH_MARK,
    CrashPoint.DURING_CALL,
    CrashPoint.AFTER_CHILD_MADE,
    CrashPoint.AFTER_CALL,
    CrashPoint.AFTER_ACCEPT,
)
DEADLY = (*BETWEEN, CrashPoint.DURING_MATERIALISE, CrashPoint.AFTER_COMMIT)


class Workers(Model):
    """Two workers a runner; each is a name under which leases are held."""

    def remember_workers(self) -> None:
        """Nobody holds anything."""
        self.stalled: list[tuple[Tenant, str, Lease]] = []

    def a_worker_works(self, number: int) -> None:
        """One claim, taken as far as it goes."""
        tenant = self.tenant(number)
        tenant.next_call(STEPS[number % len(STEPS)])
        self._work(tenant, self._name(number))

    def a_worker_is_killed(self, number: int) -> None:
        """At one of the places where it hurts."""
        tenant, point = self.tenant(number), DEADLY[number % len(DEADLY)]
        tenant.next_call(STEPS[number // 2 % len(STEPS)])
        name = self._name(number)
        try:
            with meanwhile(point, die):
                self._work(tenant, name)
        except Killed:
            Operation.objects.filter(lease_owner=name).update(lease_until=LONG_AGO)
            self.reached[f"killed {point.value}"] += 1

    def a_worker_is_overtaken(self, number: int) -> None:
        """It loses its lease in the middle, somebody else acts, and it goes on as if nothing had happened."""
        tenant, point = self.tenant(number), BETWEEN[number % len(BETWEEN)]
        tenant.next_call(STEPS[number // 3 % len(STEPS)], process="self")
        name, other = self._name(number), self._name(number + 1)
        late = Evidence.objects.filter(method="late_answer").count()

        def overtake() -> None:
            Operation.objects.filter(lease_owner=name).update(lease_until=LONG_AGO)
            if number % 4:
                recovery.sweep()
            if number % 3 == 0:
                self._work(tenant, other)
            elif number % 3 == 1:
                self.operator_settles(number)  # type: ignore[attr-defined]
            self.reached["lease lost"] += 1

        with meanwhile(point, overtake):
            self._work(tenant, name)
        self.reached["late answer"] += Evidence.objects.filter(method="late_answer").count() > late

    def a_worker_stalls(self, number: int) -> None:
        """It claims and does nothing, until it goes on, perhaps long after others took over."""
        tenant, name = self.tenant(number), self._name(number)
        lease = worker.claim_next(tenant.world.runner, name, LEASE_SECONDS)
        if lease is not None:
            self.stalled.append((tenant, name, lease))

    def a_stalled_worker_goes_on(self, number: int) -> None:
        """Its lease is what it believes in; the database knows better."""
        if not self.stalled:
            return
        tenant, name, lease = self.stalled.pop(number % len(self.stalled))
        owned = Operation.objects.filter(pk=lease.pk, lease_token=lease.token).exists()
        self.reached["stalled worker went on" if owned else "stalled worker had lost its lease"] += 1
        tenant.next_call("accept")
        dispatch.work(lease, actor=name, lease_seconds=LEASE_SECONDS)

    def leases_run_out(self, number: int) -> None:
        """Time passes for whoever holds something."""
        self.mine(lease_token__isnull=False).update(lease_until=LONG_AGO)

    def what_waits_is_due(self, number: int) -> None:
        """Time passes for whatever wants to be tried or looked at again."""
        self.mine(next_run_at__isnull=False).update(next_run_at=F("prepared_at"))
        if number % 5 == 0:
            self.mine(status=S.UNKNOWN, dispatched_at__isnull=False).update(
                dispatched_at=F("dispatched_at") - dt.timedelta(days=2)
            )
            self.reached["looked up for long"] += 1

    def nobody_came_in_time(self, number: int) -> None:
        """A strict fork that waited too long is not sent any more."""
        waiting = self.operations(None, S.PREPARED)
        operation = self.one([each for each in waiting if each.dispatch_by is not None], number)
        if operation is not None:
            Operation.objects.filter(pk=operation.pk).update(dispatch_by=LONG_AGO)
            self.reached["overdue"] += 1

    def a_runner_starts_anew(self, number: int) -> None:
        """Both its workers are gone, and it has a new incarnation."""
        tenant = self.tenant(number)
        Operation.objects.filter(queue=str(tenant.world.runner.pk), lease_token__isnull=False).update(
            lease_until=LONG_AGO
        )
        tenant.world.runner = runners.start(tenant.workspace, tenant.world.runner.name)
        self.reached["runner restarted"] += 1

    def sweep(self, number: int) -> None:
        """Somebody's sweep."""
        swept = recovery.sweep()
        self.reached["swept: lost"] += swept.lost
        self.reached["swept: lapsed"] += swept.lapsed
        self.reached["swept: settled by a late answer"] += swept.settled

    def a_fork_is_looked_up(self, number: int) -> None:
        """A worker looks for the child of an unknown fork."""
        tenant = self.tenant(number)
        operation = self.one(self.operations(tenant, S.UNKNOWN), number // 2)
        if operation is None:
            return
        Operation.objects.filter(pk=operation.pk).update(next_run_at=F("prepared_at"))
        self._work(tenant, self._name(number))
        operation.refresh_from_db(fields=("status",))
        self.reached[f"looked up, then {operation.status}"] += 1

    def an_importer_finds_a_child(self, number: int) -> None:
        """Discovery comes across one of the agent's children: it may not become a session behind its fork's back."""
        tenant = self.tenant(number)
        child = self.one(tenant.seen("children"), number // 2)
        if child is None:
            return
        home = tenant.world.home
        ref = SessionRef(HomeRef(home.provider, tenant.world.agent.folder), child["id"], None, "")
        now = clock.now_ms()
        found = DiscoveredSession(ref, "1", "", "", now, now, 1, "1", fork_operation_id=child.get("marker", ""))
        held = holdings.answer(home.pk, found)
        operation = Operation.objects.get(pk=child["operation"])
        if operation.status == S.COMMITTED:
            assert held is None
        elif operation.status in (S.DISPATCHING, S.PROVIDER_ACCEPTED, S.UNKNOWN) and child.get("marker"):
            assert held is not None
            self.reached["found child held back"] += 1

    def the_agent_has_trouble(self, number: int) -> None:
        """The child cannot be bound, or the turn is not to be found, or both are well again."""
        agent = self.tenant(number).world.agent
        agent.configure(bind="disk_full" if number % 3 == 0 else "", confirm="turn_gone" if number % 8 == 1 else "")

    def _work(self, tenant: Tenant, name: str) -> None:
        lease = worker.claim_next(tenant.world.runner, name, LEASE_SECONDS)
        if lease is not None:
            dispatch.work(lease, actor=name, lease_seconds=LEASE_SECONDS)

    @staticmethod
    def _name(number: int) -> str:
        return f"worker:{'one' if number // 4 % 2 else 'two'}"
