"""The fork call fails in a way that says what is known: nothing was sent, nothing was made, or nobody can tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sessions.providers.base import (
    Fenced,
    ForkRequest,
    HomeRef,
    MatchStrength,
    NotStarted,
    ProcessIdentity,
    ProviderError,
    Rejected,
    Unknown,
)
from sessions.providers.claude import attestation, forking
from sessions.providers.claude.adapter import ClaudeAdapter
from sessions.providers.claude.registry_files import process_started_at
from tests.claude.support import PROJECT_KEY, Reporter, place, read, ref_of, request_for, session_id, turns_of

CHILD = "10000000-0000-4000-8000-0000000000aa"


@pytest.fixture
def request_(config: Path) -> ForkRequest:
    place(config, "source")
    ref = ref_of(config, session_id("source"))
    return request_for(ref, turns_of(read(ref)), 2)


def folder(config: Path) -> Path:
    return config / "projects" / PROJECT_KEY


def names_in(config: Path) -> list[str]:
    return sorted(path.name for path in folder(config).iterdir())


def gone(process: ProcessIdentity | None) -> bool:
    return process is not None and process_started_at(process.pid) != process.started_at


def started_as(monkeypatch: pytest.MonkeyPatch, argv: Sequence[str]) -> None:
    """Let another program stand where the fork process would."""
    real = attestation.runtime

    def other(home: object) -> attestation.Runtime:
        return replace(real(home), argv=tuple(argv))  # type: ignore[arg-type]

    monkeypatch.setattr(forking, "runtime", other)


def stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program that speaks the fork process's language and ends as the script says."""
    prelude = (
        "import json, os, sys, time, pathlib\n"
        "def say(**m): print(json.dumps(m), flush=True)\n"
        "def hear(): return json.loads(sys.stdin.readline())\n"
        f"child = {CHILD!r}\n"
        "say(event='ready')\norder = hear()\n"
    )
    started_as(monkeypatch, [sys.executable, "-c", prelude + script])


@dataclass
class KillingReporter(Reporter):
    """Kills the fork process at one step, as a machine might."""

    at: str = ""

    def process_started(self, process: ProcessIdentity) -> None:
        super().process_started(process)
        self._kill_at("process")

    def announce(self, child_provider_session_id: str) -> None:
        super().announce(child_provider_session_id)
        self._kill_at("announce")

    def _kill_at(self, step: str) -> None:
        if step == self.at and self.process:
            os.killpg(self.process.pid, signal.SIGKILL)


def test_the_child_is_announced_before_it_exists(config: Path, request_: ForkRequest, adapter: ClaudeAdapter) -> None:
    seen: list[list[str]] = []

    class Watching(Reporter):
        def announce(self, child_provider_session_id: str) -> None:
            super().announce(child_provider_session_id)
            seen.append(names_in(config))

    reporter = Watching()
    accepted = adapter.fork(request_, reporter)
    assert seen == [[f"{session_id('source')}.jsonl"]]
    assert names_in(config) == sorted([f"{session_id('source')}.jsonl", f"{accepted.child_provider_session_id}.jsonl"])
    assert gone(reporter.process)


def test_a_worker_that_lost_the_operation_writes_nothing(
    config: Path, request_: ForkRequest, adapter: ClaudeAdapter
) -> None:
    for reporter in (Reporter(refuse_process=Fenced()), Reporter(refuse_announce=Fenced())):
        with pytest.raises(Fenced):
            adapter.fork(request_, reporter)
        assert names_in(config) == [f"{session_id('source')}.jsonl"]
        assert gone(reporter.process)


@pytest.mark.parametrize(("at", "error"), [("process", NotStarted), ("announce", Unknown)])
def test_a_process_killed_before_the_go_made_nothing_and_after_it_nobody_knows(
    config: Path, request_: ForkRequest, adapter: ClaudeAdapter, at: str, error: type[ProviderError]
) -> None:
    reporter = KillingReporter(at=at)
    with pytest.raises(error) as raised:
        adapter.fork(request_, reporter)
    assert raised.value.code == "fork_process_lost"
    assert raised.value.child_provider_session_id == ""
    assert names_in(config) == [f"{session_id('source')}.jsonl"]
    seen = adapter.find_children(request_, 0, reporter.announced)
    assert (list(seen.candidates), seen.absence_proves) == ([], True)


def test_a_turn_that_is_not_in_the_source_is_never_sent(
    config: Path, request_: ForkRequest, adapter: ClaudeAdapter
) -> None:
    for checkpoint in ("", "10000000-0000-4000-8000-000000000001"):
        binding = replace(request_.turn.binding, data={"checkpoint": checkpoint})
        with pytest.raises(NotStarted):
            adapter.fork(replace(request_, turn=replace(request_.turn, binding=binding)), Reporter())
    assert names_in(config) == [f"{session_id('source')}.jsonl"]


