"""Hosted sessions are created with an id of the caller's or a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db

MINE = "3F6C2A1E-8F0B-4F57-9A53-8F3BB4A1C002"


def test_a_created_session_is_where_its_location_says(api: Caller, paths: Paths) -> None:
    created = api.post(paths.sessions, {"title": "Notes", "cwd": "/src", "model": "m-1", "settings": {"mode": "plan"}})
    assert created.status_code == 201
    body = created.json()
    assert api.get(created["Location"]).json() == {**body, "usage": {"own": {}, "inherited": {}}, "transcript": None}
    assert (body["title"], body["cwd"], body["model"], body["settings"]) == ("Notes", "/src", "m-1", {"mode": "plan"})


def test_an_empty_session_shows_every_member(people: People, api: Caller, paths: Paths) -> None:
    body = api.post(paths.sessions, {"id": MINE}).json()
    assert isinstance(body.pop("createdAtUnixMs"), int)
    assert isinstance(body.pop("updatedAtUnixMs"), int)
    assert body == {
        "id": MINE.lower(),
        "workspaceId": str(people.workspace.pk),
        "provider": "hosted",
        "providerSessionId": None,
        "runner": None,
        "kind": "root",
        "rootAgentSessionId": None,
        "parentAgentSessionId": None,
        "parentTurnId": None,
        "parentToolCallId": None,
        "title": "",
        "preview": "",
        "cwd": "",
        "model": "",
        "settings": {},
        "visibility": "workspace",
        "pin": False,
        "detached": False,
        "deletedAtUnixMs": None,
        "turnCount": 0,
        "lastSeq": 0,
        "seedLength": 0,
        "historyRevision": 0,
        "activity": "idle",
        "lifecycleCapabilities": {"fork": True, "forkThroughTurn": True, "reason": None},
        "forkedFrom": None,
        "observedParent": None,
        "resumeCommand": None,
    }


def test_an_id_works_once_and_in_any_case(api: Caller, paths: Paths) -> None:
    assert api.post(paths.sessions, {"id": MINE}).status_code == 201
    assert_problem(api.post(paths.sessions, {"id": MINE.lower()}), 409, "session_already_exists")
    assert api.get(paths.session(MINE)).json()["id"] == MINE.lower()
    assert api.get(paths.session(MINE.lower())).status_code == 200


def test_hostile_text_is_stored_safely(api: Caller, paths: Paths) -> None:
    title = "\ud83d \x00 \u202e 𝒳 漢 e\u0301 <script>"
    created = api.send(
        "POST", paths.sessions, b'{"title": "\\ud83d \\u0000 \\u202e \\ud835\\udcb3 \xe6\xbc\xa2 e\\u0301 <script>"}'
    )
    assert created.status_code == 201, created.content
    kept = title.replace("\ud83d", "\ufffd").replace("\x00", "\ufffd")
    assert api.get(created["Location"]).json()["title"] == kept
    settings = api.send(
        "POST", paths.sessions, b'{"settings": {"\\u0000a": "\\ud800", "n": 123456789012345678901234567890}}'
    )
    assert settings.json()["settings"] == {"\ufffda": "\ufffd", "n": 123456789012345678901234567890}


def test_a_private_session_is_its_creators(
    people: People, api: Caller, calling: Callable[..., Caller], paths: Paths
) -> None:
    created = api.post(paths.sessions, {"visibility": "private"})
    assert api.get(created["Location"]).json()["visibility"] == "private"
    assert_problem(calling(people.second_member).get(created["Location"]), 404, "session_not_found")
