"""What the processes of the fault tests do: prepare a fork, acknowledge one, or work until they are stopped."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.contrib.auth.models import User

from forkhost.kit import alarms
from forkhost.kit.stopping import StopFlag
from forkhost.kit.wakeups import Listener
from operations import dispatch, saga, schedule, worker
from operations.points import parse_point
from operations.saga.moves import WAKE_UP
from sessions import worker as sessions_worker
from sessions.models import Runner
from sessions.providers import registry
from sessions.providers.base import ProcessIdentity
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.codex.adapter import CodexAdapter
from tests.agents.fake_provider import PROVIDER, FakeAdapter

# The look-ups of a day within seconds; everything else about them is as it is.
LOOKUPS = (0.2, 0.5, 1.0, 2.0, 3.5)

PREPARE, ACKNOWLEDGE, WORK = "prepare", "acknowledge", "work"


def prepare_process() -> None:
    """The fake agent beside the real ones, and a clock of look-ups that a test can wait for."""
    found = registry.Registry(
        MappingProxyType({PROVIDER: FakeAdapter(), "codex": CodexAdapter(), "claude": ClaudeAdapter()})
    )
    registry.registry = lambda: found  # type: ignore[assignment]
    schedule.LOOKUPS = LOOKUPS


def carry_out(deed: str, facts: dict[str, Any]) -> None:
    """Do it, in this process. Raises what the saga raises."""
    {PREPARE: _prepare, ACKNOWLEDGE: _acknowledge, WORK: _work}[deed](facts)


def request_of(facts: dict[str, Any]) -> saga.PrepareRequest:
    """A request as it was written down for another process."""
    return saga.PrepareRequest(
        workspace_id=facts["workspace"],
        user=User.objects.get(pk=facts["user"]),
        source_session_id=facts["source"],
        request_id=facts["request"],
        target_session_id=facts["target"],
        point=parse_point(facts["point"]),
    )


def _prepare(facts: dict[str, Any]) -> None:
    saga.prepare(request_of(facts))


def _acknowledge(facts: dict[str, Any]) -> None:
    saga.acknowledge(facts["operation"], "user:member")


def _work(facts: dict[str, Any]) -> None:
    """The worker's own loop. ``home`` as well: the importer of that home runs beside it, as in a real worker.

    ``file_limit`` bounds what the process of a call may write to one file, as a full disk would; ``kill_calls`` kills it.
    """
    if limit := facts.get("file_limit"):
        _once_started(lambda process: resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit)))
    if killing := facts.get("kill_calls"):
        _kill_calls(**killing)
    runner = Runner.objects.get(pk=facts["runner"])
    pace = worker.Pace(
        lease_seconds=facts["lease"], poll_seconds=0.5, sweep_seconds=0.25, parallel=facts.get("parallel", 1)
    )
    with StopFlag() as stop, Listener(WAKE_UP) as listener:
        stop.on_request(listener.wake)
        importing = _start_importing(runner, stop, facts.get("home"))
        worker.run(runner, stop, pace=pace, listener=listener)
        if importing is not None:
            importing.join()
    _say_leftovers()


def _start_importing(runner: Runner, stop: StopFlag, home: list[str] | None) -> sessions_worker.SessionWorker | None:
    if home is None:
        return None
    importing = sessions_worker.SessionWorker(runner, stop, [(home[0], Path(home[1]))])
    importing.start()
    return importing


def _once_started(act: Callable[[ProcessIdentity], None]) -> None:
    """Do something to the process of each call before it is allowed to call."""
    started = dispatch.Reporter.process_started

    def process_started(self: dispatch.Reporter, process: ProcessIdentity) -> None:
        started(self, process)
        act(process)

    dispatch.Reporter.process_started = process_started  # type: ignore[method-assign]


def _kill_calls(longest_ms: float, seed: float, log: str) -> None:
    """Kill the process group of each call at any moment, and note down each that was still there."""
    chance = random.Random(seed)

    def kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
            with Path(log).open("a") as file:
                file.write(f"{pid}\n")

    def act(process: ProcessIdentity) -> None:
        timer = threading.Timer(chance.uniform(0.0, longest_ms) / 1000, kill, [process.pid])
        timer.start()

    _once_started(act)


def _own_threads() -> list[str]:
    lasting = (threading.main_thread().name, alarms.THREAD)
    return [thread.name for thread in threading.enumerate() if thread.name not in lasting]


def _say_leftovers() -> None:
    """A worker that was stopped has no thread left but this one."""
    deadline = time.monotonic() + 5
    while (left := _own_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"process {os.getpid()} ends with threads {left}"
