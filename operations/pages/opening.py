"""Where a committed fork is opened, and how the browser says that it was shown."""

from __future__ import annotations

import uuid

from django.http import HttpRequest
from django.urls import reverse

from forkhost.kit import ids
from operations.choices import OperationStatus
from operations.models import Operation

# The query parameter that tells the child's page which fork has led to it.
OPENED = "opened"


def opening_url(operation: Operation, *, acknowledged: bool = False) -> str:
    """The fork's page, at the seam. Unless ``acknowledged``, the page acknowledges the fork once it is shown."""
    query = {"turn": str(operation.resolved_ordinal)} if operation.resolved_ordinal else {}
    if not acknowledged and operation.observed_at is None:
        query[OPENED] = str(operation.pk)
    page = reverse("sessions:detail", args=[operation.target_session_id], query=query or None)
    return f"{page}#continued"


def acknowledging_url(request: HttpRequest, session_id: uuid.UUID) -> str:
    """Where the page of the session ``session_id`` has to acknowledge the fork that has led to it; "" when nowhere.

    A fork of another session, one that the reader may not see, and one that was acknowledged before need nothing.
    """
    try:
        operation_id = ids.parse_id(request.GET.get(OPENED, ""))
    except ValueError:
        return ""
    waiting = Operation.objects.visible_to(request.user).filter(
        pk=operation_id,
        target_session_id=session_id,
        status=OperationStatus.COMMITTED,
        observed_at__isnull=True,
    )
    return reverse("operations:acknowledge", args=[operation_id]) if waiting.exists() else ""
