"""What the console's tests share."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations.choices import OperationStatus
from operations.models import Operation
from tests.operations.support import World

REASON = "Compared both files by hand."


def allow(user: User) -> User:
    """Give the permission to settle forks; the user as it is read anew."""
    user.user_permissions.add(Permission.objects.get(codename="settle_operation"))
    return User.objects.get(pk=user.pk)


def unknown_fork(world: World, clock: HeldClock, step: str = "lose_answer", mode: str = "search") -> Operation:
    """A fork whose answer was lost, looked up once."""
    world.agent.configure(identity_mode=mode)
    world.attest()
    world.agent.script(step)
    operation = world.fork()
    clock.advance(60)
    world.work(operation)
    assert operation.status == OperationStatus.UNKNOWN
    return operation


def card(operation: Operation) -> str:
    """The evidence card's address."""
    return reverse("admin:operations_operation_settle", args=[operation.pk])


def verb(operation: Operation, name: str) -> str:
    """A verb's address."""
    return reverse("admin:operations_operation_verb", args=[operation.pk, name])


def queue() -> str:
    """The queue's address."""
    return reverse("admin:operations_operation_changelist")


def press(browser: Client, operation: Operation, name: str, **fields: Any) -> Any:
    """Open a verb's page and send its form as it was shown, with a reason."""
    page = browser.get(verb(operation, name))
    assert page.status_code == 200, page.status_code
    shown = re.findall(r'<input type="hidden" name="version" value="(\d+)"', page.content.decode())
    assert len(shown) == 1
    return browser.post(verb(operation, name), {"version": shown[0], "reason": REASON, **fields})


def row_of(operation: Operation) -> dict[str, Any]:
    """The operation's whole row."""
    return Operation.objects.filter(pk=operation.pk).values().get()
