"""The forms of the admin's pages about workspaces and sessions; each asks for the reason that is kept with the change."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.core.validators import URLValidator

from sessions.choices import ForkContract, Settlement
from sessions.models import Home, Workspace


class ReasonForm(forms.Form):
    """Nothing but the reason."""

    reason = forms.CharField(max_length=500, help_text="Kept with the change.")


class SwitchForm(forms.Form):
    """What an operator decides about a workspace."""

    forks_enabled = forms.BooleanField(required=False, label="New forks are allowed")
    fork_contract = forms.ChoiceField(choices=ForkContract.choices)
    settlement = forms.ChoiceField(
        choices=[
            (Settlement.AUTOMATIC, "Proof alone settles unknown forks"),
            (Settlement.ASK, "An operator is always asked"),
        ],
        label="Unknown forks",
    )
    reason = forms.CharField(max_length=500, help_text="Kept with the change.")


class ForkHomeForm(forms.Form):
    """Where the forks of one provider's sessions are to live."""

    provider = forms.ChoiceField(label="Agent")
    home = forms.ModelChoiceField(
        Home.objects.none(),
        required=False,
        empty_label="Each in the home of the session it was made from",
        label="Its forks live in",
        help_text="A worker knows a further home once it was started with --home.",
    )
    reason = forms.CharField(max_length=500, help_text="Kept with the change.")

    def __init__(self, workspace: Workspace, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        homes = Home.objects.filter(runner__workspace=workspace).order_by("provider", "path")
        providers = list(dict.fromkeys(homes.values_list("provider", flat=True)))
        cast("forms.ChoiceField", self.fields["provider"]).choices = [(name, name) for name in providers]
        cast("forms.ModelChoiceField[Home]", self.fields["home"]).queryset = homes.select_related("runner__workspace")

    def clean(self) -> dict[str, Any]:
        chosen = super().clean() or {}
        home = chosen.get("home")
        if home is not None and home.provider != chosen.get("provider"):
            self.add_error("home", "This is a home of another agent.")
        return chosen


class WebhookForm(forms.Form):
    """Who is told about forks that need a person or were settled."""

    url = forms.URLField(
        required=False,
        max_length=500,
        assume_scheme="https",
        label="Address",
        help_text="https, or http within your own network. Left empty, nobody is told.",
        validators=[URLValidator(schemes=["http", "https"])],
    )
    reason = forms.CharField(max_length=500, help_text="Kept with the change.")
