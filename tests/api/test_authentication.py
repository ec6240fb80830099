"""Who may speak to the API, and what the refusals look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from forkhost.models import ApiToken
from tests.api.support import JSON, Caller, assert_problem

if TYPE_CHECKING:
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def test_nobody_gets_a_challenge(people: People, paths: Paths) -> None:
    response = Client().get(paths.sessions)
    assert_problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="forkhost"'


@pytest.mark.parametrize("header", ["Bearer", "Bearer fh_wrong", "Bearer a b", "Basic bTpz", "bearer \xff"])
def test_a_wrong_token_is_refused_even_beside_a_good_session(people: People, paths: Paths, header: str) -> None:
    browser = Client()
    browser.force_login(people.member)
    response = browser.get(paths.sessions, headers={"Authorization": header})
    assert_problem(response, 401, "invalid_token")
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_the_scheme_is_read_in_any_case(people: People, paths: Paths) -> None:
    secret = ApiToken.issue(people.member)
    assert Client().get(paths.sessions, headers={"Authorization": f"bEARER {secret}"}).status_code == 200


def test_a_browser_reads_with_its_session(people: People, paths: Paths) -> None:
    browser = Client()
    browser.force_login(people.member)
    assert browser.get(paths.sessions).status_code == 200


def test_a_browser_changes_nothing_without_the_csrf_token(people: People, paths: Paths) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.member)
    response = browser.post(paths.sessions, {}, content_type=JSON)
    assert_problem(response, 403, "permission_denied")
    browser.get("/login/")
    token = browser.cookies.get("forkhost_csrf")
    if token is None:
        from django.middleware.csrf import _get_new_csrf_string

        browser.cookies["forkhost_csrf"] = _get_new_csrf_string()
        token = browser.cookies["forkhost_csrf"]
    created = browser.post(paths.sessions, {}, content_type=JSON, headers={"X-CSRFToken": token.value})
    assert created.status_code == 201, created.content


def test_a_token_needs_no_csrf_token(people: People, paths: Paths) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {ApiToken.issue(people.member)}"})
    assert client.post(paths.sessions, {}, content_type=JSON).status_code == 201


@pytest.mark.parametrize(
    ("scope", "method", "needed"),
    [("fork", "GET", "read"), ("operate", "GET", "read"), ("read", "POST", "operate"), ("fork", "POST", "operate")],
)
def test_a_token_without_the_scope_is_told_which(
    people: People, paths: Paths, calling: Callable[..., Caller], scope: str, method: str, needed: str
) -> None:
    response = calling(people.member, [scope]).send(method, paths.sessions, b"{}")
    assert_problem(response, 403, "insufficient_scope")
    assert f'scope="{needed}"' in response["WWW-Authenticate"]


def test_answers_are_not_kept(api: Caller, paths: Paths) -> None:
    missing = paths.session("3f6c2a1e-8f0b-4f57-9a53-8f3bb4a1c002")
    answers = [api.get(paths.sessions), api.get(missing), api.post(paths.sessions, {"a": 1}), Client().get(missing)]
    assert [answer.status_code for answer in answers] == [200, 404, 400, 401]
    assert {answer["Cache-Control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize("header", ["Request-Id", "X-Request-Id"])
def test_an_answer_names_the_request_as_its_caller_did(api: Caller, paths: Paths, header: str) -> None:
    response = api.get(paths.sessions, headers={header: "ci-4711:1"})
    assert (response["Request-Id"], response["X-Request-Id"]) == ("ci-4711:1", "ci-4711:1")


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "<script>", "é"])
def test_a_request_id_that_could_do_harm_is_replaced(api: Caller, paths: Paths, given: str) -> None:
    response = api.get(paths.sessions, headers={"Request-Id": given})
    assert len(response["Request-Id"]) == 32
