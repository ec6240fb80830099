"""A child can be made readable in another home, as often as one likes and without writing over anything."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from forkhost.demo.codex_home import Thread, make_home, run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import ForkAccepted, ForkRequest, HomeRef, Rejected, SessionRef, Unreadable
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.rollouts import titles
from tests.codex.conftest import RECORDINGS
from tests.codex.support import LEGACY, Reporter, digests, recorded_ref, request_for, turn_ids

PROMPTS = ["one", "two", "three"]
OLD_PROMPTS = [
    "First prompt: remember APPLE",
    "Second prompt: remember BANANA [run: echo hi]",
]


@dataclass(frozen=True)
class Forked:
    """A child in the home it was made in."""

    request: ForkRequest
    accepted: ForkAccepted
    source: Thread
    prompts: list[str]

    @property
    def id(self) -> str:
        return self.accepted.child_provider_session_id


@pytest.fixture(scope="module")
def source(home: HomeRef, project: Path) -> Thread:
    return run_thread(home.path, project, PROMPTS)


@pytest.fixture(scope="module")
def old_source(home: HomeRef) -> Thread:
    """A thread of a codex that copied whole histories."""
    shutil.copytree(RECORDINGS / LEGACY / "codex-home" / "sessions", home.path / "sessions", dirs_exist_ok=True)
    ref = recorded_ref(LEGACY, home, "source")
    assert ref.path is not None
    return Thread(ref.provider_session_id, ref.path, turn_ids(CodexAdapter().read(ref, None, None)))


@pytest.fixture
def other(mock: MockResponses, tmp_path: Path) -> HomeRef:
    return HomeRef("codex", make_home(tmp_path / "other-home", mock.base_url))


def fork(adapter: CodexAdapter, home: HomeRef, thread: Thread, cwd: Path, turn: int, prompts: list[str]) -> Forked:
    request = request_for(adapter, home, thread, cwd, turn, title="Here (2)", require_prefix=True)
    return Forked(request, adapter.fork(request, Reporter()), thread, prompts)


@pytest.fixture(params=["paginated", "legacy"])
def forked(
    request: pytest.FixtureRequest,
    adapter: CodexAdapter,
    home: HomeRef,
    project: Path,
    source: Thread,
    old_source: Thread,
) -> Forked:
    """A child that points into its source's record, and one that holds a copy of it."""
    if request.param == "paginated":
        return fork(adapter, home, source, project, 2, PROMPTS[:2])
    return fork(adapter, home, old_source, project, 2, OLD_PROMPTS)


@pytest.fixture
def child(adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread) -> Forked:
    return fork(adapter, home, source, project, 2, PROMPTS[:2])


def listed(home: HomeRef, thread_id: str) -> list[str]:
    """The turns that codex itself lists."""
    with running_codex(home.path) as codex:
        page = codex._ask("thread/turns/list", {"threadId": thread_id, "limit": 50, "sortDirection": "asc"})
    return [turn["id"] for turn in page["data"]]


def go_on(home: HomeRef, forked: Forked, path: Path, prompt: str) -> None:
    with running_codex(home.path) as codex:
        codex.run_turn(codex.resume(Thread(forked.id, path)), prompt)


def test_the_same_home_is_only_verified(adapter: CodexAdapter, home: HomeRef, forked: Forked) -> None:
    before = digests(home)
    assert adapter.bind(forked.request, forked.accepted, home)["copied"] == []
    assert digests(home) == before


def test_the_child_continues_in_the_other_home_with_exactly_the_prefix(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, mock: MockResponses, project: Path, forked: Forked
) -> None:
    before = digests(home)
    evidence = adapter.bind(forked.request, forked.accepted, other)
    path = Path(evidence["path"])

    assert len(evidence["copied"]) == (2 if forked.accepted.receipt["dependsOnSourceFiles"] else 1)
    assert "listedTurns" in evidence["verified"]
    assert titles(other.path)[forked.id] == "Here (2)"
    ref = SessionRef(other, forked.id, path, str(project))
    assert turn_ids(adapter.read(ref, None, None)) == forked.source.turns[:2]
    assert listed(other, forked.id) == forked.source.turns[:2]
    go_on(other, forked, path, "elsewhere")
    assert mock.requests[-1].prompts == [*forked.prompts, "elsewhere"]
    assert digests(home) == before


