"""In which home a fork has to live: its source's, or the one its workspace names for the provider."""

from __future__ import annotations

from pathlib import Path

from forkhost.kit.rows import one
from operations.models import Operation
from operations.requests import Refused
from sessions import runners
from sessions.models import ForkHome, Home, Session
from sessions.providers.base import BindingMode, HomeRef

BIND_UNSUPPORTED = "bind_unsupported"

OWNED = "Forks of this workspace are to live in {path}, and this agent can read a fork only where it made it."
ELSEWHERE = "Forks of this workspace are to live in {path} on {runner}, which is not this session's machine."


def destination(source: Session) -> Home | None:
    """The other home in which a fork of ``source`` has to live; None: the source's own. Raises :class:`Refused`.

    It goes by what the adapter attested: one whose agent owns the binding cannot bring a child anywhere.
    """
    if source.home is None:
        return None
    named = ForkHome.objects.select_related("home__runner").filter(
        workspace_id=source.workspace_id, provider=source.provider
    )
    wanted = one(named)
    if wanted is None or wanted.home_id == source.home_id:
        return None
    home: Home = wanted.home
    if home.runner_id != source.home.runner_id:
        raise Refused(BIND_UNSUPPORTED, 409, ELSEWHERE.format(path=home.path, runner=home.runner.name))
    attestation = runners.stored_attestation(source.home)
    if attestation is None or attestation.binding_mode is not BindingMode.HOST_COPY:
        raise Refused(BIND_UNSUPPORTED, 409, OWNED.format(path=home.path))
    return home


def child_home(operation: Operation) -> HomeRef:
    """Where the operation's child has to be readable, as it was decided when the fork was prepared."""
    return HomeRef(operation.provider, Path(operation.frozen.get("targetHome") or operation.frozen["home"] or "/"))
