"""Forks of the real codex: exactly the prefix, the source untouched, nothing left running."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from forkhost.demo.codex_home import Thread, make_home, run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import ForkSettings, HomeRef, Rejected, SessionRef, TurnBinding
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.executable import find_executable
from sessions.providers.codex.rollouts import read_meta
from tests.codex.conftest import RECORDINGS
from tests.codex.support import LEGACY, Reporter, digests, recorded_ref, request_for, turn_ids

PROMPTS = ["remember APPLE", "remember BANANA <shell echo hi>", "remember CHERRY", "remember DATE"]


@pytest.fixture(scope="module")
def source(home: HomeRef, project: Path) -> Thread:
    return run_thread(home.path, project, PROMPTS, name="Fruit")


def fork_of(adapter: CodexAdapter, home: HomeRef, thread: Thread, cwd: Path, turn: int, title: str = "") -> Thread:
    accepted = adapter.fork(request_for(adapter, home, thread, cwd, turn, title=title), Reporter())
    assert accepted.child_path is not None
    return Thread(accepted.child_provider_session_id, accepted.child_path, thread.turns[:turn])


def test_a_fork_at_an_inner_turn_continues_with_exactly_the_prefix(
    adapter: CodexAdapter, home: HomeRef, mock: MockResponses, project: Path, source: Thread
) -> None:
    before = digests(home)
    child = fork_of(adapter, home, source, project, 2, title="Fruit (2)")

    assert child.id != source.id
    assert {path: digests(home)[path] for path in before} == before
    with running_codex(home.path) as codex:
        codex.run_turn(codex.resume(child), "and EGGPLANT")
    assert mock.requests[-1].prompts == [*PROMPTS[:2], "and EGGPLANT"]
    assert {path: digests(home)[path] for path in before} == before


def test_the_child_reads_as_the_prefix_and_its_own_turns(
    adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread
) -> None:
    child = fork_of(adapter, home, source, project, 2)
    with running_codex(home.path) as codex:
        own = codex.run_turn(codex.resume(child), "and EGGPLANT")

    ref = SessionRef(home, child.id, child.path, str(project))
    assert turn_ids(adapter.read(ref, None, None)) == [*source.turns[:2], own]
    assert turn_ids(adapter.read(ref, None, TurnBinding(source.turns[1]))) == [own]


def test_codex_exec_resume_continues_the_child_with_exactly_the_prefix(
    adapter: CodexAdapter, home: HomeRef, mock: MockResponses, project: Path, source: Thread
) -> None:
    child = fork_of(adapter, home, source, project, 3)
    executable = find_executable(os.environ)
    assert executable is not None
    argv = [str(executable.path), "exec", "--skip-git-repo-check", "resume", child.id, "from the terminal"]
    environment = {**os.environ, "CODEX_HOME": str(home.path)}
    done = subprocess.run(argv, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    assert done.returncode == 0, done.stderr.decode()
    assert mock.requests[-1].prompts == [*PROMPTS[:3], "from the terminal"]


def test_a_fork_of_the_fork_at_an_inherited_turn_names_the_fork_as_its_origin(
    adapter: CodexAdapter, home: HomeRef, mock: MockResponses, project: Path, source: Thread
) -> None:
    child = fork_of(adapter, home, source, project, 3)
    grandchild = fork_of(adapter, home, child, project, 1)

    found = {session.ref.provider_session_id: session for session in adapter.discover(home, {})}
    assert found[grandchild.id].observed_parent_id == child.id
    with running_codex(home.path) as codex:
        codex.run_turn(codex.resume(grandchild), "and FIG")
    assert mock.requests[-1].prompts == [PROMPTS[0], "and FIG"]


def test_three_forks_of_one_source_are_three_sessions_with_their_own_lives(
    adapter: CodexAdapter, home: HomeRef, mock: MockResponses, project: Path, source: Thread
) -> None:
    children = [fork_of(adapter, home, source, project, turn) for turn in (2, 2, 4)]

    assert len({child.id for child in children}) == 3
    with running_codex(home.path) as codex:
        for number, child in enumerate(children):
            codex.run_turn(codex.resume(child), f"way {number}")
    shown = [request.prompts for request in mock.requests[-3:]]
    assert shown == [[*PROMPTS[:2], "way 0"], [*PROMPTS[:2], "way 1"], [*PROMPTS, "way 2"]]


def test_the_fork_is_reported_before_the_call_and_announced_after_it(
    adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread
) -> None:
    reporter = Reporter()
    accepted = adapter.fork(request_for(adapter, home, source, project, 2, require_prefix=True), reporter)

    assert reporter.calls == ["process_started", "announce"]
    assert reporter.announced == accepted.child_provider_session_id
    assert reporter.process is not None
    assert not Path(f"/proc/{reporter.process.pid}").exists()
    assert accepted.kept
    assert accepted.mapping[-1].target.provider_turn_id == source.turns[1]
    assert accepted.receipt["dependsOnSourceFiles"] is (accepted.receipt["historyMode"] == "paginated")
    assert accepted.receipt["verified"] == ["origin", "marker", "prefix", "rights", "listedTurns"]
    assert accepted.warnings == ()


def test_the_child_gets_its_own_title_and_says_which_operation_made_it(
    adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread
) -> None:
    request = request_for(adapter, home, source, project, 2, title="Fruit (2)")
    child_id = adapter.fork(request, Reporter()).child_provider_session_id

    found = {session.ref.provider_session_id: session for session in adapter.discover(home, {})}
    assert found[child_id].title == "Fruit (2)"
    assert found[source.id].title == "Fruit"
    assert found[child_id].fork_operation_id == request.operation_id
    assert found[child_id].preview == PROMPTS[0]


def test_a_running_turn_is_refused_before_and_by_the_call(adapter: CodexAdapter, home: HomeRef, project: Path) -> None:
    busy = run_thread(home.path, project, ["settled"])
    with running_codex(home.path) as codex:
        running = codex.begin_turn(codex.resume(busy), "never answered <hold>")
        codex.wait("turn/started", running)
        request = request_for(adapter, home, busy, project, 2)
        with pytest.raises(Rejected) as confirmed:
            adapter.confirm_turn(request)
        with pytest.raises(Rejected) as refused:
            adapter.fork(request, Reporter())
        codex.server.kill()

    assert confirmed.value.code == "turn_in_progress"
    assert refused.value.code == "turn_in_progress"
    assert adapter.find_children(request, 0, "").candidates == []


def test_a_turn_of_another_session_is_refused(
    adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread
) -> None:
    stranger = run_thread(home.path, project, ["elsewhere"])
    request = request_for(adapter, home, Thread(source.id, source.path, stranger.turns), project, 1)

    with pytest.raises(Rejected) as confirmed:
        adapter.confirm_turn(request)
    with pytest.raises(Rejected) as refused:
        adapter.fork(request, Reporter())
    assert (confirmed.value.code, refused.value.code) == ("turn_not_found", "turn_not_found")


def test_the_child_runs_with_the_settings_that_were_asked_for(
    adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread
) -> None:
    asked = ForkSettings(
        model="mock-model",
        effort="high",
        approval_policy="on-request",
        sandbox={"type": "workspace-write", "network_access": False, "writable_roots": []},
    )
    accepted = adapter.fork(request_for(adapter, home, source, project, 2, settings=asked), Reporter())

    found = {session.ref.provider_session_id: session for session in adapter.discover(home, {})}
    child = found[accepted.child_provider_session_id]
    assert child.settings["effort"] == "high"
    assert child.settings["approval_policy"] == "on-request"
    assert child.settings["sandbox"]["type"] == "workspace-write"
    assert child.settings["sandbox"]["network_access"] is False
    assert found[source.id].settings["sandbox"]["type"] == "danger-full-access"


def test_a_thread_of_an_old_version_is_forked_and_its_copied_prefix_is_recognised(
    adapter: CodexAdapter, home: HomeRef
) -> None:
    recorded = RECORDINGS / LEGACY / "codex-home" / "sessions"
    shutil.copytree(recorded, home.path / "sessions", dirs_exist_ok=True)
    ref = recorded_ref(LEGACY, home, "source")
    assert ref.path is not None
    old = Thread(ref.provider_session_id, ref.path, turn_ids(adapter.read(ref, None, None)))
    before = digests(home)
    request = request_for(adapter, home, old, Path(ref.cwd), 3, require_prefix=True)
    adapter.confirm_turn(request)
    accepted = adapter.fork(request, Reporter())

    assert accepted.receipt["dependsOnSourceFiles"] is False
    assert accepted.child_path is not None
    child = SessionRef(home, accepted.child_provider_session_id, accepted.child_path, ref.cwd)
    assert turn_ids(adapter.read(child, None, None)) == old.turns[:3]
    assert turn_ids(adapter.read(child, None, TurnBinding(old.turns[2]))) == []
    assert {path: digests(home)[path] for path in before} == before


def test_the_child_stays_with_the_service_of_its_model_and_is_refused_when_that_is_gone(
    adapter: CodexAdapter, mock: MockResponses, project: Path, tmp_path: Path
) -> None:
    home = HomeRef("codex", make_home(tmp_path / "home", mock.base_url))
    thread = run_thread(home.path, project, ["one", "two"])
    request = request_for(adapter, home, thread, project, 1, settings=ForkSettings(model="mock-model"))
    config = (home.path / "config.toml").read_text()
    (home.path / "config.toml").write_text(config.replace('model_provider = "mock"\n', ""))
    child = adapter.fork(request, Reporter())
    assert child.child_path is not None
    meta = read_meta(child.child_path)
    assert meta is not None
    assert meta.model_provider == "mock"

    before = digests(home)
    (home.path / "config.toml").write_text("")
    with pytest.raises(Rejected) as refused:
        adapter.fork(request, Reporter())
    assert refused.value.code == "codex_configuration_broken"
    assert digests(home) == before
