"""Work claims: opened, listed newest first, settled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


def test_a_claim_is_open_until_it_is_settled(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    session = hosted(turns=0)
    path = paths.session(session.pk, "claims")
    opened = api.post(path, {"kind": "submit", "note": "queued"})
    assert opened.status_code == 201
    claim = opened.json()
    assert (claim["agentSessionId"], claim["kind"], claim["note"]) == (str(session.pk), "submit", "queued")
    assert claim["settledAtUnixMs"] is None
    settled = api.post(f"{path}/{claim['id']}/settle").json()
    assert settled["settledAtUnixMs"] >= claim["createdAtUnixMs"]
    assert api.post(f"{path}/{claim['id']}/settle").json() == settled
    assert api.send("POST", f"{path}/{claim['id']}/settle", b"", "").json() == settled
    assert_problem(api.post(f"{path}/{claim['id']}/settle", {"x": 1}), 400, "invalid_request", "/x")


def test_claims_are_listed_in_pages(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    path = paths.session(hosted(turns=0).pk, "claims")
    made = [api.post(path, {"kind": "goal_control"}).json()["id"] for _ in range(3)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    for _ in range(2):
        page = api.get(path, **query).json()
        seen += [claim["id"] for claim in page["items"]]
        query["cursor"] = page["nextCursor"]
    assert seen == made[::-1]
    assert page["nextCursor"] is None


def test_a_claim_of_another_session_is_not_found(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    claim = api.post(paths.session(hosted(turns=0).pk, "claims"), {"kind": "submit"}).json()
    other = paths.session(hosted(turns=0).pk, "claims", claim["id"], "settle")
    assert_problem(api.post(other), 404, "claim_not_found")


@pytest.mark.parametrize(
    ("body", "pointer"), [({}, "/kind"), ({"kind": "nap"}, "/kind"), ({"kind": "submit", "note": []}, "/note")]
)
def test_the_member_to_blame_is_named(
    api: Caller, paths: Paths, hosted: Callable[..., Session], body: dict[str, Any], pointer: str
) -> None:
    assert_problem(api.post(paths.session(hosted(turns=0).pk, "claims"), body), 400, "invalid_request", pointer)
