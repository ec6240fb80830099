"""``manage.py worker``: refuses what it cannot work on, and stops cleanly."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from sessions import runners
from sessions.models import Home, Runner
from tests.commands.conftest import LONG, Start


def test_it_refuses_a_database_that_was_not_migrated(start: Start) -> None:
    process = start("worker")
    assert process.ended() != 0
    assert "The database is not up to date" in process.output
    assert "python manage.py migrate" in process.output
    assert "Traceback" not in process.output


def test_it_serves_its_runner_and_stops_on_a_signal(start: Start, database_url: str, tmp_path: Path) -> None:
    process = start("worker", "--runner", "attic", "--home", f"codex={tmp_path / 'further'}", DATABASE_URL=database_url)
    process.wait_for("worker_started")
    deadline = time.monotonic() + LONG
    while Home.objects.filter(provider="codex").count() < 2:
        assert time.monotonic() < deadline, process.output
        time.sleep(0.05)
    assert process.stop() == 0
    process.wait_for("worker_stopped")
    runner = Runner.objects.get()
    assert runner.name == "attic"
    assert runners.is_alive(runner)
    assert {home.path for home in Home.objects.filter(provider="codex")} == {
        str(tmp_path / "codex_home"),
        str(tmp_path / "further"),
    }


def test_a_second_signal_ends_it_at_once(start: Start, database_url: str) -> None:
    process = start("worker", DATABASE_URL=database_url)
    process.wait_for("worker_started")
    process.popen.send_signal(signal.SIGTERM)
    process.popen.send_signal(signal.SIGTERM)
    process.popen.wait(LONG)


def test_an_unknown_agent_is_said_in_a_sentence(start: Start) -> None:
    process = start("worker", "--home", "nobody=/srv")
    assert process.ended() != 0
    assert "is not PROVIDER=FOLDER" in process.output
    assert "claude, codex" in process.output
