"""Every URL under ``/v1`` as somebody who may not: nothing is told, nothing is changed."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from forkhost.kit.scopes import Scope
from tests.api.support import Caller, assert_problem, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.conftest import People

pytestmark = pytest.mark.django_db

PUBLIC = {"openapi"}
# What these show is chosen by who asks, so there is nothing of somebody else's to name in their path.
OWN = {"sessions_api:workspaces", "sessions_api:search"}


class Route(NamedTuple):
    """One resource: the name of its URL, the names of the ids in it, and what it needs by method."""

    name: str
    ids: tuple[str, ...]
    scopes: dict[str, Scope]


def _routes(patterns: list[URLPattern | URLResolver], prefix: str = "", namespace: str = "") -> Iterator[Route]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _routes(pattern.url_patterns, path, inner)
        elif path.startswith("v1/"):
            view: Any = pattern.callback
            scopes = getattr(view.cls, "scopes", {})
            yield Route(f"{namespace}{pattern.name}", tuple(pattern.pattern.converters), dict(scopes))


def routes() -> list[Route]:
    """Every route of the API that is not public."""
    return [route for route in _routes(get_resolver().url_patterns) if route.name not in PUBLIC]


BODIES: dict[str, dict[str, Any]] = {
    "operations_api:fork": fork_body(),
    "sessions_api:events": {"events": [{"kind": "note", "payload": {"text": "x"}}]},
    "sessions_api:interactions": {"kind": "question"},
    "sessions_api:claims": {"kind": "submit"},
    "sessions_api:session": {"title": "mine now"},
}
CALLS = [(route, method) for route in routes() for method in route.scopes]
MISSING = {"workspace_not_found", "session_not_found", "operation_not_found"}
BELOW = [(route, method) for route, method in CALLS if len(route.ids) > 1]


def _name(part: Any) -> str:
    return part.name if isinstance(part, Route) else str(part)


@pytest.fixture
def theirs(
    people: People, hosted: Callable[..., Session], forked: Callable[..., dict[str, Any]]
) -> dict[str, uuid.UUID | str]:
    """Ids of everything there is in the member's workspace."""
    from sessions import indexing, store

    session = hosted(turns=2, title="Secret plan")
    interaction = store.ask_interaction(session.pk, "question")
    claim = store.open_claim(session.pk, "submit", "secret note")
    operation = forked(session)
    indexing.catch_up()
    deleted = hosted(turns=1, title="Secret draft")
    store.tombstone(deleted.pk)
    return {
        "deleted_session_id": deleted.pk,
        "workspace_id": people.workspace.pk,
        "agent_session_id": session.pk,
        "operation_id": operation["operationId"],
        "interaction_id": interaction.pk,
        "claim_id": claim.pk,
    }


FOR_DELETED = {"sessions_api:restore", "sessions_api:purge"}


def call(client: Client, method: str, route: Route, ids: dict[str, Any]) -> Any:
    if route.name in FOR_DELETED:
        ids = {**ids, "agent_session_id": ids["deleted_session_id"]}
    path = reverse(route.name, kwargs={name: ids[name] for name in route.ids})
    body = BODIES.get(route.name, {}) if method in ("POST", "PATCH") else None
    query = {"q": "secret"} if route.name == "sessions_api:search" else {}
    if method == "GET":
        return client.get(path, query)
    return client.generic(method, path, b"" if body is None else json.dumps(body), "application/json")


def everything() -> list[Any]:
    """All rows of the two apps, so that a change anywhere is seen."""
    from django.apps import apps

    models = itertools.chain(*(apps.get_app_config(label).get_models() for label in ("agent_sessions", "operations")))
    return [(model._meta.label, sorted(map(str, model.objects.values_list()))) for model in models]


def told(response: Any) -> str:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return content.decode().lower()


def test_every_operation_is_walked() -> None:
    document = json.loads((Path(__file__).resolve().parents[2] / "openapi.json").read_bytes())
    assert len(CALLS) == sum(len(path) for path in document["paths"].values())
    assert all(route.scopes for route in routes())


def test_another_tenants_member_finds_nothing(
    people: People, theirs: dict[str, Any], calling: Callable[..., Caller]
) -> None:
    stranger = calling(people.stranger).client
    before = everything()
    for route, method in CALLS:
        response = call(stranger, method, route, theirs)
        if route.name in OWN:
            assert response.status_code == 200, (method, route)
        else:
            assert response.json()["code"] in MISSING, (method, route, response.content)
            assert_problem(response, 404, response.json()["code"])
        assert "secret" not in told(response), (method, route)
    assert everything() == before


def test_their_ids_under_ones_own_workspace_find_nothing(
    people: People, theirs: dict[str, Any], calling: Callable[..., Caller]
) -> None:
    stranger = calling(people.stranger).client
    before = everything()
    for route, method in BELOW:
        response = call(stranger, method, route, {**theirs, "workspace_id": people.other_workspace.pk})
        assert response.status_code == 404, (method, route, response.content)
        assert "secret" not in told(response), (method, route)
    assert everything() == before


def test_nobody_is_asked_to_sign_in(theirs: dict[str, Any]) -> None:
    before = everything()
    for route, method in CALLS:
        response = call(Client(), method, route, theirs)
        assert_problem(response, 401, "not_authenticated")
        assert response["WWW-Authenticate"].startswith("Bearer"), (method, route)
    assert everything() == before


@pytest.mark.parametrize("needed", list(Scope))
def test_a_token_without_the_scope_may_not(
    people: People, theirs: dict[str, Any], calling: Callable[..., Caller], needed: Scope
) -> None:
    client = calling(people.member, [scope for scope in Scope if scope is not needed]).client
    before = everything()
    for route, method in CALLS:
        if route.scopes[method] is needed:
            assert_problem(call(client, method, route, theirs), 403, "insufficient_scope")
    assert everything() == before


def test_a_private_session_is_nothing_to_another_member(
    people: People, theirs: dict[str, Any], calling: Callable[..., Caller]
) -> None:
    from sessions import store

    for name in ("agent_session_id", "deleted_session_id"):
        store.set_visibility(theirs[name], "private")
    other = calling(people.second_member).client
    before = everything()
    for route, method in BELOW:
        response = call(other, method, route, theirs)
        assert response.status_code == 404, (method, route, response.content)
    assert everything() == before


@pytest.mark.parametrize(("route", "method"), CALLS, ids=_name)
def test_a_token_with_the_scope_alone_gets_through(
    people: People, theirs: dict[str, Any], calling: Callable[..., Caller], route: Route, method: str
) -> None:
    client = calling(people.member, [route.scopes[method]]).client
    response = call(client, method, route, theirs)
    assert response.status_code in (200, 201, 202, 204), response.content


@pytest.mark.parametrize(
    "wrong", ["dummy", str(uuid.UUID(int=0)), "3f6c2a1e8f0b4f579a538f3bb4a1c002", "%00", "é", "../x"]
)
def test_an_id_that_cannot_be_is_not_found(theirs: dict[str, Any], api: Caller, wrong: str) -> None:
    for route in routes():
        path = reverse(route.name, kwargs={part: theirs[part] for part in route.ids})
        for name in route.ids:
            assert_problem(api.get(path.replace(str(theirs[name]), wrong)), 404, "not_found")
