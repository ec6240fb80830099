"""The verbs of the console: what each is called, what it does, when it is offered. None of them sends a fork again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.db import transaction

from operations import handover, saga
from operations.choices import OperationStatus
from operations.console.forms import AdoptForm, KeepForm, ReasonForm, RemoveForm, VersionForm
from operations.models import Operation

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Common = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing an operator can do. ``effect`` is said before it is confirmed, ``said`` after it was done."""

    name: str
    label: str
    effect: str
    said: str
    form: type[VersionForm]
    offered: Callable[[Operation, User], bool]
    act: Callable[[Operation, VersionForm, User, Common], object]
    grave: bool = False


def _unknown(operation: Operation, user: User) -> bool:
    return operation.status == OperationStatus.UNKNOWN


def _waits(operation: Operation) -> bool:
    return operation.status == OperationStatus.UNKNOWN or operation.needs_person


def _remove(operation: Operation, form: VersionForm, user: User, common: Common) -> object:
    return saga.ask_removal(operation.pk, form.cleaned_data["child"], form.cleaned_data["path"], **common)


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "look-again",
            "Look again",
            "The runner looks for the child at the agent now. It only reads.",
            "The runner looks again.",
            VersionForm,
            _unknown,
            lambda operation, form, user, common: saga.look_again(operation.pk, **common),
        ),
        Verb(
            "adopt",
            "Adopt found child",
            "The child that a look found and verified becomes the fork; forkhost finishes its own part. "
            "Nothing is sent to the agent.",
            "The child is adopted; the rest happens by itself.",
            AdoptForm,
            lambda operation, user: _unknown(operation, user) and bool(saga.verified_children(operation.pk)),
            lambda operation, form, user, common: saga.adopt(operation.pk, form.cleaned_data["child"], **common),
            grave=True,
        ),
        Verb(
            "not-created",
            "Confirm not created",
            "You are sure that the agent made nothing. The fork counts as failed for good, and whoever asked is told. "
            "A child that turns up later is reported, and stays a session without a parent here.",
            "The fork counts as failed: not created.",
            ReasonForm,
            _unknown,
            lambda operation, form, user, common: saga.confirm_not_created(operation.pk, **common),
            grave=True,
        ),
        Verb(
            "keep",
            "Keep unknown",
            "Nothing changes now. It is looked at again, and asks for a person again, by itself.",
            "It stays unknown and comes back by itself.",
            KeepForm,
            _unknown,
            lambda operation, form, user, common: saga.keep_unknown(
                operation.pk, for_seconds=form.cleaned_data["again"], **common
            ),
        ),
        Verb(
            "remove-torn",
            "Remove torn child",
            "The runner deletes the one file that you name here, after it proved once more that this fork's own call "
            "left it broken off and that nobody has continued it. It cannot be undone.",
            "The runner removes the torn child, if it proves torn once more, and looks again.",
            RemoveForm,
            lambda operation, user: (
                _unknown(operation, user) and operation.removal is None and bool(saga.torn_children(operation.pk))
            ),
            _remove,
            grave=True,
        ),
        Verb(
            "seen",
            "Mark as seen",
            "It leaves the list of what needs a person. Its state stays.",
            "It does not ask for a person any more.",
            ReasonForm,
            lambda operation, user: operation.needs_person and not _unknown(operation, user),
            lambda operation, form, user, common: saga.mark_seen(operation.pk, **common),
        ),
        Verb(
            "assign",
            "Assign to me",
            "Others see that you look after it. They can still decide.",
            "It is yours.",
            ReasonForm,
            lambda operation, user: _waits(operation) and operation.assigned_to_id != user.pk,
            lambda operation, form, user, common: saga.assign(operation.pk, user.pk, **common),
        ),
        Verb(
            "release",
            "Release",
            "Nobody looks after it any more.",
            "It is nobody's.",
            ReasonForm,
            lambda operation, user: operation.assigned_to_id is not None,
            lambda operation, form, user, common: saga.release(operation.pk, **common),
        ),
        Verb(
            "note",
            "Add note",
            "What you write is kept with the fork and changes nothing.",
            "The note is kept.",
            ReasonForm,
            lambda operation, user: True,
            lambda operation, form, user, common: saga.add_note(operation.pk, **common),
        ),
    )
}


def offered(operation: Operation, user: User) -> list[Verb]:
    """The verbs that make sense for this operation now; rights are asked elsewhere."""
    return [verb for verb in VERBS.values() if verb.offered(operation, user)]


def carry_out(verb: Verb, operation: Operation, form: VersionForm, user: User) -> None:
    """Do it, in the operation's ledger and the admin's log at once. Raises :class:`operations.requests.Refused`."""
    reason = form.cleaned_data.get("reason", "")
    common = {"actor": handover.actor(user), "reason": reason, "expected_version": form.cleaned_data["version"]}
    with transaction.atomic():
        verb.act(operation, form, user, common)
        LogEntry.objects.log_actions(
            user.pk,
            [operation],
            CHANGE,
            f"{verb.label}: {reason}" if reason else verb.label,
            single_object=True,
        )