def test_a_program_that_is_not_there_is_not_started(
    request_: ForkRequest, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_as(monkeypatch, ["/nowhere/python"])
    with pytest.raises(NotStarted) as raised:
        adapter.fork(request_, Reporter())
    assert raised.value.code == "fork_process_not_started"


def test_a_full_disk_makes_nothing_and_says_so(
    config: Path, request_: ForkRequest, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = 'ulimit -f 8; exec "$0" -m sessions.providers.claude.fork_process'
    started_as(monkeypatch, ["/bin/sh", "-c", limited, sys.executable])
    with pytest.raises(Rejected) as raised:
        adapter.fork(request_, Reporter())
    assert raised.value.code == "child_not_written"
    assert names_in(config) == [f"{session_id('source')}.jsonl"]


@pytest.mark.parametrize(
    ("script", "error", "code"),
    [
        ("sys.exit(1)", NotStarted, "fork_process_lost"),
        ("say(event='refused', reason='point_refused', message='no such row')", Rejected, "point_refused"),
        ("say(event='announce', child='')", NotStarted, "fork_process_confused"),
        ("say(event='announce', child=order['sessionId'])", NotStarted, "fork_process_confused"),
        ("say(event='announce', child=child); hear(); sys.exit(1)", Unknown, "fork_process_lost"),
        ("say(event='announce', child=child); hear(); say(event='unclear', message='x')", Unknown, "fork_unclear"),
        ("say(event='announce', child=child); hear(); say(event='made', child='other')", Unknown, "fork_unclear"),
        ("say(event='announce', child=child); hear(); say(event='made', child=child)", Unknown, "child_unreadable"),
        (
            "say(event='announce', child=child); hear()\n"
            "source = pathlib.Path(order['source'])\n"
            "source.with_name(child + '.jsonl').write_bytes(source.read_bytes())\n"
            "say(event='made', child=child); hear()",
            Unknown,
            "wrong_child",
        ),
    ],
)
def test_every_way_to_end_has_its_own_answer(
    request_: ForkRequest,
    adapter: ClaudeAdapter,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[ProviderError],
    code: str,
) -> None:
    stand_in(monkeypatch, script)
    with pytest.raises(error) as raised:
        adapter.fork(request_, Reporter())
    assert raised.value.code == code
    if error is Unknown:
        assert raised.value.child_provider_session_id == ("" if code == "fork_process_lost" else CHILD)


@pytest.mark.parametrize(("answer", "error"), [("", NotStarted), ("say(event='announce', child=child)", Unknown)])
def test_a_process_that_says_nothing_is_ended_after_its_time(
    request_: ForkRequest,
    adapter: ClaudeAdapter,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    error: type[ProviderError],
) -> None:
    stand_in(monkeypatch, f"{answer}\ntime.sleep(600)")
    reporter = Reporter()
    hurried = replace(request_, attestation=replace(request_.attestation, longest_fork_seconds=1.5))
    began = time.monotonic()
    with pytest.raises(error):
        adapter.fork(hurried, reporter)
    assert time.monotonic() - began < 60
    assert gone(reporter.process)


@pytest.mark.parametrize("script", ["hear(); say(event='untitled', message='no room')", "sys.exit(1)"])
def test_a_title_that_could_not_be_set_is_a_warning(
    config: Path, request_: ForkRequest, adapter: ClaudeAdapter, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    accepted = adapter.fork(request_, Reporter())
    assert accepted.child_path is not None
    made = accepted.child_path.read_bytes().replace(accepted.child_provider_session_id.encode(), CHILD.encode())
    (folder(config) / f"{CHILD}.jsonl").write_bytes(made)
    stand_in(monkeypatch, f"say(event='announce', child=child); hear(); say(event='made', child=child); {script}")
    again = adapter.fork(request_, Reporter())
    assert again.child_provider_session_id == CHILD
    (warning,) = again.warnings
    assert "title" in warning


def test_an_answer_that_was_lost_is_found_again(config: Path, request_: ForkRequest, adapter: ClaudeAdapter) -> None:
    began = int(time.time() * 1000)
    accepted = adapter.fork(request_, Reporter())
    for announced in (accepted.child_provider_session_id, ""):
        (candidate,) = adapter.find_children(request_, began, announced).candidates
        assert (candidate.provider_session_id, candidate.strength, candidate.complete) == (
            accepted.child_provider_session_id,
            MatchStrength.EXACT,
            True,
        )
    again = adapter.verify(request_, accepted.child_provider_session_id)
    assert list(again.mapping) == list(accepted.mapping)


def test_the_source_may_grow_meanwhile(config: Path, request_: ForkRequest, adapter: ClaudeAdapter) -> None:
    class Growing(Reporter):
        def announce(self, child_provider_session_id: str) -> None:
            super().announce(child_provider_session_id)
            with (folder(config) / f"{session_id('source')}.jsonl").open("ab") as file:
                file.write(b'{"type":"mode","mode":"normal","sessi')

    assert len(adapter.fork(request_, Growing()).mapping) == 2


def test_the_fork_process_imports_neither_django_nor_our_models_nor_the_whole_sdk(config: Path) -> None:
    script = (
        "import sys; from sessions.providers.claude import fork_process, sdk; sdk.load()\n"
        "sys.exit(', '.join({'django', 'mcp', 'sessions.models', 'claude_agent_sdk.client'} & set(sys.modules)) or 0)"
    )
    started = attestation.runtime(HomeRef("claude", config))
    subprocess.run([sys.executable, "-c", script], cwd=started.cwd, env=dict(started.environment), check=True)
