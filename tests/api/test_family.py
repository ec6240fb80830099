"""The family of a session, as an indented list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def test_the_family_is_the_same_from_every_member_of_it(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> None:
    from sessions.models import Session

    source = hosted(turns=2, title="X")
    child = forked(source)
    grandchild = forked(Session.objects.get(pk=child["targetAgentSessionId"]))
    family = api.get(paths.session(source.pk, "family")).json()
    assert [(line["depth"], line["relation"], line["session"]["title"]) for line in family["items"]] == [
        (0, "root", "X"),
        (1, "fork", "X (2)"),
        (2, "fork", "X (3)"),
    ]
    assert family["items"][2]["lineage"] == grandchild["lineage"]
    assert family["items"][2]["session"]["forkedFrom"] == grandchild["lineage"]
    for member in (child, grandchild):
        assert api.get(paths.session(member["targetAgentSessionId"], "family")).json() == family


def test_a_parent_made_outside_is_named_only_to_who_may_see_it(
    people: People, api: Caller, calling: Callable[..., Caller], paths: Paths, hosted: Callable[..., Session]
) -> None:
    parent = hosted(turns=1, visibility="private")
    child = hosted(turns=1, observed_parent_id=parent.pk, observed_parent_provider_id="thread-1")
    path = paths.session(child.pk)
    assert api.get(path).json()["observedParent"] == {
        "agentSessionId": str(parent.pk),
        "providerSessionId": "thread-1",
    }
    other = calling(people.second_member).get(path).json()["observedParent"]
    assert other == {"agentSessionId": None, "providerSessionId": "thread-1"}
