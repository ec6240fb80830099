"""``manage.py doctor``: what is wrong is named, with what to do about it."""

from __future__ import annotations

from collections import namedtuple
from io import StringIO
from pathlib import Path

import httpx
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django.fixtures import Settings

from forkhost import checkup
from forkhost.checkup import Finding, Level
from sessions import runners, store, triggers, workspaces
from sessions.choices import SyncState
from sessions.models import Home, Runner, SessionSync
from sessions.providers.base import HomeRef
from tests.importing.conftest import told  # noqa: F401  a fixture
from tests.importing.told import PROVIDER, ToldAdapter


def doctor() -> tuple[str, str]:
    """What it printed, and how it ended."""
    output = StringIO()
    try:
        call_command("doctor", stdout=output)
    except CommandError as error:
        return output.getvalue(), str(error)
    return output.getvalue(), ""


@pytest.fixture
def well(db: None, told: ToldAdapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Home:  # noqa: F811
    """An installation in which nothing is wrong."""
    monkeypatch.setattr(told, "default_home", lambda environ: HomeRef(PROVIDER, tmp_path))
    runner = runners.start(workspaces.default_workspace(), "here")
    (home,) = runners.ensure_homes(runner, {})
    runners.attest(home)
    return home


def about(subject: str) -> list[Finding]:
    return [finding for finding in checkup.findings() if finding.subject == subject]


def test_where_nothing_is_wrong_it_says_so(well: Home) -> None:
    printed, ending = doctor()
    assert ending == ""
    assert "Everything is fine." in printed
    assert "Told: " in printed
    assert "forks at any settled turn" in printed


def test_a_worker_that_is_away_is_named_with_the_command_that_starts_it(well: Home) -> None:
    Runner.objects.update(last_seen_at=None)
    printed, ending = doctor()
    assert ending == "One thing needs attention."
    assert "!!    worker on here: never seen" in printed
    assert "-> Start it there: ./manage.py worker --runner here" in printed


def test_an_installation_that_never_ran_is_told_how_to_start(db: None, told: ToldAdapter) -> None:  # noqa: F811
    (finding,) = about("worker")
    assert (finding.level, finding.advice) == (Level.PROBLEM, "Start everything with: make up")


def test_failed_imports_are_counted_by_reason(well: Home) -> None:
    for number in range(2):
        session = store.create(
            workspace=well.runner.workspace, provider=PROVIDER, home=well, provider_session_id=str(number)
        )
        SessionSync.objects.create(
            session=session, state=SyncState.FAILED, problem_code="source_damaged", problem_text="It is damaged."
        )
    (finding,) = about("import")
    assert finding.text == "2 failed with source_damaged: It is damaged."
    (counted,) = about("sessions")
    assert counted.text == "2 failed"


def test_a_home_that_is_gone_is_named(well: Home) -> None:
    Home.objects.update(problem_code="home_missing", problem_text="The home is gone.")
    (finding,) = about("told on here")
    assert (finding.level, finding.text) == (Level.PROBLEM, f"{well.path}: The home is gone.")


def test_a_search_index_that_nothing_fills_is_named(well: Home) -> None:
    assert not about("search")
    with connection.cursor() as cursor:
        sqlite = connection.vendor == "sqlite"
        cursor.execute(f"DROP {'TRIGGER forkhost_search_insert' if sqlite else 'INDEX agent_sessions_search'}")
    (finding,) = about("search")
    assert (finding.level, finding.advice) == (Level.NOTE, "Run: ./manage.py migrate")


def test_missing_guards_of_history_are_a_problem(well: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    left = triggers.installed(connection)
    left.pop()
    monkeypatch.setattr(triggers, "installed", lambda connection: left)
    findings = list(checkup.findings())
    (finding,) = [finding for finding in findings if finding.subject == "database"]
    assert finding.level is Level.PROBLEM
    assert finding.text.startswith("1 of the guards")
    assert not [finding for finding in findings if finding.subject == "forks"], "the rest needs the database"


def test_a_full_disk_is_a_problem(well: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda folder: usage(100, 99, 1))
    (finding,) = about("data folder")
    assert finding.level is Level.PROBLEM
    assert "Free some space" in finding.advice


def test_a_public_address_that_does_not_answer_is_a_problem(
    well: Home, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FORKHOST_PUBLIC_URL = "https://forkhost.example.com"

    def refuse(url: str, **more: object) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    monkeypatch.setattr(checkup.httpx, "get", refuse)
    (finding,) = about("web")
    assert finding.level is Level.PROBLEM
    monkeypatch.setattr(checkup.httpx, "get", lambda url, **more: httpx.Response(200))
    (finding,) = about("web")
    assert (finding.level, finding.text) == (Level.OK, "https://forkhost.example.com answers with 200")
