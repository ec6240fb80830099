"""A worker that sleeps through its lease wakes as a stranger: it writes nothing but evidence."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from operations.choices import Act, EvidenceMethod, OperationStatus
from operations.models import Evidence, OperationAudit
from sessions.choices import ForkContract
from tests.faults.campaign import LEASE_SECONDS, Batch
from tests.faults.places import FakeAgent, Place, fake_place
from tests.faults.zygote import Zygote
from tests.real.stack import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.serial]

S = OperationStatus


@pytest.fixture
def place(chance: random.Random, tmp_path: Path) -> Place:
    return fake_place(tmp_path / "home", ForkContract.OPTIMISTIC, 1, chance)


@pytest.mark.parametrize(
    ("step", "status", "by"),
    [
        # The answer is kept and the child can be seen: whichever is looked at first settles.
        ({"do": "accept", "gate": "call"}, S.COMMITTED, {Act.LATE_ANSWER, Act.ADOPTED}),
        ({"do": "accept", "gate_after": "call"}, S.COMMITTED, {Act.LATE_ANSWER, Act.ADOPTED}),
        ({"do": "reject", "gate": "call"}, S.FAILED, {Act.LATE_ANSWER}),
    ],
)
def test_what_it_saw_settles_the_fork_and_nothing_else_of_it_is_written(
    step: dict[str, str], status: S, by: set[Act], place: Place, zygote: Zygote, chance: random.Random
) -> None:
    agent = place.agent
    assert isinstance(agent, FakeAgent)
    agent.fake.configure(script=[step])
    batch = Batch(place, zygote, chance)

    def stall(batch: Batch) -> int:
        stalled = batch.worker()
        agent.fake.wait_for("call")
        stalled.send(signal.SIGSTOP)
        successor = batch.worker()
        # It may be unknown for an instant only: the ledger tells.
        eventually(OperationAudit.objects.filter(to_status=S.UNKNOWN).exists, what="the loss of the lease")
        agent.fake.open("call")
        stalled.send(signal.SIGCONT)
        eventually(lambda: Evidence.objects.filter(method=EvidenceMethod.LATE_ANSWER).exists(), what="the evidence")
        eventually(lambda: batch.operations()[0].status == status, what="the settlement")
        acts = OperationAudit.objects.exclude(from_status="", to_status="").order_by("sequence")
        before, settled, after = [Act.PREPARED, Act.DISPATCHING, Act.UNKNOWN], acts[3].reason, [Act.COMMITTED]
        assert settled in by
        assert list(acts.values_list("reason", flat=True)) == [
            *before,
            settled,
            *(after if status == S.COMMITTED else []),
        ]
        for worker in (stalled, successor):
            assert worker.stop() == 0
        return 0

    found = batch.run(stall, 1)
    assert found.clean, found
    assert (found.calls, found.unknowns, found.settled) == (1, 1, 1)


def test_a_fork_that_was_never_sent_goes_on_elsewhere(place: Place, zygote: Zygote, chance: random.Random) -> None:
    def stall(batch: Batch) -> int:
        stalled = batch.worker()
        time.sleep(chance.uniform(0.0, 0.2))
        stalled.send(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS)
        successor = batch.worker()
        eventually(lambda: not batch.prepared(), what="the successor")
        stalled.send(signal.SIGCONT)
        for worker in (stalled, successor):
            worker.stop()
        return 0

    found = Batch(place, zygote, chance).run(stall, 1)
    assert found.clean, found