def test_binding_again_copies_nothing_even_when_the_child_has_gone_on_there(
    adapter: CodexAdapter, other: HomeRef, forked: Forked
) -> None:
    path = Path(adapter.bind(forked.request, forked.accepted, other)["path"])
    go_on(other, forked, path, "elsewhere")
    before = digests(other)

    assert adapter.bind(forked.request, forked.accepted, other)["copied"] == []
    assert digests(other) == before
    assert listed(other, forked.id)[:2] == forked.source.turns[:2]


def test_forks_at_different_turns_of_one_source_live_side_by_side_in_the_other_home(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, mock: MockResponses, project: Path, source: Thread
) -> None:
    early, late = (fork(adapter, home, source, project, turn, PROMPTS[:turn]) for turn in (1, 3))
    paths = [Path(adapter.bind(each.request, each.accepted, other)["path"]) for each in (early, late)]
    assert [listed(other, each.id) for each in (early, late)] == [source.turns[:1], source.turns[:3]]

    for each, path in zip((early, late), paths, strict=True):
        go_on(other, each, path, "there")
        assert mock.requests[-1].prompts == [*each.prompts, "there"]
        assert adapter.bind(each.request, each.accepted, other)["copied"] == []


def test_a_fork_of_a_fork_brings_its_whole_lineage_along(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, mock: MockResponses, project: Path, child: Forked
) -> None:
    assert child.accepted.child_path is not None
    between = Thread(child.id, child.accepted.child_path, child.source.turns[:2])
    with running_codex(home.path) as codex:
        codex.run_turn(codex.resume(between), "between")
    grandchild = fork(adapter, home, between, project, 3, [*PROMPTS[:2], "between"])
    evidence = adapter.bind(grandchild.request, grandchild.accepted, other)

    assert len(evidence["copied"]) == 3
    assert listed(other, grandchild.id) == between.turns
    go_on(other, grandchild, Path(evidence["path"]), "there")
    assert mock.requests[-1].prompts == [*PROMPTS[:2], "between", "there"]


def test_a_child_of_an_archived_source_is_readable_in_the_other_home(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, project: Path
) -> None:
    thread = run_thread(home.path, project, PROMPTS[:2])
    child = fork(adapter, home, thread, project, 1, PROMPTS[:1])
    with running_codex(home.path) as codex:
        codex.archive(thread)
    adapter.bind(child.request, child.accepted, other)

    assert listed(other, child.id) == thread.turns[:1]


def test_a_copy_that_lacks_its_end_is_repaired(adapter: CodexAdapter, other: HomeRef, forked: Forked) -> None:
    """Its last line torn and nothing in it that the original lacks; the first line says whose it is."""
    assert forked.accepted.child_path is not None
    whole = forked.accepted.child_path.read_bytes()
    path = Path(adapter.bind(forked.request, forked.accepted, other)["path"])
    path.write_bytes(whole[:-100])

    assert len(adapter.bind(forked.request, forked.accepted, other)["copied"]) == 1
    assert path.read_bytes().startswith(whole)
    assert listed(other, forked.id) == forked.source.turns[:2]
    thread = Thread(forked.id, path, forked.source.turns[:2])
    adapter.fork(request_for(adapter, other, thread, Path(forked.request.source.cwd), 1), Reporter())


def test_a_copy_without_a_whole_first_line_is_left_alone(adapter: CodexAdapter, other: HomeRef, forked: Forked) -> None:
    assert forked.accepted.child_path is not None
    whole = forked.accepted.child_path.read_bytes()
    path = Path(adapter.bind(forked.request, forked.accepted, other)["path"])
    for left in (b"", whole[:100]):
        path.write_bytes(left)
        with pytest.raises(Rejected) as refused:
            adapter.bind(forked.request, forked.accepted, other)
        assert (refused.value.code, path.read_bytes()) == ("bind_conflict", left)


def test_a_child_that_went_on_and_has_a_torn_end_is_never_rolled_back(
    adapter: CodexAdapter, other: HomeRef, forked: Forked
) -> None:
    path = Path(adapter.bind(forked.request, forked.accepted, other)["path"])
    go_on(other, forked, path, "elsewhere")
    torn = path.read_bytes()[:-7]
    path.write_bytes(torn)
    with pytest.raises(Rejected) as refused:
        adapter.bind(forked.request, forked.accepted, other)

    assert refused.value.code == "bind_damaged"
    assert path.read_bytes() == torn


