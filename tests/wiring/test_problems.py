"""Every error under /v1 is a problem with a stable code, whoever raised it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path
from rest_framework import exceptions, serializers
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from forkhost import urls as forkhost_urls
from forkhost.kit.problems import PROBLEM_CONTENT_TYPE, FieldError, Problem

Raise = Callable[[], Exception]


class _Point(serializers.Serializer[Any]):
    seq = serializers.IntegerField(min_value=0)


class _Body(serializers.Serializer[Any]):
    point = _Point()
    tags = serializers.ListField(child=serializers.IntegerField(), required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        raise exceptions.ValidationError("both cannot be", code="conflict")


class _View(APIView):
    permission_classes = (AllowAny,)
    authentication_classes = ()
    raises: Raise | None = None

    def get(self, request: Request) -> Response:
        assert self.raises is not None
        raise self.raises()

    def post(self, request: Request) -> Response:
        _Body(data=request.data).is_valid(raise_exception=True)
        return Response()


class _Private(APIView):
    permission_classes = (IsAuthenticated,)

    def get(self, request: Request) -> Response:
        return Response()


def plain(request: HttpRequest) -> HttpResponse:
    raise Http404


plain.login_required = False


def failing(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


failing.login_required = False

urlpatterns = [
    path("v1/plain", plain),
    path("v1/failing", failing),
    path("page", plain),
    path("v1/view", _View.as_view()),
    path("v1/private", _Private.as_view()),
    *forkhost_urls.urlpatterns,
]
handler400, handler403 = forkhost_urls.handler400, forkhost_urls.handler403
handler404, handler500 = forkhost_urls.handler404, forkhost_urls.handler500

pytestmark = pytest.mark.urls(__name__)


def check(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response["Content-Type"] == PROBLEM_CONTENT_TYPE
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:forkhost:problem:{code}")
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Http404(), 404, "not_found"),
        (PermissionDenied(), 403, "permission_denied"),
        (SuspiciousOperation("x"), 400, "bad_request"),
        (exceptions.NotFound(), 404, "not_found"),
        (exceptions.NotAcceptable(), 406, "not_acceptable"),
        (exceptions.UnsupportedMediaType("text/plain"), 415, "unsupported_media_type"),
        (exceptions.MethodNotAllowed("GET"), 405, "method_not_allowed"),
        (exceptions.PermissionDenied(code="scope_missing"), 403, "scope_missing"),
        (exceptions.AuthenticationFailed(code="token_expired"), 403, "token_expired"),
    ],
)
def test_errors_keep_their_status_and_get_a_code(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    monkeypatch.setattr(_View, "raises", lambda self: error)
    check(client.get("/v1/view"), status, code)


def test_a_problem_says_everything_it_was_given(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(
        "history_not_imported",
        409,
        "The history is being imported.",
        errors=[FieldError("/point", "early", "Wait.")],
        headers={"Retry-After": "3"},
        extra={"operationId": "x", "code": "never"},
    )
    monkeypatch.setattr(_View, "raises", lambda self: problem)
    response = client.get("/v1/view")
    body = check(response, 409, "history_not_imported")
    assert body["title"] == "Conflict"
    assert body["operationId"] == "x"
    assert body["errors"] == [{"pointer": "/point", "code": "early", "detail": "Wait."}]
    assert response["Retry-After"] == "3"


@pytest.mark.parametrize("status", [200, 302, 600])
def test_a_problem_with_a_status_that_is_none_is_refused(status: int) -> None:
    with pytest.raises(ValueError):
        Problem("x", status, "x")


def test_a_busy_database_is_503_and_asks_to_come_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_View, "raises", lambda self: OperationalError("database is locked"))
    response = client.get("/v1/view")
    body = check(response, 503, "database_busy")
    assert "locked" not in str(body)
    assert response["Retry-After"] == "1"


def test_a_throttled_caller_learns_how_long_to_wait(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_View, "raises", lambda self: exceptions.Throttled(wait=7))
    response = client.get("/v1/view")
    check(response, 429, "throttled")
    assert response["Retry-After"] == "7"


@pytest.mark.parametrize(
    ("sent", "pointers"),
    [
        ({"point": {"seq": "x"}}, {"/point/seq": "invalid"}),
        ({"point": {"seq": -1}, "tags": [1, "x"]}, {"/point/seq": "min_value", "/tags/1": "invalid"}),
        ({}, {"/point": "required"}),
        ({"point": {"seq": 1}}, {"": "conflict"}),
    ],
)
def test_a_field_to_blame_is_pointed_at(client: Client, sent: dict[str, Any], pointers: dict[str, str]) -> None:
    body = check(client.post("/v1/view", sent, content_type="application/json"), 400, "invalid_request")
    assert {error["pointer"]: error["code"] for error in body["errors"]} == pointers


def test_a_body_that_is_not_json_is_400(client: Client) -> None:
    check(client.post("/v1/view", "{", content_type="application/json"), 400, "malformed_json")


@pytest.mark.django_db
def test_nobody_signed_in_is_told_so(client: Client) -> None:
    response = client.get("/v1/private")
    check(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("url", ["/v1/nothing", "/v1/plain", "/v1"])
def test_a_miss_under_v1_is_a_problem(client: Client, url: str) -> None:
    check(client.get(url), 404, "not_found")


@pytest.mark.parametrize("url", ["/page", "/nothing", "/v1x"])
def test_a_miss_elsewhere_is_a_page(client: Client, url: str) -> None:
    response = client.get(url)
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


def test_a_crash_under_v1_is_a_problem_that_says_nothing_about_its_cause(client: Client) -> None:
    client.raise_request_exception = False
    body = check(client.get("/v1/failing"), 500, "internal_error")
    assert "ZeroDivision" not in str(body)


@override_settings(ALLOWED_HOSTS=["example.com"])
def test_a_wrong_host_under_v1_is_a_problem(client: Client) -> None:
    check(client.get("/v1/plain", headers={"host": "evil.example"}), 400, "bad_request")
