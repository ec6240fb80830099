"""kill -9 in real worker processes: at every point with the agent made for tests, at three with the real agents."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sessions.choices import ForkContract
from sessions.providers.crashpoints import CrashPoint
from tests.faults.campaign import IN_AGENT, Batch, disturbance, kill_at_random
from tests.faults.places import claude_place, codex_place, fake_place
from tests.faults.zygote import Zygote

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.serial]

REAL = (CrashPoint.AFTER_DISPATCH_MARK, CrashPoint.DURING_CALL, CrashPoint.AFTER_CHILD_MADE)


@pytest.mark.parametrize("point", [point for point in CrashPoint if point not in IN_AGENT])
def test_nothing_is_sent_twice_and_nothing_is_lost(
    point: CrashPoint, zygote: Zygote, chance: random.Random, tmp_path: Path
) -> None:
    place = fake_place(tmp_path / "home", chance.choice(list(ForkContract)), 3, chance)
    place.agent.fake.configure(script=[])
    disturb, prepare = disturbance(point)
    found = Batch(place, zygote, chance).run(disturb, 3, prepare=prepare)
    assert found.clean, found
    assert found.kills == 3


def test_a_kill_at_any_moment(zygote: Zygote, chance: random.Random, tmp_path: Path) -> None:
    place = fake_place(tmp_path / "home", ForkContract.OPTIMISTIC, 6, chance)
    found = Batch(place, zygote, chance).run(kill_at_random(0.4), 6)
    assert found.clean, found
    assert found.kills


def test_real_codex(zygote: Zygote, chance: random.Random, tmp_path: Path) -> None:
    with codex_place(tmp_path / "codex") as place:
        for point in REAL:
            found = Batch(place, zygote, chance).run(disturbance(point)[0], 1)
            assert found.clean, found
            assert found.kills == 1


def test_real_claude(zygote: Zygote, chance: random.Random, tmp_path: Path) -> None:
    with claude_place(tmp_path / "claude") as place:
        for point in (*REAL, *IN_AGENT):
            found = Batch(place, zygote, chance).run(disturbance(point)[0], 1)
            assert found.clean, found
            assert found.kills == 1