def test_two_children_that_went_different_ways_are_both_left_alone(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, forked: Forked
) -> None:
    path = Path(adapter.bind(forked.request, forked.accepted, other)["path"])
    assert forked.accepted.child_path is not None
    go_on(home, forked, forked.accepted.child_path, "here")
    go_on(other, forked, path, "there")
    before = digests(home) | digests(other)
    with pytest.raises(Rejected) as refused:
        adapter.bind(forked.request, forked.accepted, other)

    assert refused.value.code == "bind_conflict"
    assert digests(home) | digests(other) == before


def test_something_else_under_the_name_is_never_written_over_and_nothing_beside_it(
    adapter: CodexAdapter, other: HomeRef, child: Forked
) -> None:
    names = adapter.bind(child.request, child.accepted, other)["copied"]
    last = other.path / names[-1]
    (other.path / names[0]).unlink()
    last.write_bytes(b"mine\n")
    with pytest.raises(Rejected) as refused:
        adapter.bind(child.request, child.accepted, other)

    assert refused.value.code == "bind_conflict"
    assert last.read_bytes() == b"mine\n"
    assert not (other.path / names[0]).exists()


def test_with_the_original_gone_only_a_whole_copy_is_accepted(
    adapter: CodexAdapter, mock: MockResponses, other: HomeRef, project: Path, tmp_path: Path
) -> None:
    home = HomeRef("codex", make_home(tmp_path / "lost-home", mock.base_url))
    thread = run_thread(home.path, project, PROMPTS)
    child = fork(adapter, home, thread, project, 2, PROMPTS[:2])
    path = Path(adapter.bind(child.request, child.accepted, other)["path"])
    go_on(other, child, path, "elsewhere")
    shutil.rmtree(home.path / "sessions")

    assert adapter.bind(child.request, child.accepted, other)["copied"] == []
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(Rejected) as refused:
        adapter.bind(child.request, child.accepted, other)
    assert refused.value.code == "bind_damaged"
    assert path.read_bytes() == whole[:-3]
    path.unlink()
    with pytest.raises(Unreadable):
        adapter.bind(child.request, child.accepted, other)


def test_a_damaged_original_is_not_copied(
    adapter: CodexAdapter, mock: MockResponses, other: HomeRef, project: Path, tmp_path: Path
) -> None:
    home = HomeRef("codex", make_home(tmp_path / "damaged-home", mock.base_url))
    thread = run_thread(home.path, project, PROMPTS[:1])
    child = fork(adapter, home, thread, project, 1, PROMPTS[:1])
    assert child.accepted.child_path is not None
    with child.accepted.child_path.open("ab") as file:
        file.write(b'{"timestamp":"2026')
    with pytest.raises(Unreadable) as refused:
        adapter.bind(child.request, child.accepted, other)

    assert refused.value.code == "source_damaged"
    assert adapter.present(other) == set()


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from sessions.providers.codex import copying
from sessions.providers.codex.adapter import CodexAdapter

request, accepted, target, place = pickle.load(sys.stdin.buffer)
def die(*args, **others):
    os.kill(os.getpid(), signal.SIGKILL)
if place == "half":
    copying.CHUNK = 500
    real = copying._copy
    def half(source, end, file):
        real(source, end // 2, file)
        die()
    copying._copy = half
else:
    setattr(copying.os if place == "link" else copying, place, die)
CodexAdapter().bind(request, accepted, target)
"""


@pytest.mark.parametrize("place", ["half", "link", "sync_folder"])
def test_a_binder_that_is_killed_leaves_nothing_that_codex_takes_for_a_session_and_is_done_again(
    adapter: CodexAdapter, home: HomeRef, other: HomeRef, child: Forked, place: str
) -> None:
    """In the middle of a file, before it gets its name, and right after."""
    before = digests(home)
    (other.path / "sessions" / "2026" / "12" / "01").mkdir(parents=True, exist_ok=True)
    task = pickle.dumps((child.request, child.accepted, other, place))
    died = subprocess.run([sys.executable, "-c", KILLED], input=task, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert child.id not in adapter.present(other)

    adapter.bind(child.request, child.accepted, other)
    assert listed(other, child.id) == child.source.turns[:2]
    assert [name for _, _, names in os.walk(other.path / "sessions") for name in names if name.endswith(".part")] == []
    assert digests(home) == before
