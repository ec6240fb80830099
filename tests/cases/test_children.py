"""What a fork takes from its source, where it is found, and that it stays as it was made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from operations.choices import OperationStatus
from sessions import attachments, history, indexing, store
from sessions.api.projections import session_json
from sessions.choices import EventKind
from sessions.models import Session
from sessions.providers.base import TurnBinding
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.conftest import People
from tests.operations.support import World, through
from tests.pages.support import html, session_page


def child_of(world: World, **changes: object) -> Session:
    operation = world.fork(**changes)
    assert operation.status == OperationStatus.COMMITTED
    found: Session = Session.objects.get(pk=operation.target_session_id)
    return found


def test_a_child_has_the_settings_its_source_had_when_the_fork_was_asked_for(world: World) -> None:
    careful = {"permission_mode": "plan", "approval_policy": "untrusted", "sandbox": {"type": "read-only"}}
    store.update_facts(world.source.pk, settings=careful)
    operation = world.prepare()
    store.update_facts(world.source.pk, settings={"permission_mode": "bypassPermissions"})
    world.work(operation)
    child = Session.objects.get(pk=operation.target_session_id)
    assert child.settings == careful
    assert operation.frozen["settings"]["permission_mode"] == "plan"
    assert (child.cwd, child.visibility) == (world.source.cwd, world.source.visibility)


def test_a_fork_is_found_wherever_its_source_is(
    world: World, reader: Client, browser_of: Callable[[User], Client], people: People
) -> None:
    child = child_of(world)
    indexing.catch_up()
    both = {str(world.source.pk), str(child.pk)}
    base = f"/v1/workspaces/{world.workspace.pk}"
    listed = reader.get(f"{base}/agent-sessions").json()["items"]
    relatives = reader.get(f"{base}/agent-sessions/{child.pk}/family").json()["items"]
    folder = reader.get(f"{base}/agent-sessions", {"cwd": world.source.cwd}).json()["items"]
    assert {item["id"] for item in listed} == {item["id"] for item in folder} == both
    assert {item["session"]["id"] if "session" in item else item["id"] for item in relatives} == both
    admin = html(browser_of(people.operator).get(reverse("admin:agent_sessions_session_changelist")))
    for address in ("/", "/?q=Fix", "/search/?q=Answer"):
        page = html(reader.get(address))
        assert all(identity in page for identity in both), address
    assert all(identity in admin for identity in both)


def test_what_a_child_inherits_keeps_its_order_and_its_times(world: World) -> None:
    for number in range(4, 44):
        at = 100_000 - number
        store.append(
            world.source.pk, [TurnStart(at, f"Prompt {number}", TurnBinding(f"t{number}")), TurnEnd(at, "completed")]
        )
    child = child_of(world)
    world.source.refresh_from_db()

    def shown(session: Session) -> list[tuple[int, str, int]]:
        return [(event.seq, event.kind, event.at_unix_ms) for event in history.events(session, limit=1000)]

    assert shown(child) == shown(world.source)
    assert [turn.ordinal for turn in history.turns(child, limit=100)] == list(range(1, 44))


def test_going_back_and_forth_between_siblings_shows_each_the_same_every_time(world: World, reader: Client) -> None:
    children = [child_of(world, point=through(world.source, ordinal)) for ordinal in (1, 2, 3)]
    for number, child in enumerate(children):
        store.append(child.pk, [TurnStart(9_000, f"Way {number}"), TurnEnd(9_001, "completed")])

    def prompts(session: Session) -> list[str]:
        items = reader.get(f"/v1/workspaces/{world.workspace.pk}/agent-sessions/{session.pk}/turns").json()["items"]
        return [item["prompt"] for item in items]

    first = [prompts(child) for child in children]
    assert [shown[-1] for shown in first] == ["Way 0", "Way 1", "Way 2"]
    assert [prompts(child) for child in reversed(children)] == first[::-1]


def test_a_childs_pictures_are_there_when_its_source_is_gone(world: World, reader: Client) -> None:
    digest = attachments.store_bytes(b"\x89PNG of a cat", media_type="image/png")
    picture = {"text": "Look", "images": [{"mediaType": "image/png", "sha256": digest}]}
    entries = [
        TurnStart(9_000, "Look", TurnBinding("turn-4")),
        NewEvent(EventKind.MESSAGE_USER, 9_001, picture),
        TurnEnd(9_002, "completed"),
    ]
    store.append(world.source.pk, entries)
    child = child_of(world)
    store.tombstone(world.source.pk, actor="user:member")
    store.purge(world.source.pk)
    (seq,) = [event.seq for event in history.events(child) if "images" in event.payload]
    shown = reader.get(reverse("sessions:image", args=[child.pk, seq, 0]))
    assert b"".join(shown) == b"\x89PNG of a cat"


@pytest.mark.parametrize("text", ["   \n\t ", ""], ids=["white space", "nothing"])
def test_a_turn_whose_answer_is_empty_is_forked_through_its_end(world: World, text: str) -> None:
    entries = [
        TurnStart(9_000, "Say nothing", TurnBinding("turn-4")),
        NewEvent(EventKind.MESSAGE_ASSISTANT, 9_001, {"text": text}),
        TurnEnd(9_002, "canceled"),
    ]
    store.append(world.source.pk, entries)
    child = child_of(world)
    last = history.latest_turn(child)
    assert last is not None
    assert (last.ordinal, last.prompt, last.outcome) == (4, "Say nothing", "canceled")
    assert [call["turn"] for call in world.agent.calls] == ["turn-4"]


def test_looking_at_a_session_moves_nothing(world: World, reader: Client) -> None:
    child = child_of(world)
    before = list(Session.objects.order_by("pk").values())
    for session in (world.source, child):
        for _ in range(2):
            assert reader.get(session_page(session)).status_code == 200
    assert list(Session.objects.order_by("pk").values()) == before


def test_a_child_is_named_by_its_parent_at_once_and_stays_idle(world: World, people: People) -> None:
    child = child_of(world)
    shown = session_json(child, user=people.member)
    assert shown["forkedFrom"]["sourceAgentSessionId"] == str(world.source.pk)
    assert shown["activity"] == "idle"
    assert shown["turnCount"] == 3
