"""What files prove about the child of an unknown fork: whole, torn, strange, absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sessions.providers.base import (
    Attestation,
    BindingMode,
    ForkRequest,
    ForkSettings,
    ForkTurn,
    HomeRef,
    IdentityMode,
    MatchStrength,
    PointSupport,
    Rejected,
    TurnBinding,
    Unreadable,
)
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.rollouts import uuid7_ms
from tests.codex.support import LEGACY, PAGINATED, recorded_home, recorded_ids, recorded_ref

OPERATION = "5f1c8a52-6a0e-4c7f-9d5b-0d7c3c1f2a11"
RECORDED_MARKER = f"forkop:{OPERATION}"
CHILD = "child (fork at source turn 2)"
UNTOUCHED = "second child at the same point"

ATTESTED = Attestation(
    driver_kind="codex-app-server",
    driver_version="0.171.0",
    fingerprint="0" * 64,
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.HOST_COPY,
    identity_mode=IdentityMode.MARKER,
    longest_fork_seconds=30,
)


@pytest.fixture(params=[LEGACY, PAGINATED])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home_with_child(version: str, tmp_path: Path) -> HomeRef:
    return recorded_home(version, tmp_path)


@pytest.fixture
def wanted(version: str, home_with_child: HomeRef) -> ForkRequest:
    """The recorded fork at the source's second turn."""
    return fork_request(version, home_with_child, "source", ["source turn 1", "source turn 2"])


def fork_request(version: str, home: HomeRef, role: str, turns: list[str]) -> ForkRequest:
    ids = recorded_ids(version)
    prefix = [TurnBinding(ids["turns"][turn]) for turn in turns]
    return ForkRequest(
        operation_id=OPERATION,
        marker=RECORDED_MARKER,
        source=recorded_ref(version, home, role),
        turn=ForkTurn(prefix[-1], len(prefix)),
        prefix=prefix,
        title="",
        settings=ForkSettings(approval_policy="never", sandbox={"type": "danger-full-access"}),
        attestation=ATTESTED,
        require_prefix=True,
    )


def thread_id(version: str, role: str) -> str:
    return str(recorded_ids(version)["threads"][role]["id"])


def rollout(version: str, home: HomeRef, role: str) -> Path:
    return home.path / str(recorded_ids(version)["threads"][role]["rollout"])


def change_first_line(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    first, _, rest = path.read_bytes().partition(b"\n")
    record = json.loads(first)
    change(record["payload"])
    path.write_bytes(json.dumps(record).encode() + b"\n" + rest)


def test_the_recorded_child_is_found_exact_and_complete_though_somebody_continued_it(
    adapter: CodexAdapter, version: str, wanted: ForkRequest
) -> None:
    search = adapter.find_children(wanted, 0, "")
    [child] = search.candidates

    assert child.provider_session_id == thread_id(version, CHILD)
    assert (child.strength, child.complete) == (MatchStrength.EXACT, True)
    assert adapter.verify(wanted, child.provider_session_id).kept


def test_an_untouched_child_is_complete(adapter: CodexAdapter, version: str, wanted: ForkRequest) -> None:
    request = replace(wanted, marker="forkop:second-fork-of-same-point")
    [child] = adapter.find_children(request, 0, "").candidates
    assert (child.provider_session_id, child.complete) == (thread_id(version, UNTOUCHED), True)


def test_a_child_of_another_operation_is_no_candidate(adapter: CodexAdapter, wanted: ForkRequest) -> None:
    search = adapter.find_children(replace(wanted, marker="forkhost:another"), 0, "")
    assert (search.candidates, search.absence_proves) == ([], True)


def test_threads_older_than_the_call_are_not_opened(adapter: CodexAdapter, version: str, wanted: ForkRequest) -> None:
    made = uuid7_ms(thread_id(version, CHILD))
    assert adapter.find_children(wanted, made + 10 * 60_000, "").candidates == []
    assert len(adapter.find_children(wanted, made + 10 * 60_000, thread_id(version, CHILD)).candidates) == 1


def test_two_children_of_one_operation_are_both_told_the_first_first(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef, wanted: ForkRequest
) -> None:
    change_first_line(
        rollout(version, home_with_child, UNTOUCHED), lambda meta: meta.update(thread_source=RECORDED_MARKER)
    )
    found = [child.provider_session_id for child in adapter.find_children(wanted, 0, "").candidates]
    assert found == [thread_id(version, CHILD), thread_id(version, UNTOUCHED)]


def test_an_announced_child_without_our_mark_is_only_likely(
    adapter: CodexAdapter, version: str, wanted: ForkRequest
) -> None:
    [child] = adapter.find_children(replace(wanted, marker="forkhost:x"), 0, thread_id(version, CHILD)).candidates
    assert (child.strength, child.complete) == (MatchStrength.LIKELY, False)


def test_our_mark_on_a_child_of_another_source_is_only_likely_and_refused(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef, wanted: ForkRequest
) -> None:
    change_first_line(
        rollout(version, home_with_child, CHILD), lambda meta: meta.update(forked_from_id=thread_id(version, UNTOUCHED))
    )
    [child] = adapter.find_children(wanted, 0, "").candidates
    assert (child.strength, child.complete) == (MatchStrength.LIKELY, False)
    with pytest.raises(Rejected) as refused:
        adapter.verify(wanted, child.provider_session_id)
    assert refused.value.code == "wrong_child"
    assert refused.value.child_provider_session_id == child.provider_session_id


@pytest.mark.parametrize("size", [0, 300])
def test_a_child_whose_first_line_is_torn_is_no_candidate(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef, wanted: ForkRequest, size: int
) -> None:
    path = rollout(version, home_with_child, CHILD)
    path.write_bytes(path.read_bytes()[:size])
    search = adapter.find_children(wanted, 0, "")

    assert (search.candidates, search.absence_proves) == ([], True)
    assert "1 of them" in search.detail


@pytest.mark.parametrize("missing", ["task_complete of the chosen turn", "the chosen turn"])
def test_a_truncated_copy_is_exact_but_not_complete_and_is_not_adopted(
    adapter: CodexAdapter, tmp_path: Path, missing: str
) -> None:
    home = recorded_home(LEGACY, tmp_path)
    wanted = fork_request(LEGACY, home, "source", ["source turn 1", "source turn 2"])
    path = rollout(LEGACY, home, CHILD)
    rows = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(rows[: 23 if missing.startswith("task") else 13]) + b"\n")
    [child] = adapter.find_children(wanted, 0, "").candidates

    assert (child.strength, child.complete) == (MatchStrength.EXACT, False)
    assert child.facts["problem"]
    with pytest.raises(Rejected) as refused:
        adapter.verify(wanted, child.provider_session_id)
    assert refused.value.code == "wrong_child"


