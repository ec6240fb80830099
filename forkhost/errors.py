"""The last word on errors that no view answered: problem details under ``/v1/``, pages everywhere else."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views import defaults
from django.views.decorators.csrf import requires_csrf_token

from forkhost.kit.problems import Problem, problem_response

API_PREFIX = "/v1/"


def _is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API_PREFIX) or request.path_info == API_PREFIX.rstrip("/")


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400."""
    if _is_api(request):
        return problem_response(Problem("bad_request", 400, "The request cannot be understood."))
    return defaults.bad_request(request, exception)


@requires_csrf_token
def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    if _is_api(request):
        return problem_response(Problem("permission_denied", 403, "You may not do this."))
    return defaults.permission_denied(request, exception)


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, also when a path converter refused an id."""
    if _is_api(request):
        return problem_response(Problem("not_found", 404, "There is nothing here, or it is not yours to see."))
    return defaults.page_not_found(request, exception)


@requires_csrf_token
def server_error(request: HttpRequest) -> HttpResponse:
    """500; says nothing about the cause, which is in the log."""
    if _is_api(request):
        return problem_response(Problem("internal_error", 500, "forkhost failed to answer; the log says why."))
    return defaults.server_error(request)
