"""A database that goes away for a moment costs no answer, and no worker."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, transaction

from operations.choices import OperationStatus
from operations.models import OperationAudit
from sessions.choices import ForkContract
from sessions.models import Runner
from tests.faults.campaign import STOPPED, Batch, terminate_backends
from tests.faults.places import FakeAgent, fake_place
from tests.faults.zygote import Zygote
from tests.real.stack import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.serial]

S = OperationStatus


@contextlib.contextmanager
def away(seconds: float) -> Iterator[None]:
    """PostgreSQL ends every connection; SQLite's one writer is somebody else for a while."""
    if connection.vendor == "postgresql":
        terminate_backends()
        yield
        return
    held = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Runner.objects.update(last_seen_at=None)
            held.set()
            time.sleep(seconds)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    yield
    thread.join()


@pytest.mark.parametrize("contract", list(ForkContract))
def test_an_answer_that_comes_while_the_database_is_away_is_kept(
    contract: ForkContract, zygote: Zygote, chance: random.Random, tmp_path: Path
) -> None:
    place = fake_place(tmp_path / "home", contract, 1, chance)
    agent = place.agent
    assert isinstance(agent, FakeAgent)
    agent.fake.configure(script=[{"do": "accept", "gate": "call"}])

    def cut(batch: Batch) -> int:
        worker = batch.worker()
        agent.fake.wait_for("call")
        with away(1.0):
            agent.fake.open("call")
        eventually(lambda: batch.operations()[0].status not in (S.DISPATCHING, S.PROVIDER_ACCEPTED), what="the end")
        assert worker.stop() in STOPPED
        return 0

    found = Batch(place, zygote, chance).run(cut, 1)
    assert found.clean, found
    assert not OperationAudit.objects.filter(to_status=S.UNKNOWN).exists()
    assert found.committed == 1


def test_a_database_that_dies_in_the_middle_and_comes_back() -> None:
    """On a server of its own, because everybody else's tests use the suite's."""
    command = [sys.executable, "-m", "tests.faults", "--database", "postgresql", "--provider", "fake", "--forks", "8"]
    done = subprocess.run([*command, "--row", "database killed"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lost, doubled or wrong: 0" in done.stdout
