"""Looks over an installation: what is there, what works, what is stuck, and what to do about it.

Each check yields findings and never raises for what it finds. Nothing is written and no session is touched.
"""

from __future__ import annotations

import datetime as dt
import enum
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from django.conf import settings
from django.core.management.base import CommandError
from django.db import Error, connection
from django.db.models import Count

from forkhost import preparing
from forkhost.kit import clock
from operations.models import Notification, Operation
from operations.saga import notices
from sessions import runners, search_schema, triggers
from sessions.choices import SyncState
from sessions.models import Home, Runner, SessionSync
from sessions.providers import registry
from sessions.providers.base import Adapter, Attestation, HomeRef, PointSupport

LOW_SPACE_BYTES = 500 * 1024 * 1024
STUCK_SECONDS = 60.0
REACH_SECONDS = 3.0
# Stuck forks that are named one by one.
LISTED = 20

_POINTS = {
    PointSupport.ANY_TURN: "forks at any settled turn",
    PointSupport.LATEST_TURN: "forks at the end of a conversation",
    PointSupport.UNSUPPORTED: "cannot fork",
}


class Level(enum.StrEnum):
    """How a finding is meant."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``advice`` says what to do, empty when there is nothing to do."""

    level: Level
    subject: str
    text: str
    advice: str = ""


Check = Callable[[], Iterator[Finding]]


def findings() -> Iterator[Finding]:
    """Everything, from the ground up; what needs the database is left out when that cannot be used."""
    yield from data_folder()
    usable = True
    for finding in database():
        usable = usable and finding.level is not Level.PROBLEM
        yield finding
    yield from agents()
    if usable:
        checks: tuple[Check, ...] = (workers, homes, transcripts, forks, messages)
        for check in checks:
            yield from check()
    yield from public_url()


def data_folder() -> Iterator[Finding]:
    """The folder that holds database, secret key and attachments."""
    folder = Path(settings.FORKHOST_DATA)
    try:
        preparing.require_writable_data()
        free = shutil.disk_usage(folder).free
    except (CommandError, OSError) as error:
        yield Finding(Level.PROBLEM, "data folder", str(error))
        return
    text = f"{folder}, {free / 1e9:.1f} GB free"
    if free < LOW_SPACE_BYTES:
        yield Finding(Level.PROBLEM, "data folder", text, "Free some space: a fork needs room to be written down.")
    else:
        yield Finding(Level.OK, "data folder", text)


def database() -> Iterator[Finding]:
    """Whether the database answers, has this version's tables, and guards its history."""
    try:
        preparing.refuse_unmigrated()
        installed = triggers.installed(connection)
        searchable = search_schema.is_whole(connection)
    except (CommandError, Error) as error:
        yield Finding(Level.PROBLEM, "database", str(error), "Check DATABASE_URL, then run: ./manage.py migrate")
        return
    missing = set(triggers.EXPECTED) - set(installed)
    if missing:
        yield Finding(
            Level.PROBLEM,
            "database",
            f"{len(missing)} of the guards that make history immutable are missing",
            "Run: ./manage.py migrate",
        )
        return
    if not searchable:
        yield Finding(
            Level.NOTE,
            "search",
            "the index is not complete: a migration was broken off",
            "Run: ./manage.py migrate",
        )
    yield Finding(Level.OK, "database", f"{connection.vendor}, up to date")


def agents() -> Iterator[Finding]:
    """Which agents are installed here and what they can prove right now."""
    for name, sentence in registry.registry().broken.items():
        yield Finding(Level.PROBLEM, name, sentence, "Install what the sentence names, or remove the adapter.")
    for adapter in registry.adapters().values():
        home = adapter.default_home(os.environ)
        if home is None:
            yield Finding(Level.NOTE, adapter.label, "no state folder of it where it would keep it for you")
        else:
            yield _proof(adapter, home)


def _proof(adapter: Adapter, home: HomeRef) -> Finding:
    attestation = adapter.attest(home)
    text = f"{home.path}: {_described(attestation)}"
    if attestation.points is PointSupport.UNSUPPORTED:
        return Finding(Level.PROBLEM, adapter.label, text, adapter.explain(attestation.reason))
    return Finding(Level.OK, adapter.label, text)


def _described(attestation: Attestation) -> str:
    version = f"{attestation.driver_kind} {attestation.driver_version}".strip()
    said = f" ({attestation.detail or attestation.reason})" if attestation.reason else ""
    return f"{version}, {_POINTS[attestation.points]}{said}"


def workers() -> Iterator[Finding]:
    """Whether somebody does the work."""
    for runner in Runner.objects.order_by("name"):
        seen = runner.last_seen_at
        if runners.is_alive(runner):
            yield Finding(Level.OK, f"worker on {runner.name}", "at work")
        else:
            since = f"not seen since {seen:%Y-%m-%d %H:%M:%S} UTC" if seen else "never seen"
            yield Finding(
                Level.PROBLEM,
                f"worker on {runner.name}",
                since,
                f"Start it there: ./manage.py worker --runner {runner.name}",
            )
    if not Runner.objects.exists():
        yield Finding(Level.PROBLEM, "worker", "none has ever run", "Start everything with: make up")


