"""What a run knows beside the database: who asked for what, what was answered, what was purged."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from operations.choices import OperationStatus
from operations.models import Operation, OperationAudit
from operations.saga import PrepareRequest
from sessions.models import Session
from tests.random_runs.places import Tenant

Row = TypeVar("Row")


class Model:
    """The memory that everything which happens shares. ``reached`` counts the ways that were really taken."""

    reached: Counter[str]

    def remember(self, tenants: Sequence[Tenant]) -> None:
        """Begin with these workspaces and nothing asked."""
        self.tenants = list(tenants)
        self.requests: dict[tuple[uuid.UUID, str], tuple[Tenant, PrepareRequest]] = {}
        self.answers: dict[tuple[uuid.UUID, str], uuid.UUID] = {}
        self.order: dict[uuid.UUID, None] = {}
        self.frozen: dict[uuid.UUID, list[str]] = {}
        self.depths: dict[uuid.UUID, int] = {}
        self.purged: dict[uuid.UUID, None] = {}
        self.claims: dict[uuid.UUID, uuid.UUID] = {}
        self.histories: dict[uuid.UUID, tuple[int, bytes]] = {}

    def note(self, operation_id: uuid.UUID) -> None:
        """Operations are picked in the order in which they were made, so that a seed is a run."""
        self.order.setdefault(operation_id)

    def tenant(self, number: int) -> Tenant:
        """The first workspace three times out of four."""
        return self.tenants[number % 4 == 3]

    def operations(self, tenant: Tenant | None = None, *statuses: OperationStatus) -> list[Operation]:
        """The run's operations, oldest first."""
        rows = Operation.objects.filter(pk__in=self.order).defer("snapshot", "result_session")
        if tenant is not None:
            rows = rows.filter(workspace_id=tenant.workspace.pk)
        if statuses:
            rows = rows.filter(status__in=statuses)
        places = {pk: place for place, pk in enumerate(self.order)}
        return sorted(rows, key=lambda row: places[row.pk])

    def living(self, tenant: Tenant) -> list[Session]:
        """The sessions that are not hidden."""
        return [session for session in tenant.sessions() if session.tombstoned_at is None]

    @staticmethod
    def one(rows: Sequence[Row], number: int) -> Row | None:
        """One of them; None of none."""
        return rows[number % len(rows)] if rows else None

    def refused(self, code: str) -> None:
        """Somebody was told no."""
        self.reached[f"refused: {code}"] += 1

    @staticmethod
    def story(operation: Operation) -> str:
        """What happened to an operation, for those who read of a broken invariant."""
        acts = OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence")
        told = ", ".join(f"{act.reason} by {act.actor}" for act in acts)
        held = f"held by {operation.lease_owner}" if operation.lease_token else "held by nobody"
        return f"{operation.pk} ({operation.contract}) {operation.status}, {held}: {told}"

    def mine(self, **where: Any) -> Any:
        """The run's operations as a query."""
        return Operation.objects.filter(workspace_id__in=[each.workspace.pk for each in self.tenants], **where)
