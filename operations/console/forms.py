"""What an operator fills in to confirm a verb. Each form carries the version of the operation that was looked at."""

from __future__ import annotations

from typing import Any

from django import forms

from operations import saga
from operations.models import Operation

SHORTEST_REASON = 10
LONGEST_REASON = 1000

HOUR = 3600
KEEP_CHOICES = [(4 * HOUR, "in 4 hours"), (24 * HOUR, "tomorrow"), (72 * HOUR, "in three days")]


class VersionForm(forms.Form):
    """Nothing to fill in."""

    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, operation: Operation, data: Any = None) -> None:
        super().__init__(data, initial={"version": operation.version})
        self.operation = operation


class ReasonForm(VersionForm):
    """A reason that others can follow later."""

    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4}),
        min_length=SHORTEST_REASON,
        max_length=LONGEST_REASON,
        help_text=f"At least {SHORTEST_REASON} characters. Kept for ever with the decision, and shown to whoever asked.",
    )


class AdoptForm(ReasonForm):
    """Which of the verified children is the fork."""

    child = forms.ChoiceField(widget=forms.RadioSelect, label="The child to adopt")
    field_order = ("version", "child", "reason")

    def __init__(self, operation: Operation, data: Any = None) -> None:
        super().__init__(operation, data)
        children = saga.verified_children(operation.pk)
        self.fields["child"].choices = [(child, child) for child in children]  # type: ignore[attr-defined]


class KeepForm(ReasonForm):
    """When it comes back by itself."""

    again = forms.TypedChoiceField(coerce=int, choices=KEEP_CHOICES, initial=24 * HOUR, label="It comes back")
    field_order = ("version", "again", "reason")


class RemoveForm(ReasonForm):
    """Which torn child is removed, named by id and file."""

    child = forms.ChoiceField(widget=forms.RadioSelect, label="The torn child to remove")
    field_order = ("version", "child", "reason")

    def __init__(self, operation: Operation, data: Any = None) -> None:
        super().__init__(operation, data)
        self._paths = dict(saga.torn_children(operation.pk))
        choices = [(child, f"{child} in {path}") for child, path in self._paths.items()]
        self.fields["child"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        return {**cleaned, "path": self._paths.get(cleaned.get("child", ""), "")}
