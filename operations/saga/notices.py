"""Who is told about an act on an operation. The messages are rows of the act's own transaction; workers deliver them."""

from __future__ import annotations

import json
import uuid

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse

from forkhost.kit import clock
from operations.choices import SETTLEMENTS, Act, Channel, NotificationKind, OperationStatus
from operations.models import Notification, Operation
from sessions import payloads
from sessions.choices import MemberRole
from sessions.models import Workspace

EVENTS = {NotificationKind.NEEDS_PERSON: "fork.needs_person", NotificationKind.SETTLED: "fork.settled"}

_SETTLED = {
    Act.ADOPTED: "The fork was made after all; forkhost found it and finishes its own part of it.",
    Act.LATE_ANSWER: "The agent's own answer arrived late and settled it.",
    Act.PROVEN_NOT_CREATED: "It is proven that no fork was made. You can ask for a new one.",
    Act.CONFIRMED_NOT_CREATED: "An operator confirmed that no fork was made. You can ask for a new one.",
}


def tell_person_needed(operation_id: uuid.UUID, sequence: int, why: Act) -> None:
    """The operators of the workspace, and its webhook. Has to run inside the act's transaction."""
    operation = _read(operation_id)
    operators = User.objects.filter(
        memberships__workspace_id=operation.workspace_id, memberships__role=MemberRole.OPERATOR
    )
    _write(operation, sequence, NotificationKind.NEEDS_PERSON, why, operators)


def tell_settled(operation_id: uuid.UUID, sequence: int, why: Act) -> None:
    """Whoever asked for the fork, and the webhook. Has to run inside the act's transaction."""
    if why in SETTLEMENTS:
        operation = _read(operation_id)
        asker = operation.requested_by_id
        asked = User.objects.filter(pk=asker) if asker is not None else User.objects.none()
        _write(operation, sequence, NotificationKind.SETTLED, why, asked)


def console_url(operation: Operation) -> str:
    """Where an operator decides about it; a path alone where ``FORKHOST_PUBLIC_URL`` is not set."""
    return _url("admin:operations_operation_settle", operation)


def operation_url(operation: Operation) -> str:
    """Its page."""
    return _url("operations:operation", operation)


def receipt_url(operation: Operation) -> str:
    """Where everybody who may see it reads what happened."""
    return _url("operations:receipt", operation)


def _url(name: str, operation: Operation) -> str:
    return f"{settings.FORKHOST_PUBLIC_URL}{reverse(name, args=[operation.pk])}"


def _read(operation_id: uuid.UUID) -> Operation:
    operation: Operation = Operation.objects.defer("snapshot", "result_session").get(pk=operation_id)
    return operation


def _write(operation: Operation, sequence: int, kind: NotificationKind, why: Act, people: QuerySet[User]) -> None:
    rows = []
    if settings.FORKHOST_EMAIL:
        for user_id in people.filter(is_active=True).exclude(email="").values_list("pk", flat=True):
            row = _row(operation, sequence, kind, Channel.EMAIL, user_id)
            row.body = payloads.plain(_letter(operation, kind, why))
            rows.append(row)
    if Workspace.objects.filter(pk=operation.workspace_id).exclude(webhook_url="").exists():
        row = _row(operation, sequence, kind, Channel.WEBHOOK)
        row.body = _message(operation, row, why)
        rows.append(row)
    Notification.objects.bulk_create(rows)


def _letter(operation: Operation, kind: NotificationKind, why: Act) -> str:
    if kind is NotificationKind.NEEDS_PERSON:
        return (
            f"A fork waits for an operator: {operation.title}\n\n{operation.error_text}\n\n"
            "The source is unharmed and nothing is sent a second time. Look at the evidence and decide:\n"
            f"{console_url(operation)}\n"
        )
    return (
        f"The outcome of a fork is known now: {operation.title}\n\n{_SETTLED[why]}\n\n"
        f"Who settled it, and by which evidence, is in its receipt:\n{receipt_url(operation)}\n"
    )


def _row(
    operation: Operation, sequence: int, kind: NotificationKind, channel: Channel, recipient_id: int = 0
) -> Notification:
    now = clock.now()
    return Notification(
        id=uuid.uuid4(),
        workspace_id=operation.workspace_id,
        operation_id=operation.pk,
        sequence=sequence,
        kind=kind,
        channel=channel,
        recipient_id=recipient_id,
        created_at=now,
        next_run_at=now,
    )


def _message(operation: Operation, row: Notification, why: Act) -> str:
    """What a webhook is sent: ids, states and addresses, and nothing of what anybody wrote."""
    status = OperationStatus(operation.status)
    message = {
        "event": EVENTS[NotificationKind(row.kind)],
        "deliveryId": str(row.pk),
        "workspaceId": str(operation.workspace_id),
        "operationId": str(operation.pk),
        "sourceAgentSessionId": str(operation.source_session_id),
        "targetAgentSessionId": str(operation.target_session_id),
        "provider": operation.provider,
        "status": status.value,
        "act": why.value,
        "errorCode": operation.error_code,
        "atUnixMs": clock.to_ms(row.created_at),
        "operationUrl": operation_url(operation),
        "receiptUrl": receipt_url(operation),
        "consoleUrl": console_url(operation),
    }
    return json.dumps(message, separators=(",", ":"))
