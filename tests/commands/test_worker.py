"""``manage.py worker``: refuses what it cannot work on, and stops cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from sessions import runners, workspaces
from sessions.models import Home, Runner
from tests.commands.conftest import LONG, Process, Start, alive


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not look():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.05)


def importer_of(process: Process) -> int:
    """The one process that the worker itself starts; those of the agents belong to others or come later."""
    eventually(lambda: bool(process.children()))
    return process.children()[0]


def test_it_refuses_a_database_that_was_not_migrated(start: Start) -> None:
    process = start("worker")
    assert process.ended() != 0
    assert "The database is not up to date" in process.output
    assert "./manage.py migrate" in process.output
    assert "Traceback" not in process.output


def test_it_serves_its_runner_and_stops_on_a_signal(start: Start, database_url: str, tmp_path: Path) -> None:
    process = start("worker", "--runner", "attic", "--home", f"codex={tmp_path / 'further'}", DATABASE_URL=database_url)
    process.wait_for("worker_started")
    eventually(lambda: Home.objects.filter(provider="codex").count() == 2)
    assert process.stop() == 0
    process.wait_for("worker_stopped")
    runner = Runner.objects.get()
    assert runner.name == "attic"
    assert runners.is_alive(runner)
    assert {home.path for home in Home.objects.filter(provider="codex")} == {
        str(tmp_path / "codex_home"),
        str(tmp_path / "further"),
    }


def test_sessions_are_read_in_a_process_that_lets_forks_go_first_and_ends_with_its_worker(
    start: Start, database_url: str
) -> None:
    process = start("worker", DATABASE_URL=database_url)
    process.wait_for("worker_started")
    own = os.getpriority(os.PRIO_PROCESS, process.popen.pid)
    importer = importer_of(process)
    eventually(lambda: os.getpriority(os.PRIO_PROCESS, importer) > own)
    process.popen.kill()
    process.popen.wait(LONG)
    eventually(lambda: not alive(importer))


def test_reading_ends_when_the_worker_was_killed_before_its_process_could_look(start: Start, database_url: str) -> None:
    runner = runners.start(workspaces.default_workspace(), "attic")
    worker = subprocess.Popen(["true"])
    worker.wait()
    importer = start("importer", str(runner.pk), str(worker.pid), DATABASE_URL=database_url)
    assert importer.ended() == 0


def test_reading_goes_on_after_its_process_was_killed(start: Start, database_url: str) -> None:
    process = start("worker", DATABASE_URL=database_url)
    process.wait_for("worker_started")
    first = importer_of(process)
    os.kill(first, signal.SIGKILL)
    process.wait_for("part_ended")
    assert importer_of(process) != first
    assert process.stop() == 0


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
