"""A process counts as dead only when that is certain."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from forkhost.kit import processes
from forkhost.kit.processes import identify, is_dead

# Ends as soon as its standard input is closed.
WAITS = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
# Leaves a grandchild in its group, prints its pid, and ends.
LEAVES_ONE = [
    sys.executable,
    "-c",
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()']);"
    "print(child.pid, flush=True)",
]


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_this_process_lives_and_has_a_name() -> None:
    me = identify()
    assert me.pid == os.getpid()
    assert me.started_at.isdecimal()
    assert me.boot_id
    assert not is_dead(me)


def test_a_process_is_dead_once_it_ended_even_before_its_parent_noticed() -> None:
    process = start(WAITS)
    assert process.stdout is not None
    process.stdout.readline()
    name = identify(process.pid)
    assert not is_dead(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name)
    process.communicate()
    assert is_dead(name)


def test_a_group_is_not_dead_while_one_member_lives() -> None:
    leader = start(LEAVES_ONE)
    name = identify(leader.pid)
    assert leader.stdout is not None
    grandchild = int(leader.stdout.readline())
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert not is_dead(name)
    grandchild_name = identify(grandchild)
    leader.communicate()
    while not is_dead(grandchild_name):
        pass
    assert is_dead(name)


def test_the_same_pid_with_another_start_is_another_process() -> None:
    assert is_dead(replace(identify(), started_at="1"))


def test_nothing_of_an_earlier_boot_lives() -> None:
    assert is_dead(replace(identify(), boot_id="11111111-2222-3333-4444-555555555555"))


def test_a_pid_of_another_container_proves_nothing_until_the_next_boot() -> None:
    gone = replace(identify(), started_at="1")
    assert is_dead(gone, processes.pid_namespace())
    assert not is_dead(gone, "pid:[1]")
    assert is_dead(replace(gone, boot_id="11111111-2222-3333-4444-555555555555"), "pid:[1]")


@pytest.mark.parametrize(
    "change", [{"started_at": ""}, {"started_at": "2026-07-29T12:00:00Z"}, {"boot_id": ""}, {"pid": 0}, {"pid": -1}]
)
def test_what_was_not_recorded_properly_proves_nothing(change: dict[str, object]) -> None:
    assert not is_dead(replace(identify(), **change))


def test_without_a_boot_id_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    name = replace(identify(), started_at="1")
    monkeypatch.setattr(processes, "boot_id", lambda: "")
    assert not is_dead(name)


def test_a_pid_that_nobody_has_cannot_be_named() -> None:
    process = start(WAITS)
    process.communicate()
    with pytest.raises(ProcessLookupError):
        identify(process.pid)
