"""What the one provider call said, and what becomes of the operation."""

from __future__ import annotations

from typing import Any

import pytest

from operations.choices import OperationStatus
from operations.models import Evidence
from operations.projections import operation_json
from sessions.models import Session
from tests.operations.support import World, acts

pytestmark = pytest.mark.django_db

S = OperationStatus


@pytest.mark.parametrize(
    ("step", "status", "code", "children"),
    [
        ("accept", S.COMMITTED, "", 1),
        ("not_started", S.FAILED, "runtime_missing", 0),
        ("reject", S.FAILED, "turn_gone", 0),
        ("lose", S.UNKNOWN, "no_answer", 0),
        ("lose_answer", S.UNKNOWN, "no_answer", 1),
        ("torn", S.UNKNOWN, "wrong_child", 1),
        ("explode", S.UNKNOWN, "adapter_failed", 0),
        ("half", S.UNKNOWN, "wrong_child", 1),
    ],
)
def test_only_a_proven_no_is_a_failure(world: World, step: str, status: S, code: str, children: int) -> None:
    world.agent.script(step)
    operation = world.fork()
    assert (operation.status, operation.error_code, operation.calls) == (status, code, 1)
    assert len(world.agent.calls) == 1
    assert len(world.agent.children) == children
    assert Session.objects.filter(pk=operation.target_session_id).exists() == (status == S.COMMITTED)
    shown = operation_json(operation)
    assert (shown["error"] is None) == (status == S.COMMITTED)
    assert (shown["unknownSinceUnixMs"] is None) == (status != S.UNKNOWN)


def test_nothing_sends_an_unknown_or_failed_fork_again(world: World) -> None:
    world.agent.script("lose", "reject")
    world.agent.configure(absence_proves=False)
    unknown, failed = world.fork(), world.fork()
    for _ in range(3):
        world.work()
    unknown.refresh_from_db()
    failed.refresh_from_db()
    assert (unknown.status, failed.status) == (S.UNKNOWN, S.FAILED)
    assert len(world.agent.calls) == 2


def test_a_wrong_child_keeps_its_id_and_is_never_adopted_by_itself(world: World) -> None:
    world.agent.script("half")
    operation = world.fork()
    child = world.agent.children[0]
    assert operation.child_provider_session_id == child["id"]
    operation.next_run_at = operation.prepared_at
    operation.save()
    world.work(operation)
    assert (operation.status, operation.looks) == (S.UNKNOWN, 1)
    assert Evidence.objects.get(operation_id=operation.pk).candidates[0]["strength"] == "exact"
    assert world.agent.children == [child]


@pytest.mark.parametrize("whose", ["another fork's", "another session's", "the source's"])
def test_a_child_that_is_somebody_elses_is_not_accepted(world: World, whose: str) -> None:
    other = world.fork()
    ids = {
        "another fork's": other.child_provider_session_id,
        "another session's": world.new_source().provider_session_id,
        "the source's": world.source.provider_session_id,
    }
    world.agent.script({"do": "accept", "child": ids[whose]})
    operation = world.fork()
    assert (operation.status, operation.error_code) == (S.UNKNOWN, "wrong_child")
    assert not Session.objects.filter(pk=operation.target_session_id).exists()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": "2"}, "runtime_changed"),
        ({"points": "unsupported"}, "too_old"),
        ({"confirm": "turn_in_progress"}, "turn_in_progress"),
        ({"confirm": "explode"}, "adapter_failed"),
    ],
)
def test_what_goes_wrong_before_the_mark_fails_without_a_call(world: World, changes: dict[str, Any], code: str) -> None:
    operation = world.prepare()
    world.agent.configure(**changes)
    world.work(operation)
    assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, code, 0)
    assert operation.dispatch_token is None
    assert world.agent.calls == []
    assert acts(operation) == ["prepared", "failed"]


def test_a_home_that_is_gone_fails_without_a_call(world: World, tmp_path: Any) -> None:
    operation = world.prepare()
    world.agent.folder.rename(tmp_path / "moved")
    world.work(operation)
    assert (operation.status, operation.error_code, operation.calls) == (S.FAILED, "home_missing", 0)


def test_an_attachment_that_is_not_stored_fails_without_a_call(world: World, settings: Any, tmp_path: Any) -> None:
    from sessions import attachments, store

    settings.FORKHOST_DATA = tmp_path
    digest = attachments.store_bytes(b"a picture")
    store.append(
        world.source.pk,
        [
            store.TurnStart(9000, "look", world_binding()),
            store.NewEvent(
                "message.user", 9001, {"text": "look", "images": [{"mediaType": "image/png", "sha256": digest}]}
            ),
            store.TurnEnd(9002, "completed"),
        ],
    )
    kept, lost = world.prepare(), world.prepare()
    world.work(kept)
    attachments.path_of(digest).unlink()
    world.work(lost)
    assert (kept.status, lost.status, lost.error_code) == (S.COMMITTED, S.FAILED, "attachment_missing")
    assert len(world.agent.calls) == 1


def world_binding() -> Any:
    """A binding of the fourth turn."""
    from sessions.providers.base import TurnBinding

    return TurnBinding("turn-4")
