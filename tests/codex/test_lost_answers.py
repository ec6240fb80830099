"""A fork whose answer is lost or wrong is unknown, its child is found by its mark, and nothing is left running."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from forkhost.demo.codex_home import Thread, run_thread
from sessions.providers.base import (
    Fenced,
    ForkRequest,
    ForkSettings,
    HomeRef,
    MatchStrength,
    NotStarted,
    ProcessIdentity,
    Unknown,
)
from sessions.providers.codex import attestation
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.executable import OVERRIDE
from tests.codex.support import Reporter, digests, request_for
from tests.codex.troublemaker import Trouble, make_troublemaker


@pytest.fixture(autouse=True)
def nothing_proven_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attestation, "_proven", {})


@pytest.fixture(scope="module")
def source(home: HomeRef, project: Path) -> Thread:
    return run_thread(home.path, project, ["one", "two", "three"])


@pytest.fixture
def request_at_two(adapter: CodexAdapter, home: HomeRef, project: Path, source: Thread) -> ForkRequest:
    return request_for(adapter, home, source, project, 2, title="Two (2)")


def group_is_gone(process: ProcessIdentity | None) -> bool:
    """Whether no process of the group runs any more; one that is dead but not yet buried counts as gone."""
    assert process is not None
    return not any(_runs_in_group(path, process.pid) for path in Path("/proc").glob("[0-9]*/stat"))


def _runs_in_group(stat: Path, group: int) -> bool:
    try:
        fields = stat.read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[2]) == group


def test_a_child_whose_answer_was_lost_is_found_exact_and_adopted_by_its_files(
    adapter: CodexAdapter,
    home: HomeRef,
    request_at_two: ForkRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.DIES_WITH_THE_ANSWER)))
    before, began = digests(home), round(time.time() * 1000)
    reporter = Reporter()
    with pytest.raises(Unknown) as lost:
        adapter.fork(request_at_two, reporter)

    assert lost.value.code == "delivery_unknown"
    assert reporter.calls == ["process_started"]
    assert group_is_gone(reporter.process)
    search = adapter.find_children(request_at_two, began, "")
    [child] = search.candidates
    assert (child.strength, child.complete) == (MatchStrength.EXACT, True)
    assert search.absence_proves
    adopted = adapter.verify(request_at_two, child.provider_session_id)
    assert adopted.kept
    assert adopted.mapping[-1].target == request_at_two.turn.binding
    assert {path: digests(home)[path] for path in before} == before


def test_a_request_that_made_nothing_leaves_no_candidate(
    adapter: CodexAdapter,
    home: HomeRef,
    request_at_two: ForkRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.DIES_BEFORE_PASSING_ON)))
    before = digests(home)
    with pytest.raises(Unknown) as lost:
        adapter.fork(request_at_two, Reporter())

    assert lost.value.code == "delivery_unknown"
    search = adapter.find_children(request_at_two, 0, "")
    assert (search.candidates, search.absence_proves) == ([], True)
    assert digests(home) == before


def test_an_answer_that_does_not_come_in_time_is_unknown_and_the_process_group_is_ended(
    adapter: CodexAdapter, request_at_two: ForkRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.KEEPS_THE_ANSWER)))
    reporter = Reporter()
    impatient = replace(request_at_two.attestation, longest_fork_seconds=1.0)
    with pytest.raises(Unknown) as lost:
        adapter.fork(replace(request_at_two, attestation=impatient), reporter)

    assert lost.value.code == "delivery_unknown"
    assert group_is_gone(reporter.process)


def test_an_error_that_is_not_listed_as_harmless_is_unknown(
    adapter: CodexAdapter, request_at_two: ForkRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.NEW_ERROR)))
    with pytest.raises(Unknown) as lost:
        adapter.fork(request_at_two, Reporter())
    assert lost.value.code == "unlisted_error"


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        ({"threadSource": "somebody else"}, "wrong_child"),
        ({"forkedFromId": "01a00000-0000-7000-8000-000000000000"}, "wrong_child"),
        ({"sandbox": {"type": "dangerFullAccess"}}, "rights_widened"),
        ({"approvalPolicy": "never"}, "rights_widened"),
    ],
)
def test_an_answer_that_differs_from_the_request_is_unknown_and_names_the_child(
    adapter: CodexAdapter,
    request_at_two: ForkRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alteration: dict[str, object],
    code: str,
) -> None:
    program = make_troublemaker(tmp_path / "bin", Trouble.ALTERS_THE_ANSWER, alteration)
    monkeypatch.setenv(OVERRIDE, str(program))
    narrow = ForkSettings(approval_policy="untrusted", sandbox={"type": "read-only"})
    reporter = Reporter()
    with pytest.raises(Unknown) as wrong:
        adapter.fork(replace(request_at_two, settings=narrow), reporter)

    assert wrong.value.code == code
    assert wrong.value.child_provider_session_id == reporter.announced != ""


def test_a_title_that_codex_refuses_is_a_warning(
    adapter: CodexAdapter, request_at_two: ForkRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.REFUSES_THE_TITLE)))
    accepted = adapter.fork(request_at_two, Reporter())
    assert len(accepted.warnings) == 1


@pytest.mark.parametrize(
    ("trouble", "code"),
    [(Trouble.DEAD_ON_START, "codex_start_failed"), (Trouble.OTHER_VERSION, "runtime_changed")],
)
def test_a_codex_that_is_not_the_attested_one_is_asked_nothing(
    adapter: CodexAdapter,
    request_at_two: ForkRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Trouble,
    code: str,
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", trouble)))
    reporter = Reporter()
    with pytest.raises(NotStarted) as refused:
        adapter.fork(request_at_two, reporter)
    assert refused.value.code == code
    assert reporter.calls == []


def test_no_codex_is_not_started(
    adapter: CodexAdapter, request_at_two: ForkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, "/nowhere/codex")
    with pytest.raises(NotStarted) as refused:
        adapter.fork(request_at_two, Reporter())
    assert refused.value.code == "codex_missing"


def test_a_worker_that_lost_the_operation_makes_no_call(
    adapter: CodexAdapter, home: HomeRef, request_at_two: ForkRequest
) -> None:
    class Lost(Reporter):
        def process_started(self, process: ProcessIdentity) -> None:
            super().process_started(process)
            raise Fenced

    before, reporter = digests(home), Lost()
    with pytest.raises(Fenced):
        adapter.fork(request_at_two, reporter)
    assert digests(home) == before
    assert group_is_gone(reporter.process)
