"""The store's refusals as problem details, once for every view."""

from __future__ import annotations

from collections.abc import Mapping

from rest_framework.response import Response

from forkhost.kit.api import ApiView
from forkhost.kit.problems import Problem
from sessions import errors
from sessions.api.access import not_found

DEFAULT_STATUS = 409

_STATUS: Mapping[type[errors.StoreError], int] = {
    errors.PayloadRefused: 400,
}


def problem_of(error: errors.StoreError) -> Problem:
    """The problem a refusal stands for; a session that is gone looks like one that never was."""
    if isinstance(error, errors.SessionNotFound | errors.SessionGone):
        return not_found(errors.SessionNotFound.code)
    return Problem(error.code, _STATUS.get(type(error), DEFAULT_STATUS), error.message)


class SessionApiView(ApiView):
    """A view whose store calls may be refused."""

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(problem_of(exc) if isinstance(exc, errors.StoreError) else exc)
