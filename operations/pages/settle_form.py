"""What an operator can decide about a fork whose outcome is unknown, and what each choice does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.db import models

from operations import handover, saga
from operations.models import Evidence, Operation

if TYPE_CHECKING:
    from django.contrib.auth.models import User

REASON_LIMIT = 1000


class Verb(models.TextChoices):
    """The choices, each with what it does."""

    LOOK_AGAIN = "look_again", "Look again: the runner looks for the child now, without changing anything"
    ADOPT = "adopt", "Adopt the child: a look-up has verified it; forkhost finishes its own part of the fork"
    NOT_CREATED = (
        "not_created",
        "Confirm not created: you are sure that the agent made nothing; the fork counts as failed",
    )
    KEEP = "keep", "Keep unknown: nothing changes; it asks for a person again tomorrow"


SAID = {
    Verb.LOOK_AGAIN: "The runner looks again.",
    Verb.ADOPT: "The child is adopted; the rest happens by itself.",
    Verb.NOT_CREATED: "The fork counts as failed: not created.",
    Verb.KEEP: "It stays unknown.",
}


class SettleForm(forms.Form):
    """``version`` is the operation as the operator saw it: if it changed since, nothing is done."""

    verb = forms.ChoiceField(choices=Verb.choices, widget=forms.RadioSelect, label="What to do")
    child = forms.ChoiceField(required=False, label="The verified child, when one is adopted")
    reason = forms.CharField(widget=forms.Textarea, max_length=REASON_LIMIT, help_text="Kept with the decision.")
    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, operation: Operation, data: Any = None) -> None:
        super().__init__(data, initial={"version": operation.version})
        children = verified_children(operation)
        self.fields["child"].choices = [("", "—"), *((child, child) for child in children)]  # type: ignore[attr-defined]
        if not children:
            choices = [choice for choice in Verb.choices if choice[0] != Verb.ADOPT]
            self.fields["verb"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("verb") == Verb.ADOPT and not cleaned.get("child"):
            self.add_error("child", "Choose the child to adopt.")
        return cleaned


def verified_children(operation: Operation) -> list[str]:
    """The children that look-ups of this operation have verified."""
    found: dict[str, None] = {}
    for detail in Evidence.objects.filter(operation_id=operation.pk).order_by("-id").values_list("detail", flat=True):
        found.update(dict.fromkeys(detail.get("verified", {})))
    return list(found)


def settle(operation: Operation, form: SettleForm, user: User) -> str:
    """Do it; a sentence about what was done. Raises :class:`operations.requests.Refused`."""
    chosen = form.cleaned_data
    verb = Verb(chosen["verb"])
    common: dict[str, Any] = {
        "actor": handover.actor(user),
        "reason": chosen["reason"],
        "expected_version": chosen["version"],
    }
    if verb is Verb.ADOPT:
        saga.adopt(operation.pk, chosen["child"], **common)
    elif verb is Verb.NOT_CREATED:
        saga.confirm_not_created(operation.pk, **common)
    elif verb is Verb.KEEP:
        saga.keep_unknown(operation.pk, **common)
    else:
        saga.look_again(operation.pk, **common)
    return SAID[verb]
