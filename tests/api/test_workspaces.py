"""Workspaces and runners."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def test_a_member_sees_their_workspaces_with_their_role(
    people: People, api: Caller, calling: Callable[..., Caller]
) -> None:
    shown = api.get("/v1/workspaces").json()
    assert shown == {
        "items": [
            {
                "id": str(people.workspace.pk),
                "name": "Here",
                "slug": "here",
                "forkContract": "optimistic",
                "forksEnabled": True,
                "role": "member",
            }
        ],
        "nextCursor": None,
    }
    assert calling(people.operator).get("/v1/workspaces").json()["items"][0]["role"] == "operator"


def test_a_superuser_is_no_member(people: People, calling: Callable[..., Caller], paths: Paths) -> None:
    from django.contrib.auth.models import User

    root = User.objects.create_superuser("root", password="secret")
    assert calling(root).get("/v1/workspaces").json()["items"] == []
    assert_problem(calling(root).get(paths.sessions), 404, "workspace_not_found")


def test_runners_tell_what_their_agents_can_do(people: People, api: Caller, paths: Paths) -> None:
    from sessions.models import Home, Runner

    seen = dt.datetime(2026, 7, 29, 12, tzinfo=dt.UTC)
    laptop = Runner.objects.create(workspace=people.workspace, name="laptop", last_seen_at=seen)
    Runner.objects.create(workspace=people.other_workspace, name="theirs")
    attestation = {"driver_kind": "codex-app-server", "driver_version": "0.171.0", "points": "any-turn", "reason": ""}
    Home.objects.create(
        runner=laptop, provider="codex", path="/agents/codex", attestation=attestation, attested_at=seen
    )
    Home.objects.create(runner=laptop, provider="claude", path="/agents/claude", problem_code="home_missing")
    runner = api.get(f"{paths.workspace}/runners").json()["items"][0]
    assert (runner["name"], runner["lastSeenAtUnixMs"]) == ("laptop", 1785326400000)
    assert [home["provider"] for home in runner["homes"]] == ["claude", "codex"]
    assert (runner["homes"][0]["points"], runner["homes"][0]["reason"]) == (None, "home_missing")
    assert (runner["homes"][1]["driverVersion"], runner["homes"][1]["reason"]) == ("0.171.0", None)
