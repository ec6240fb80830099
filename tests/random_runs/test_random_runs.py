"""The short form of the random runs: the same steps each time. ``make soak`` is the long one."""

from __future__ import annotations

from collections import Counter

import pytest

from operations.models import Operation
from sessions.choices import ForkContract
from tests.operations.conftest import fake_agent
from tests.random_runs.runs import run, unexpected

__all__ = ["fake_agent"]

STEPS = 300
# Ways that even the short form takes.
WAYS = (
    "replayed",
    "late answer",
    "settled: adopted",
    "settled: confirmed_not_created",
    "killed during_call",
    "lease lost",
    "acknowledged",
    "fork of a fork",
    "at rest",
)


@pytest.mark.django_db
@pytest.mark.parametrize("contract", list(ForkContract))
def test_whatever_happens_no_fork_is_doubled_or_lost(fake_agent: None, contract: ForkContract) -> None:
    reached: Counter[str] = Counter()
    run(contract, STEPS, 20260729, reached)
    assert [way for way in WAYS if not reached[way]] == []
    assert unexpected(reached) == set()
    assert Operation.objects.exists()
