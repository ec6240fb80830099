"""Runners as the page shows them: alive or not, and what each agent's home proved."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count

from operations.models import Operation
from sessions import runners
from sessions.models import Home, Runner, Session, Workspace
from sessions.pages.listing import provider_label
from sessions.providers.base import Attestation, IdentityMode, PointSupport
from sessions.providers.registry import adapters

POINTS = {
    PointSupport.ANY_TURN: "Can fork from any settled turn.",
    PointSupport.LATEST_TURN: "Can fork only at the end of a conversation.",
    PointSupport.UNSUPPORTED: "Cannot fork.",
}
IDENTITY = {
    IdentityMode.ANNOUNCED: "A fork’s id is known before the agent makes it, so a lost answer can always be settled.",
    IdentityMode.MARKER: "Each fork carries our mark, so a lost answer can be settled by looking for it.",
    IdentityMode.SEARCH: "A fork is recognised by its content; a lost answer may need a person.",
}


@dataclass(slots=True)
class HomeRow:
    """One agent's state folder."""

    home: Home
    label: str
    attestation: Attestation | None
    can: str
    identity: str
    why: str
    sessions: int


@dataclass(slots=True)
class Machine:
    """One runner. ``waiting`` operations need its worker."""

    runner: Runner
    alive: bool
    homes: list[HomeRow]
    waiting: int


def machines(user: User) -> list[Machine]:
    """The runners of the reader's workspaces, by name."""
    found = list(
        Runner.objects.filter(workspace__in=Workspace.objects.visible_to(user))
        .select_related("workspace")
        .order_by("workspace__name", "name")
    )
    homes: dict[object, list[Home]] = defaultdict(list)
    for home in Home.objects.filter(runner__in=found).order_by("provider", "path"):
        homes[home.runner_id].append(home)
    counts = dict(
        Session.objects.living()
        .filter(home__runner__in=found)
        .order_by()
        .values_list("home_id")
        .annotate(count=Count("pk"))
    )
    waiting = dict(
        Operation.objects.visible_to(user)
        .filter(completed_at__isnull=True)
        .order_by()
        .values_list("runner_id")
        .annotate(count=Count("pk"))
    )
    return [
        Machine(
            runner,
            runners.is_alive(runner),
            [_row(home, counts.get(home.pk, 0)) for home in homes[runner.pk]],
            waiting.get(runner.pk, 0),
        )
        for runner in found
    ]


def _row(home: Home, sessions: int) -> HomeRow:
    attestation = runners.stored_attestation(home)
    label = provider_label(home.provider)
    if attestation is None:
        return HomeRow(home, label, None, "Not checked yet.", "", home.problem_text, sessions)
    return HomeRow(
        home,
        label,
        attestation,
        POINTS[attestation.points],
        IDENTITY[attestation.identity_mode] if attestation.points is not PointSupport.UNSUPPORTED else "",
        _why(home, attestation),
        sessions,
    )


def _why(home: Home, attestation: Attestation) -> str:
    if home.problem_text:
        return home.problem_text
    if not attestation.reason:
        return ""
    adapter = adapters().get(home.provider)
    return attestation.detail or (adapter.explain(attestation.reason) if adapter else attestation.reason)