def homes() -> Iterator[Finding]:
    """What workers stored about the agents' homes."""
    for home in Home.objects.select_related("runner").order_by("runner__name", "provider", "path"):
        subject = f"{home.provider} on {home.runner.name}"
        attestation = runners.stored_attestation(home)
        if home.problem_code:
            yield Finding(Level.PROBLEM, subject, f"{home.path}: {home.problem_text}", "Bring the folder back.")
        elif attestation is None:
            yield Finding(Level.NOTE, subject, f"{home.path}: no worker has looked at it yet")
        else:
            yield Finding(Level.OK, subject, f"{home.path}: {_described(attestation)}")


def transcripts() -> Iterator[Finding]:
    """How far the import is."""
    counts = dict(SessionSync.objects.values_list("state").annotate(number=Count("pk")))
    if not counts:
        yield Finding(Level.NOTE, "sessions", "none of an agent found yet")
        return
    listed = ", ".join(f"{counts[state]} {state}" for state in SyncState if state in counts)
    yield Finding(Level.OK, "sessions", listed)
    failed = SessionSync.objects.filter(state=SyncState.FAILED)
    for code, number in failed.values_list("problem_code").annotate(number=Count("pk")).order_by("-number")[:5]:
        example = failed.filter(problem_code=code).values_list("problem_text", flat=True).first()
        yield Finding(
            Level.PROBLEM, "import", f"{number} failed with {code}: {example}", "It is tried again by itself."
        )


def forks() -> Iterator[Finding]:
    """Forks that wait too long, and forks that somebody has to look after: one finding for each, the oldest first."""
    now = clock.now()
    open_forks = Operation.objects.open().filter(next_run_at__isnull=False)
    waiting = open_forks.count()
    late = open_forks.filter(prepared_at__lt=now - dt.timedelta(seconds=STUCK_SECONDS)).order_by("prepared_at")
    if waiting:
        yield Finding(Level.OK, "forks", f"{waiting} under way")
    for fork in late[:LISTED]:
        yield Finding(
            Level.PROBLEM,
            f"fork {fork.pk}",
            f"{fork.status} for {_age(now - fork.prepared_at)}{f': {fork.error_text}' if fork.error_text else ''}",
            f"See whether the worker of its machine is at work, and look at it: {notices.operation_url(fork)}",
        )
    queue = Operation.objects.all().queue().exclude(pk__in=late.values("pk"))
    for fork in queue.order_by("-needs_person", "prepared_at")[:LISTED]:
        asks = "needs a person" if fork.needs_person else "looked at again by itself"
        since = f"unknown for {_age(now - fork.unknown_since)}" if fork.unknown_since else fork.status
        yield Finding(
            Level.PROBLEM if fork.needs_person else Level.NOTE,
            f"fork {fork.pk}",
            f"{since}, {asks}; nothing is sent again and the source is unharmed",
            f"Look at the evidence: {notices.console_url(fork)}",
        )
    hidden = max(0, late.count() - LISTED) + max(0, queue.count() - LISTED)
    if hidden:
        yield Finding(Level.PROBLEM, "forks", f"{hidden} more of these", "They are all in the admin, under operations.")
    if not waiting and not queue.exists():
        yield Finding(Level.OK, "forks", "nothing waits")


def messages() -> Iterator[Finding]:
    """Notifications that did not arrive."""
    given_up = Notification.objects.filter(given_up_at__isnull=False)
    number = given_up.count()
    if number:
        newest = given_up.order_by("-given_up_at").values_list("error_text", flat=True).first()
        yield Finding(
            Level.NOTE,
            "notifications",
            f"{number} were given up, the last one because: {newest}",
            "They are in the admin, under notifications. Correct FORKHOST_EMAIL_URL or the workspace's webhook.",
        )


def _age(age: dt.timedelta) -> str:
    seconds = int(age.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def public_url() -> Iterator[Finding]:
    """Whether the address that browsers use leads here."""
    url = settings.FORKHOST_PUBLIC_URL
    if not url:
        return
    try:
        answer = httpx.get(f"{url}/login/", timeout=REACH_SECONDS, follow_redirects=False)
    except httpx.HTTPError as error:
        yield Finding(
            Level.PROBLEM, "web", f"{url} does not answer ({error})", "Start it, or correct FORKHOST_PUBLIC_URL."
        )
        return
    good = answer.status_code < 400
    yield Finding(
        Level.OK if good else Level.PROBLEM,
        "web",
        f"{url} answers with {answer.status_code}",
        "" if good else "Look at the web server's log and at the proxy before it.",
    )
