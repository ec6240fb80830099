"""``manage.py up``: one command brings everything up, and one signal takes it down."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.commands.conftest import LONG, Process, Start, until_gone

RECORDED = Path(__file__).parents[1] / "recordings" / "codex" / "0.171.0"


def started(start: Start, *arguments: str, **environ: str) -> tuple[Process, str]:
    """A running forkhost and its sign-in link."""
    process = start("up", "--bind", "127.0.0.1:0", "--no-open", *arguments, **environ)
    match = re.search(r"http://\S+", process.wait_for("Sign in:"))
    assert match
    process.wait_for("Stop:")
    return process, match.group()


def imported(database: Path) -> int:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return int(
            connection.execute("SELECT count(*) FROM agent_sessions_sessionsync WHERE state = 'imported'").fetchone()[0]
        )


def sign_in(browser: httpx.Client, link: str) -> httpx.Response:
    """Press the link's button."""
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get(link).text)
    assert token
    return browser.post(link, data={"csrfmiddlewaretoken": token.group(1)}, headers={"Referer": link})


def workers(process: Process) -> set[int]:
    return {pid for pid in process.children() if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")}


def until(look: Callable[[], bool], process: Process) -> None:
    deadline = time.monotonic() + LONG
    while not look():
        assert time.monotonic() < deadline, process.output
        time.sleep(0.05)


def test_it_comes_up_signs_a_person_in_once_imports_mends_itself_and_stops(start: Start, tmp_path: Path) -> None:
    threads = json.loads((RECORDED / "ids.json").read_text())["threads"]
    shutil.copytree(RECORDED / "codex-home", tmp_path / "codex_home", dirs_exist_ok=True)
    process, link = started(start)
    with httpx.Client(base_url=link.split("/login")[0], follow_redirects=True, timeout=LONG) as browser:
        home = sign_in(browser, link)
        assert home.status_code == 200
        assert "/login" not in str(home.url)
        until(lambda: imported(tmp_path / "data" / "forkhost.sqlite3") >= len(threads), process)
        assert "First prompt: remember APPLE" in browser.get("/").text
    with httpx.Client(timeout=LONG) as somebody_else:
        assert sign_in(somebody_else, link).status_code == 410

    before = workers(process)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    process.wait_for("part_ended")
    until(lambda: bool(workers(process) - before), process)
    assert httpx.get(link, timeout=LONG).status_code == 200

    children = process.children()
    assert process.stop() == 0
    assert "forkhost has stopped." in process.output
    until_gone(children)


def test_a_second_start_keeps_the_folder_and_its_parts_end_even_when_it_is_killed(start: Start, tmp_path: Path) -> None:
    first, link = started(start, "--data", str(tmp_path / "elsewhere"))
    assert first.stop() == 0
    assert (tmp_path / "elsewhere" / "forkhost.sqlite3").is_file()
    assert not (tmp_path / "data").exists()
    second, another = started(start, "--data", str(tmp_path / "elsewhere"))
    assert link.rpartition("/login/")[2] != another.rpartition("/login/")[2]
    children = second.children()
    second.popen.kill()
    second.popen.wait(LONG)
    until_gone(children)


def test_a_taken_port_is_said_in_a_sentence(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start("up", "--bind", f"127.0.0.1:{port}", "--no-open")
        assert process.ended() != 0
    assert f"cannot listen on 127.0.0.1:{port}" in process.output
    assert "--bind HOST:PORT" in process.output
    assert "Traceback" not in process.output


@pytest.mark.parametrize("arguments", [("--data",), ("--data", "/dev/null/data"), ("--bind", "nonsense")])
def test_what_cannot_be_used_is_said_in_a_sentence(start: Start, arguments: tuple[str, ...]) -> None:
    process = start("up", "--no-open", *arguments)
    assert process.ended() != 0
    assert "Traceback" not in process.output
    assert re.search(r"--data needs a folder|data folder /dev/null/data|is not HOST:PORT", process.output)


def test_a_database_that_is_away_is_said_in_a_sentence(start: Start) -> None:
    process = start("up", "--no-open", "--bind", "127.0.0.1:0", DATABASE_URL="postgresql://u:secret@127.0.0.1:1/none")
    assert process.ended() != 0
    assert "The database cannot be used" in process.output
    assert "Traceback" not in process.output
    assert "secret" not in process.output
