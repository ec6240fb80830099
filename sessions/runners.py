"""This machine as a runner: its heartbeat, the agents' homes on it, and what they proved about themselves.

Only workers call :func:`start`, :func:`beat`, :func:`ensure_homes` and :func:`attest`. Pages, API and saga read what is
stored and never start a provider.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from django.core.exceptions import ObjectDoesNotExist

from forkhost.kit import clock
from sessions.models import Home, Runner, Session, Workspace
from sessions.providers import registry
from sessions.providers.base import (
    Attestation,
    BindingMode,
    HomeRef,
    IdentityMode,
    Json,
    PointSupport,
    SessionRef,
)

log = structlog.get_logger(__name__)

BEAT_SECONDS = 5.0
ALIVE_SECONDS = 20.0
ATTEST_AGAIN_SECONDS = 300.0
# What keeps an agent from forking is being mended just then, as often as not.
ATTEST_UNABLE_AGAIN_SECONDS = 20.0

ADAPTER_MISSING = "adapter_missing"


def default_name() -> str:
    """The name of this machine's runner unless somebody gives another."""
    return socket.gethostname() or "localhost"


def start(workspace: Workspace, name: str) -> Runner:
    """The runner of that name, made when it is new, with a fresh incarnation: a worker started on it."""
    runner, _ = Runner.objects.get_or_create(workspace=workspace, name=name)
    incarnation = uuid.uuid4()
    Runner.objects.filter(pk=runner.pk).update(incarnation=incarnation, last_seen_at=clock.database_now())
    runner.refresh_from_db()
    return runner


def beat(runner_id: uuid.UUID) -> None:
    """Say that a worker of the runner is alive."""
    Runner.objects.filter(pk=runner_id).update(last_seen_at=clock.database_now())


def is_alive(runner: Runner) -> bool:
    """Whether a worker of the runner was seen lately, by this machine's clock."""
    seen = runner.last_seen_at
    return seen is not None and clock.now() - seen <= dt.timedelta(seconds=ALIVE_SECONDS)


def ensure_homes(runner: Runner, environ: Mapping[str, str], extra: Sequence[tuple[str, Path]] = ()) -> list[Home]:
    """A row for each home on this machine: the one each agent itself would use, and ``extra`` (provider, path) pairs.

    Returns all homes of the runner, also those whose folder is gone: their sessions stay readable.
    """
    found = [(ref.provider, ref.path) for ref in _default_homes(environ)]
    for provider, path in (*found, *extra):
        Home.objects.get_or_create(runner=runner, provider=provider, path=str(path), defaults={"queue": str(runner.pk)})
    homes = list(Home.objects.filter(runner=runner).order_by("provider", "path"))
    idle = [home.pk for home in homes if home.next_run_at is None]
    Home.objects.filter(pk__in=idle, next_run_at__isnull=True).update(next_run_at=clock.database_now())
    return homes


def _default_homes(environ: Mapping[str, str]) -> list[HomeRef]:
    homes = []
    for provider, adapter in registry.adapters().items():
        try:
            home = adapter.default_home(environ)
        except Exception:
            # An adapter of somebody else; its mistake must not cost the other agents their sessions.
            log.exception("default_home_failed", provider=provider)
        else:
            if home is not None:
                homes.append(home)
    return homes


# --------------------------------------------------------------------------------------------------------------------
# What adapters are given


def home_ref(home: Home) -> HomeRef:
    """The home as adapters know it."""
    return HomeRef(home.provider, Path(home.path))


def session_ref(session: Session) -> SessionRef:
    """The provider's session as adapters know it. Raises ValueError when the session has no home or provider session."""
    if session.home is None or session.provider_session_id is None:
        raise ValueError(f"session {session.pk} has no provider session")
    try:
        path = session.sync.path
    except ObjectDoesNotExist:
        path = ""
    return SessionRef(home_ref(session.home), session.provider_session_id, Path(path) if path else None, session.cwd)


# --------------------------------------------------------------------------------------------------------------------
# Attestations


def attest(home: Home) -> Attestation | None:
    """Let the home's adapter prove what it can do, and store the answer. None when no adapter is installed for it."""
    adapter = registry.adapters().get(home.provider)
    if adapter is None:
        Home.objects.filter(pk=home.pk).update(
            attestation=None,
            attested_at=clock.now(),
            problem_code=ADAPTER_MISSING,
            problem_text=registry.registry().broken.get(
                home.provider, f"No adapter for the provider {home.provider!r} is installed here."
            ),
        )
        return None
    attestation = adapter.attest(home_ref(home))
    Home.objects.filter(pk=home.pk).update(attestation=attestation_to_json(attestation), attested_at=clock.now())
    return attestation


def attest_again_after(attestation: Attestation | None) -> float:
    """How many seconds a stored answer is good for while the executable stays the same."""
    able = attestation is not None and attestation.points is not PointSupport.UNSUPPORTED
    return ATTEST_AGAIN_SECONDS if able else ATTEST_UNABLE_AGAIN_SECONDS


def executable_stamp(attestation: Attestation | None) -> str:
    """Changes whenever the attested executable does; "" when there is none."""
    if attestation is None or not attestation.executable:
        return ""
    try:
        stat = os.stat(attestation.executable)
    except OSError:
        return "gone"
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"


def stored_attestation(home: Home | None) -> Attestation | None:
    """What a worker last stored for the home; None when nothing usable is stored."""
    return attestation_from_json(home.attestation) if home is not None else None


def attestation_to_json(attestation: Attestation) -> Json:
    """As stored in :attr:`Home.attestation`."""
    return dataclasses.asdict(attestation)


def attestation_from_json(stored: Json | None) -> Attestation | None:
    """The inverse; None for nothing, and for what another version of forkhost stored and this one does not know."""
    if stored is None:
        return None
    try:
        known = {field.name: stored[field.name] for field in dataclasses.fields(Attestation) if field.name in stored}
        known["points"] = PointSupport(stored["points"])
        known["binding_mode"] = BindingMode(stored["binding_mode"])
        known["identity_mode"] = IdentityMode(stored["identity_mode"])
        return Attestation(**known)
    except (KeyError, TypeError, ValueError):
        return None
