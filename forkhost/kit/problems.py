"""RFC 9457 problem details: every error of the public API is ``application/problem+json`` with a stable ``code``.

Body: ``type`` (a URN made from the code), ``title``, ``status``, ``detail`` (a sentence for people), ``code``, and
``errors`` (a list of ``{"pointer", "code", "detail"}``, RFC 6901 pointers into the request body) where single fields are
to blame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.settings import api_settings

log = structlog.get_logger(__name__)

PROBLEM_CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:forkhost:problem:"

INVALID_REQUEST = "invalid_request"
DATABASE_BUSY = "database_busy"

# Codes for everything DRF raises by itself; an exception made with a code of its own keeps that.
_CODES: Mapping[type[exceptions.APIException], str] = {
    exceptions.ParseError: "malformed_json",
    exceptions.AuthenticationFailed: "authentication_failed",
    exceptions.NotAuthenticated: "not_authenticated",
    exceptions.PermissionDenied: "permission_denied",
    exceptions.NotFound: "not_found",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.Throttled: "throttled",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field to blame. ``pointer`` is an RFC 6901 pointer into the body (``/point/turnId``), or a query parameter's
    or header's name without a slash.
    """

    pointer: str
    code: str
    detail: str

    def as_json(self) -> dict[str, str]:
        """The three members as the API shows them."""
        return {"pointer": self.pointer, "code": self.code, "detail": self.detail}


class Problem(Exception):
    """An answer other than success, raised anywhere below an API view.

    ``code`` is stable and lower case; ``status`` 400 to 599; ``detail`` a sentence that holds nothing the caller may
    not see. ``headers`` are added to the response (``Retry-After``), ``extra`` to the body.
    """

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        *,
        title: str = "",
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        if not 400 <= status <= 599:
            raise ValueError(f"{status} is not the status of a problem")
        self.code = code
        self.status = status
        self.detail = detail
        self.title = title or _phrase(status)
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def as_json(self) -> dict[str, Any]:
        """The body of the response."""
        body: dict[str, Any] = {
            **self.extra,
            "type": TYPE_PREFIX + self.code,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.errors:
            body["errors"] = [error.as_json() for error in self.errors]
        return body


def invalid_field(pointer: str, code: str, detail: str) -> Problem:
    """A 400 that blames one field."""
    return Problem(INVALID_REQUEST, 400, detail, errors=[FieldError(pointer, code, detail)])


def problem_response(problem: Problem) -> JsonResponse:
    """The problem as a plain Django response, for code outside DRF views."""
    response = JsonResponse(problem.as_json(), status=problem.status, content_type=PROBLEM_CONTENT_TYPE)
    for name, value in problem.headers.items():
        response[name] = value
    return response


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's hook. None for what nobody expected: that is raised on and becomes handler500's problem."""
    problem = as_problem(exc)
    if problem is None:
        return None
    return Response(
        problem.as_json(), status=problem.status, headers=problem.headers, content_type=PROBLEM_CONTENT_TYPE
    )


def as_problem(exc: Exception) -> Problem | None:
    """The problem an exception stands for, None for an unexpected one."""
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, Http404):
        return Problem("not_found", 404, "There is nothing here, or it is not yours to see.")
    if isinstance(exc, PermissionDenied):
        return Problem("permission_denied", 403, str(exc) or "You may not do this.")
    if isinstance(exc, RequestDataTooBig):
        return Problem("request_too_large", 413, "The request body is too large.")
    if isinstance(exc, SuspiciousOperation):
        return Problem("bad_request", 400, "The request cannot be understood.")
    if isinstance(exc, OperationalError):
        log.error("database_unavailable", exc_info=exc)
        return Problem(
            DATABASE_BUSY,
            503,
            "The database is busy or away; send the same request again.",
            headers={"Retry-After": "1"},
        )
    if isinstance(exc, exceptions.ValidationError):
        errors = _field_errors(exc.get_full_details())
        return Problem(INVALID_REQUEST, exc.status_code, _summary(errors), errors=errors)
    if isinstance(exc, exceptions.APIException):
        return _from_api_exception(exc)
    return None


def _from_api_exception(exc: exceptions.APIException) -> Problem:
    default = next((code for kind, code in _CODES.items() if isinstance(exc, kind)), exc.default_code)
    own = exc.get_codes()
    code = own if isinstance(own, str) and own != exc.default_code else default
    headers: dict[str, str] = {}
    if auth_header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return Problem(str(code), exc.status_code, str(exc.detail), headers=headers)


def _field_errors(details: Any, pointer: str = "") -> list[FieldError]:
    """Flatten DRF's nested ``{"message", "code"}`` tree into pointers."""
    if isinstance(details, dict) and set(details) == {"message", "code"} and isinstance(details["code"], str):
        return [FieldError(pointer, details["code"], str(details["message"]))]
    if isinstance(details, dict):
        found = []
        for name, inner in details.items():
            whole = name == api_settings.NON_FIELD_ERRORS_KEY
            found += _field_errors(inner, pointer if whole else f"{pointer}/{_escape(str(name))}")
        return found
    if isinstance(details, list):
        found = []
        for index, inner in enumerate(details):
            leaf = isinstance(inner, dict) and set(inner) == {"message", "code"}
            found += _field_errors(inner, pointer if leaf else f"{pointer}/{index}")
        return found
    return [FieldError(pointer, "invalid", str(details))]


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _summary(errors: Sequence[FieldError]) -> str:
    if not errors:
        return "The request is not valid."
    first = errors[0]
    return f"{first.pointer}: {first.detail}" if first.pointer else first.detail


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
