"""The agent itself dies or cannot write in the middle of its call; the worker lives and tells what it knows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.campaign import Batch, kill_calls, limit_files
from tests.faults.places import claude_place, codex_place
from tests.faults.rows import CALL_MS
from tests.faults.zygote import Zygote

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.serial]


def test_codex_is_killed_between_request_and_answer(zygote: Zygote, chance: random.Random, tmp_path: Path) -> None:
    with codex_place(tmp_path / "codex") as place:
        found = Batch(place, zygote, chance).run(kill_calls(CALL_MS["codex"]), 4)
    assert found.clean, found
    assert found.operations == 4


def test_claude_has_no_room_for_the_child(zygote: Zygote, chance: random.Random, tmp_path: Path) -> None:
    with claude_place(tmp_path / "claude") as place:
        found = Batch(place, zygote, chance).run(limit_files(2048), 1)
    assert found.clean, found
    assert (found.failed, found.children, found.unknowns) == (1, 0, 0)
