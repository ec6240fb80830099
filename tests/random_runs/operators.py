"""What operators do: settle on evidence, come too late, look after things, switch contracts and forking."""

from __future__ import annotations

from typing import Any

import pytest

from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from sessions.choices import ForkContract, Settlement
from sessions.models import Session
from tests.random_runs.model import Model

S = OperationStatus


class Operators(Model):
    """People who decide. They adopt only the very child that the fork made, and try others to be refused."""

    def operator_settles(self, number: int) -> None:
        """One of the verbs on an unknown fork."""
        operation = self.one(self.operations(self.tenant(number), S.UNKNOWN), number // 2)
        if operation is None:
            return
        common: dict[str, Any] = {"actor": "user:op", "reason": "Seen.", "expected_version": operation.version}
        own = [child for child in saga.verified_children(operation.pk) if self._made(child) == str(operation.pk)]
        try:
            if own and number % 5:
                saga.adopt(operation.pk, own[0], **common)
                self.reached["adopted by an operator"] += 1
            elif number % 4 == 0:
                self._adopt_wrongly(operation, number, common)
            elif number % 4 == 1:
                saga.confirm_not_created(operation.pk, **common)
                self.reached["confirmed as not created"] += 1
            elif number % 4 == 2:
                saga.keep_unknown(operation.pk, **common)
            else:
                saga.look_again(operation.pk, actor="user:op", expected_version=operation.version)
        except saga.Refused as refused:
            self.refused(refused.code)

    def operator_comes_too_late(self, number: int) -> None:
        """With a version that is not the operation's any more, nothing is done."""
        operation = self.one(self.operations(self.tenant(number), S.UNKNOWN), number // 2)
        if operation is None or operation.version < 2:
            return
        stale: dict[str, Any] = {"actor": "user:op2", "reason": "Late.", "expected_version": operation.version - 1}
        verbs = (saga.confirm_not_created, saga.keep_unknown, saga.add_note)
        for deed in (
            lambda: verbs[number % 3](operation.pk, **stale),
            lambda: saga.adopt(operation.pk, "any", **stale),
        ):
            with pytest.raises(saga.Refused, match="nothing was done"):
                deed()
            self.reached["operator came too late"] += 1

    def operator_looks_after_it(self, number: int) -> None:
        """Takes it on, lets it go, leaves a note, marks what was contradicted as seen."""
        operation = self.one(self.operations(self.tenant(number)), number // 2)
        if operation is None:
            return
        common: dict[str, Any] = {"actor": "user:op", "reason": "Mine.", "expected_version": operation.version}
        if operation.needs_person and operation.status != S.UNKNOWN:
            saga.mark_seen(operation.pk, **common)
            self.reached["marked as seen"] += 1
        elif number % 3 == 0:
            saga.assign(operation.pk, 1, **common)
        elif number % 3 == 1:
            saga.release(operation.pk, **common)
        else:
            saga.add_note(operation.pk, **common)

    def contract_is_switched(self, number: int) -> None:
        """To the other one now and then, and back."""
        tenant = self.tenants[number % 2]
        other = ForkContract.STRICT if tenant.contract == ForkContract.OPTIMISTIC else ForkContract.OPTIMISTIC
        self._set(number % 2, fork_contract=other if number % 6 == 0 else tenant.contract)
        self.reached["contract switched"] += number % 6 == 0

    def forking_is_switched(self, number: int) -> None:
        """Off, and on again soon; replays and recovery go on meanwhile."""
        self._set(number % 2, forks_enabled=number % 5 != 0)

    def settlement_is_switched(self, number: int) -> None:
        """Whether proof settles by itself, or a person is always asked."""
        self._set(number % 2, settlement=Settlement.ASK if number % 4 == 0 else Settlement.AUTOMATIC)

    def _set(self, which: int, **values: Any) -> None:
        workspace = self.tenants[which].workspace
        for name, value in values.items():
            setattr(workspace, name, value)
        workspace.save(update_fields=list(values))

    def _adopt_wrongly(self, operation: Operation, number: int, common: dict[str, Any]) -> None:
        taken = list(
            Session.objects.filter(home_id=operation.home_id)
            .order_by("created_at_unix_ms", "pk")
            .values_list("provider_session_id", flat=True)
        )
        child = self.one(taken, number // 2) if number % 8 else "nobody's"
        saga.adopt(operation.pk, child or "nobody's", **common)
        raise AssertionError("a child was adopted that belongs to another")

    def _made(self, child_id: str) -> str:
        """The operation that made a child, as the agents know."""
        for tenant in self.tenants:
            for child in tenant.seen("children"):
                if child["id"] == child_id:
                    return str(child["operation"])
        return ""