def test_a_child_that_holds_more_of_its_source_than_was_asked_for_is_wrong(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef
) -> None:
    request = fork_request(version, home_with_child, "source", ["source turn 1"])
    [child] = adapter.find_children(request, 0, "").candidates
    assert not child.complete
    with pytest.raises(Rejected):
        adapter.verify(request, child.provider_session_id)


def test_turns_in_another_order_are_wrong_under_the_strict_contract_only(
    adapter: CodexAdapter, version: str, wanted: ForkRequest
) -> None:
    shuffled = replace(wanted, prefix=[TurnBinding("01a2-not-there"), *wanted.prefix])
    with pytest.raises(Rejected):
        adapter.verify(shuffled, thread_id(version, CHILD))
    assert adapter.verify(replace(shuffled, require_prefix=False), thread_id(version, CHILD)).kept


def test_a_child_with_wider_rights_is_refused(adapter: CodexAdapter, version: str, wanted: ForkRequest) -> None:
    narrow = replace(wanted, settings=ForkSettings(sandbox={"type": "read-only"}))
    with pytest.raises(Rejected) as refused:
        adapter.verify(narrow, thread_id(version, CHILD))
    assert refused.value.code == "rights_widened"


def test_a_child_that_is_gone_is_unreadable(adapter: CodexAdapter, wanted: ForkRequest) -> None:
    with pytest.raises(Unreadable):
        adapter.verify(wanted, "01a00000-0000-7000-8000-000000000000")


def test_without_its_folder_a_look_up_proves_nothing(adapter: CodexAdapter, tmp_path: Path) -> None:
    home = recorded_home(PAGINATED, tmp_path)
    request = fork_request(PAGINATED, home, "source", ["source turn 1"])
    (home.path / "sessions").rename(home.path / "elsewhere")
    with pytest.raises(Unreadable):
        adapter.find_children(request, 0, "")


@pytest.mark.parametrize(("turn", "code"), [("source turn 2", ""), ("child own turn", "turn_not_found")])
def test_a_turn_is_confirmed_in_the_source_only(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef, turn: str, code: str
) -> None:
    request = fork_request(version, home_with_child, "source", [turn])
    if not code:
        adapter.confirm_turn(request)
        return
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(request)
    assert refused.value.code == code


def test_an_inherited_turn_is_confirmed_through_the_lineage(
    adapter: CodexAdapter, version: str, home_with_child: HomeRef
) -> None:
    adapter.confirm_turn(fork_request(version, home_with_child, CHILD, ["source turn 1"]))


def test_a_turn_without_its_end_is_not_confirmed(adapter: CodexAdapter, version: str, home_with_child: HomeRef) -> None:
    path = rollout(version, home_with_child, "source")
    path.write_bytes(path.read_bytes()[: path.read_bytes().rfind(b"\n", 0, -1) + 1])
    with pytest.raises(Rejected) as refused:
        adapter.confirm_turn(fork_request(version, home_with_child, "source", ["source turn 6 (interrupted)"]))
    assert refused.value.code == "turn_in_progress"
