"""The saga's refusals as problem details."""

from __future__ import annotations

from rest_framework.response import Response

from forkhost.kit.problems import FieldError, Problem
from operations.requests import Refused
from sessions.api.errors import SessionApiView


def problem_of(refusal: Refused) -> Problem:
    """The problem a refusal stands for: its own status and code, the field to blame, when to come again."""
    errors = [FieldError(refusal.field, refusal.code, refusal.sentence)] if refusal.field else []
    headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after is not None else {}
    extra = {"operationId": str(refusal.operation_id)} if refusal.operation_id is not None else {}
    return Problem(refusal.code, refusal.status, refusal.sentence, errors=errors, headers=headers, extra=extra)


class OperationApiView(SessionApiView):
    """A view whose saga calls may be refused."""

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(problem_of(exc) if isinstance(exc, Refused) else exc)
