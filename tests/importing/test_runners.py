"""A runner, its homes and what is stored about them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from forkhost.kit.clock import HeldClock
from sessions import runners, workspaces
from sessions.models import Home, Runner
from sessions.providers import registry
from sessions.providers.base import HomeRef
from tests.importing.conftest import Desk
from tests.importing.told import ATTESTATION, PROVIDER, ToldAdapter


def test_each_start_of_a_worker_is_another_incarnation_of_the_same_runner(db: None) -> None:
    first = runners.start(workspaces.default_workspace(), "here")
    second = runners.start(workspaces.default_workspace(), "here")
    assert first.pk == second.pk
    assert first.incarnation != second.incarnation


def test_a_runner_is_alive_as_long_as_its_worker_beats(db: None, held_clock: HeldClock) -> None:
    runner = runners.start(workspaces.default_workspace(), "here")
    assert runners.is_alive(runner)
    held_clock.advance(runners.ALIVE_SECONDS + 1)
    assert not runners.is_alive(runner)
    runners.beat(runner.pk)
    runner.refresh_from_db()
    assert runners.is_alive(runner)
    assert not runners.is_alive(Runner(name="never started"))


def test_an_attestation_comes_back_from_the_database_as_it_was(desk: Desk, told: ToldAdapter, told_home: Home) -> None:
    assert runners.attest(told_home) == ATTESTATION
    stored = Home.objects.get(pk=told_home.pk)
    assert runners.stored_attestation(stored) == ATTESTATION
    assert isinstance(stored.attested_at, dt.datetime)


@pytest.mark.parametrize("stored", [None, {}, {"points": "everywhere"}, {"points": "any-turn"}])
def test_what_this_version_does_not_know_is_no_attestation(stored: dict[str, str] | None) -> None:
    assert runners.attestation_from_json(stored) is None


def test_the_agents_own_homes_and_further_ones_become_rows_once(
    desk: Desk, told: ToldAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "default_home", lambda environ: HomeRef(PROVIDER, Path(environ["TOLD_HOME"])))
    environ = {"TOLD_HOME": "/home/dev/.told"}
    extra = [(PROVIDER, Path("/srv/told"))]
    runners.ensure_homes(desk.runner, environ, extra)
    homes = runners.ensure_homes(desk.runner, environ, extra)
    assert [home.path for home in homes] == ["/home/dev/.told", "/srv/told"]
    assert {home.queue for home in homes} == {str(desk.runner.pk)}


def test_an_adapter_that_cannot_name_its_home_costs_the_others_nothing(
    desk: Desk, told: ToldAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(environ: object) -> HomeRef:
        raise KeyError("HOME")

    monkeypatch.setattr(told, "default_home", fail)
    assert [home.path for home in runners.ensure_homes(desk.runner, {}, [(PROVIDER, Path("/srv/told"))])] == [
        "/srv/told"
    ]


def test_a_home_whose_adapter_is_gone_says_so(desk: Desk, told_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "adapters", dict)
    assert runners.attest(told_home) is None
    told_home.refresh_from_db()
    assert told_home.problem_code == "adapter_missing"
    assert "'told'" in told_home.problem_text


def test_a_changed_executable_has_another_stamp(tmp_path: Path) -> None:
    from dataclasses import replace

    executable = tmp_path / "agent"
    executable.write_text("one")
    attestation = replace(ATTESTATION, executable=str(executable))
    before = runners.executable_stamp(attestation)
    executable.write_text("another")
    assert runners.executable_stamp(attestation) != before
    executable.unlink()
    assert runners.executable_stamp(attestation) == "gone"
    assert runners.executable_stamp(ATTESTATION) == ""
