"""A child can be made readable in another home, as often as one likes and without writing over anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forkhost.demo.codex_home import Thread, make_home, run_thread, running_codex
from forkhost.demo.mock_responses import MockResponses
from sessions.providers.base import ForkAccepted, ForkRequest, HomeRef, Rejected, SessionRef
from sessions.providers.codex import binding
from sessions.providers.codex.adapter import CodexAdapter
from tests.codex.support import Reporter, digests, request_for, turn_ids

PROMPTS = ["one", "two", "three"]


@pytest.fixture(scope="module")
def source(home: HomeRef, project: Path) -> Thread:
    return run_thread(home.path, project, PROMPTS)


@pytest.fixture
def other(mock: MockResponses, tmp_path: Path) -> HomeRef:
    return HomeRef("codex", make_home(tmp_path / "other-home", mock.base_url))


@pytest.fixture
def wanted(adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread) -> ForkRequest:
    return request_for(adapter, home, source, project, 2)


@pytest.fixture
def child(adapter: CodexAdapter, wanted: ForkRequest) -> ForkAccepted:
    return adapter.fork(wanted, Reporter())


def test_the_same_home_is_only_verified(
    adapter: CodexAdapter, home: HomeRef, wanted: ForkRequest, child: ForkAccepted
) -> None:
    before = digests(home)
    assert adapter.bind(wanted, child, home)["copied"] == []
    assert digests(home) == before


def test_the_child_continues_in_the_other_home_with_exactly_the_prefix(
    adapter: CodexAdapter,
    home: HomeRef,
    other: HomeRef,
    mock: MockResponses,
    project: Path,
    source: Thread,
    wanted: ForkRequest,
    child: ForkAccepted,
) -> None:
    before = digests(home)
    evidence = adapter.bind(wanted, child, other)
    path = Path(evidence["path"])

    assert len(evidence["copied"]) == (2 if child.receipt["dependsOnSourceFiles"] else 1)
    ref = SessionRef(other, child.child_provider_session_id, path, str(project))
    assert turn_ids(adapter.read(ref, None, None)) == source.turns[:2]
    with running_codex(other.path) as codex:
        codex.run_turn(codex.resume(Thread(child.child_provider_session_id, path)), "elsewhere")
    assert mock.requests[-1].prompts == [*PROMPTS[:2], "elsewhere"]
    assert digests(home) == before


def test_binding_again_copies_nothing_even_when_the_child_has_gone_on_there(
    adapter: CodexAdapter, other: HomeRef, wanted: ForkRequest, child: ForkAccepted
) -> None:
    path = Path(adapter.bind(wanted, child, other)["path"])
    with running_codex(other.path) as codex:
        codex.run_turn(codex.resume(Thread(child.child_provider_session_id, path)), "elsewhere")
    before = digests(other)

    assert adapter.bind(wanted, child, other)["copied"] == []
    assert digests(other) == before


def test_a_copy_that_a_crash_left_unfinished_is_finished(
    adapter: CodexAdapter, other: HomeRef, wanted: ForkRequest, child: ForkAccepted
) -> None:
    whole = adapter.bind(wanted, child, other)
    before = digests(other)
    first = other.path / whole["copied"][0]
    first.write_bytes(first.read_bytes()[:1000])
    Path(whole["path"]).unlink()

    assert adapter.bind(wanted, child, other)["copied"] == whole["copied"]
    assert digests(other) == before


def test_something_else_under_the_name_is_never_written_over(
    adapter: CodexAdapter, other: HomeRef, wanted: ForkRequest, child: ForkAccepted
) -> None:
    first = other.path / adapter.bind(wanted, child, other)["copied"][0]
    first.write_bytes(b"mine\n")
    with pytest.raises(Rejected) as refused:
        adapter.bind(wanted, child, other)

    assert refused.value.code == "bind_conflict"
    assert first.read_bytes() == b"mine\n"


def test_a_crash_before_the_name_is_given_leaves_nothing_that_codex_could_take_for_a_session(
    adapter: CodexAdapter,
    other: HomeRef,
    wanted: ForkRequest,
    child: ForkAccepted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(*names: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(binding.os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            adapter.bind(wanted, child, other)
    assert adapter.present(other) == set()
    assert [name for _, _, names in os.walk(other.path / "sessions") for name in names] == []
