"""The state machine: one thing after another happens to two workspaces, and is judged each time."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from operations import recovery, saga
from operations.choices import OPEN_STATUSES, OperationStatus
from sessions.choices import ForkContract, Settlement
from tests.random_runs.clients import Clients
from tests.random_runs.invariants import Judge
from tests.random_runs.operators import Operators
from tests.random_runs.places import MANNERS, make_tenant
from tests.random_runs.workers import Workers

S = OperationStatus
STEPS_A_RUN = 100
# What may happen next; what has a larger number happens more often.
HAPPENINGS = {
    "ask": 10,
    "ask_and_die": 2,
    "ask_again": 2,
    "use_a_request_id_again": 2,
    "use_a_target_again": 2,
    "ask_for_what_is_not_theirs": 1,
    "read_what_is_not_theirs": 1,
    "acknowledge": 5,
    "a_session_goes_on": 4,
    "a_session_is_rewound": 1,
    "a_claim_is_opened": 1,
    "a_session_is_hidden": 3,
    "a_session_is_purged": 2,
    "a_worker_works": 10,
    "a_worker_is_killed": 6,
    "a_worker_is_overtaken": 5,
    "a_worker_stalls": 2,
    "a_stalled_worker_goes_on": 2,
    "leases_run_out": 3,
    "what_waits_is_due": 2,
    "nobody_came_in_time": 1,
    "a_runner_starts_anew": 1,
    "sweep": 5,
    "a_fork_is_looked_up": 7,
    "an_importer_finds_a_child": 3,
    "the_agent_has_trouble": 3,
    "operator_settles": 6,
    "operator_comes_too_late": 2,
    "operator_looks_after_it": 2,
    "contract_is_switched": 2,
    "forking_is_switched": 2,
    "settlement_is_switched": 2,
}
LOT = [name for name, weight in HAPPENINGS.items() for _ in range(weight)]

# Ways that have to be taken in every long run; what both contracts have in common.
WAYS = (
    "replayed",
    "replayed after its child was purged",
    "request id in conflict",
    "request id of another workspace",
    "target of a failed fork used again",
    "stranger refused",
    "stranger read nothing",
    "killed while preparing",
    "killed after_dispatch_mark",
    "killed during_call",
    "killed after_child_made",
    "killed after_call",
    "killed after_accept",
    "killed during_materialise",
    "killed after_commit",
    "acknowledged",
    "acknowledged after a purge",
    "acknowledgement lost",
    "fork of a fork",
    "fork of a fork of a fork",
    "rewound",
    "hidden",
    "restored",
    "detached",
    "source purged",
    "fork purged",
    "purged while a fork of it is unknown",
    "lease lost",
    "late answer",
    "stalled worker went on",
    "stalled worker had lost its lease",
    "runner restarted",
    "swept: lost",
    "swept: settled by a late answer",
    "looked up, then unknown",
    "looked up, then failed",
    "looked up, then provider_accepted",
    "found child held back",
    "adopted by an operator",
    "confirmed as not created",
    "operator came too late",
    "marked as seen",
    "person needed",
    "contract switched",
    "settled: adopted",
    "settled: late_answer",
    "settled: proven_not_created",
    "settled: confirmed_not_created",
    "refused: forks_disabled",
    "refused: target_reserved",
    "refused: session_held",
    "refused: evidence_missing",
    "at rest",
)
# Under the strict contract no two unknown forks share a boundary, so none is shown what belongs to another.
OPTIMISTIC_WAYS = ("refused: child_taken",)
STRICT_WAYS = (
    "barrier",
    "overdue",
    "swept: lapsed",
    "refused: session_fenced",
    "refused: fork_in_progress",
    "refused: active_turn",
    "refused: unfinished_claim",
)
# Nothing else may be refused in these runs.
REFUSALS = {
    "forks_disabled",
    "target_reserved",
    "session_fenced",
    "session_held",
    "fork_in_progress",
    "active_turn",
    "unfinished_claim",
    "turn_sequence_incomplete",
    "evidence_missing",
    "child_taken",
    "no_settled_turn",
    "history_not_imported",
    "fork-unavailable",
    "session_not_found",
    "turn_not_settled",
    "turn_unbound",
    "session_tombstoned",
    "history_gone",
    "version_conflict",
}


class Runs(Clients, Workers, Operators, RuleBasedStateMachine):
    """Two workspaces, three clients, two workers a runner, and whatever happens."""

    contract: ForkContract
    folder: Path
    luck: int

    @initialize(number=st.integers(0, 2**32))
    def begin(self, number: int) -> None:
        """A run is its seed: the same luck, the same happenings."""
        self.chance = random.Random(f"{self.luck}/{number}")
        manner = self.chance.randrange(len(MANNERS))
        self.remember(
            [make_tenant(self.folder, self.contract, 2, manner), make_tenant(self.folder, self.contract, 1, manner + 1)]
        )
        self.remember_workers()
        self.told: list[str] = []
        self.judge: Judge | None = Judge(self)

    @rule()
    def happen(self) -> None:
        """One rule, so that every run mixes everything."""
        judge, self.judge = self.judge, None
        assert judge is not None
        happening, number = self.chance.choice(LOT), self.chance.randrange(1000)
        self.told.append(f"{happening} {number}")
        try:
            getattr(self, happening)(number)
            judge.check()
        except BaseException:
            note(f"What happened: {', '.join(self.told)}")
            raise
        self.reached["steps"] += 1
        # Kept away when something was wrong, so that only what went wrong is told.
        self.judge = judge

    def teardown(self) -> None:
        """Everything comes to rest, and is right then too."""
        judge = getattr(self, "judge", None)
        if judge is None:
            return
        self._end_troubles()
        for _ in range(6):
            self._let_everybody_work()
            self._let_operators_decide()
        judge.check()
        left = Counter(self.mine().values_list("status", flat=True))
        moving = self.operations(None, *OPEN_STATUSES, S.UNKNOWN)
        assert not moving, f"not at rest: {[self.story(each) for each in moving]}"
        assert not any(session.write_fence for tenant in self.tenants for session in tenant.sessions())
        for status, count in left.items():
            self.reached[f"at the end {status}"] += count
        self.reached["at rest"] += 1
        note(f"{sum(left.values())} forks")

    def _end_troubles(self) -> None:
        for number, tenant in enumerate(self.tenants):
            tenant.world.agent.configure(bind="", confirm="", script=[], process="dead")
            self._set(number, settlement=Settlement.AUTOMATIC, forks_enabled=True)
        while self.stalled:
            self.a_stalled_worker_goes_on(0)

    def _let_everybody_work(self) -> None:
        self.leases_run_out(1)
        recovery.sweep()
        self.what_waits_is_due(1)
        for tenant in self.tenants:
            for _ in range(self.mine(status__in=(*OPEN_STATUSES, S.UNKNOWN)).count()):
                self._work(tenant, "worker:one")

    def _let_operators_decide(self) -> None:
        for operation in self.operations(None, S.UNKNOWN):
            own = [child for child in saga.verified_children(operation.pk) if self._made(child) == str(operation.pk)]
            common = {"actor": "user:op", "reason": "At the end.", "expected_version": operation.version}
            if own:
                saga.adopt(operation.pk, own[0], **common)
            else:
                saga.confirm_not_created(operation.pk, **common)


def run(contract: ForkContract, steps: int, luck: int, reached: Counter[str]) -> None:
    """``steps`` steps under a contract; raises what a broken invariant raises, with the way that led there."""
    with tempfile.TemporaryDirectory(prefix="forkhost-runs-") as folder:
        facts = {"contract": contract, "folder": Path(folder), "luck": luck, "reached": reached}
        machine: Callable[[], Runs] = type("Run", (Runs,), facts)
        run_state_machine_as_test(
            seed(luck)(machine),
            settings=settings(
                max_examples=max(1, steps // STEPS_A_RUN),
                stateful_step_count=min(steps, STEPS_A_RUN),
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


def unexpected(reached: Counter[str]) -> set[str]:
    """Refusals that nothing in these runs explains."""
    return {way for way in reached if way.startswith("refused: ") and way.removeprefix("refused: ") not in REFUSALS}


def not_taken(contract: ForkContract, reached: Counter[str]) -> list[str]:
    """The ways that no step took."""
    ways = WAYS + (STRICT_WAYS if contract == ForkContract.STRICT else OPTIMISTIC_WAYS)
    return [way for way in ways if not reached[way]]
