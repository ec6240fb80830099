"""Bodies that are not what they should be get a documented 4xx, never a 500."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forkhost.kit.json_body import BODY_LIMIT
from tests.api.support import Caller, assert_problem

if TYPE_CHECKING:
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"title": NaN}',
        b'{"settings": {"n": 1e999}}',
        b'{"title": "a", "title": "b"}',
        b'{"title": "\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"settings": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"settings": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}",
        b'{"settings": {"n": ' + b"9" * 5000 + b"}}",
    ],
    ids=["torn", "nan", "infinity", "twice", "no-utf-8", "bom", "far-too-deep", "too-deep", "endless-number"],
)
def test_what_is_not_json_is_refused(api: Caller, paths: Paths, raw: bytes) -> None:
    assert_problem(api.send("POST", paths.sessions, raw), 400, "malformed_json")


@pytest.mark.parametrize("raw", [b"[]", b"7", b'"x"', b"null", b"true"])
def test_what_is_no_object_is_refused(api: Caller, paths: Paths, raw: bytes) -> None:
    assert_problem(api.send("POST", paths.sessions, raw), 400, "invalid_request", "")


def test_another_content_type_is_refused(api: Caller, paths: Paths) -> None:
    for content_type in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ";"):
        response = api.send("POST", paths.sessions, b"a=1", content_type)
        assert_problem(response, 415, "unsupported_media_type")


def test_an_empty_body_without_a_content_type_is_an_empty_object(api: Caller, paths: Paths) -> None:
    assert api.send("POST", paths.sessions, b"", "").status_code == 201


def test_a_body_beyond_the_limit_is_refused(api: Caller, paths: Paths) -> None:
    raw = json.dumps({"title": "x" * BODY_LIMIT}).encode()
    assert_problem(api.send("POST", paths.sessions, raw), 413, "request_too_large")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"titel": "x"}, "/titel"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"title": 5}, "/title"),
        ({"title": None}, "/title"),
        ({"settings": []}, "/settings"),
        ({"visibility": "everybody"}, "/visibility"),
        ({"visibility": ["private"]}, "/visibility"),
        ({"id": "00000000-0000-0000-0000-000000000000"}, "/id"),
        ({"id": "dummy"}, "/id"),
        ({"id": "{3f6c2a1e-8f0b-4f57-9a53-8f3bb4a1c002}"}, "/id"),
        ({"title": "x" * 501}, "/title"),
    ],
)
def test_the_member_to_blame_is_named(api: Caller, paths: Paths, body: Any, pointer: str) -> None:
    assert_problem(api.post(paths.sessions, body), 400, "invalid_request", pointer)


def test_every_member_to_blame_is_named(api: Caller, paths: Paths) -> None:
    assert_problem(api.post(paths.sessions, {"x": 1, "y": 2}), 400, "invalid_request", "/x", "/y")


def test_a_parameter_that_does_not_exist_is_named(api: Caller, paths: Paths) -> None:
    assert_problem(api.get(paths.sessions, proivder="codex"), 400, "invalid_request", "proivder")


def test_a_method_that_does_not_exist_says_which_do(api: Caller, paths: Paths) -> None:
    response = api.send("PUT", paths.sessions, b"{}")
    assert_problem(response, 405, "method_not_allowed")
    assert {"GET", "POST"} <= set(response["Allow"].split(", "))


def test_a_path_that_does_not_exist_is_a_problem_too(api: Caller, paths: Paths) -> None:
    for path in ("/v1/nothing", paths.session("not-an-id"), paths.session("00000000-0000-0000-0000-000000000000")):
        assert_problem(api.get(path), 404, "not_found")
