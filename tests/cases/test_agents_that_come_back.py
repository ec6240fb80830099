"""An agent that was away, and is installed again: what was proven about it lasts, what kept it from forking does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forkhost.kit.stopping import StopFlag
from sessions import runners, workspaces
from sessions import worker as loops
from sessions.models import Home
from sessions.providers.base import Attestation, HomeRef, PointSupport
from sessions.worker import SessionWorker
from tests.importing.conftest import Desk, told, told_home
from tests.importing.told import ATTESTATION, PROVIDER, ToldAdapter

__all__ = ["told", "told_home"]

UNABLE = replace(ATTESTATION, points=PointSupport.UNSUPPORTED, reason="agent_missing", detail="Install it.")


@pytest.fixture
def desk(transactional_db: None, tmp_path: Path) -> Desk:
    return Desk(runners.start(workspaces.default_workspace(), "here"), tmp_path)


@pytest.fixture
def worker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionWorker]:
    monkeypatch.setattr(loops, "HOMES_SECONDS", 0.02)
    worker = SessionWorker(desk.runner, StopFlag(), [(PROVIDER, desk.folder / "told")])
    yield worker
    worker.stop.request()
    worker.join()


def test_an_agent_that_cannot_fork_is_asked_again_much_sooner_than_one_that_can() -> None:
    able, unable, nothing = (runners.attest_again_after(proof) for proof in (ATTESTATION, UNABLE, None))
    assert unable == nothing <= 30
    assert able >= 10 * unable


@pytest.mark.django_db(transaction=True)
def test_an_agent_that_was_installed_again_is_proven_without_a_restart(
    told: ToldAdapter, told_home: Home, worker: SessionWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [UNABLE, UNABLE]

    def attest(home: HomeRef) -> Attestation:
        told.attested += 1
        return answers.pop() if answers else ATTESTATION

    monkeypatch.setattr(told, "attest", attest)
    monkeypatch.setattr(runners, "ATTEST_UNABLE_AGAIN_SECONDS", 0.0)
    worker.start()
    deadline = time.monotonic() + 20
    while runners.stored_attestation(Home.objects.get()) != ATTESTATION:
        assert time.monotonic() < deadline, "it was never asked again"
        time.sleep(0.02)
    asked = told.attested
    assert asked == 3
