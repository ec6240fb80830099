"""Two workspaces of their own, each with clients, a runner and a fake agent whose every call and child is known."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from sessions.choices import ForkContract
from sessions.models import Session, Workspace
from sessions.providers import crashpoints
from sessions.providers.crashpoints import CrashPoint
from sessions.workspaces import join
from tests.operations.support import World, make_world

# How children are recognised, and whether the agent keeps its turns' ids in a child.
MANNERS: tuple[dict[str, Any], ...] = (
    {"identity_mode": "marker", "kept": True, "binding_mode": "host_copy"},
    {"identity_mode": "announced", "kept": False, "binding_mode": "provider_owned"},
    {"identity_mode": "search", "kept": True, "binding_mode": "host_copy"},
    {"identity_mode": "marker", "kept": False, "binding_mode": "host_copy"},
)


class Killed(BaseException):
    """The process is gone: nothing that catches errors may see it."""


@dataclass
class Tenant:
    """One workspace, who uses it, and where its sessions live."""

    world: World
    clients: list[User]
    contract: ForkContract
    browsers: list[Client] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        """The workspace, as it was read last."""
        return self.world.workspace

    def sessions(self) -> list[Session]:
        """Every session that is there, hidden ones too, oldest first."""
        return list(Session.objects.filter(workspace=self.workspace).order_by("created_at_unix_ms", "pk"))

    def seen(self, kind: str) -> list[dict[str, Any]]:
        """The agent's files of a kind (``calls``, ``children``), each read once: none of them ever changes."""
        for path in sorted((self.world.agent.folder / kind).glob("*.json")):
            name = f"{kind}/{path.name}"
            if name not in self.files:
                self.files[name] = json.loads(path.read_text())
        return [content for name, content in self.files.items() if name.startswith(f"{kind}/")]

    def next_call(self, step: str, *, process: str = "dead") -> None:
        """What the agent does when it is called next, and who makes that call."""
        count = len(self.seen("calls"))
        announces = self.world.agent.config["identity_mode"] == "announced"
        script = [{"do": "accept"}] * count + [{"do": step, "announce": announces}]
        self.world.agent.configure(script=script, process=process)

    def source_bytes(self) -> dict[str, bytes]:
        """What the agent itself has of the sources."""
        return {path.name: path.read_bytes() for path in (self.world.agent.folder / "sources").iterdir()}

    def add_source(self, session: Session) -> None:
        """Give a source the agent's own file."""
        folder = self.world.agent.folder / "sources"
        folder.mkdir(exist_ok=True)
        (folder / str(session.provider_session_id)).write_bytes(session.pk.bytes * 16)


def make_tenant(folder: Path, contract: ForkContract, clients: int, manner: int) -> Tenant:
    """A workspace that begins under ``contract``, with two sources of three turns."""
    name = uuid.uuid4().hex
    workspace = Workspace.objects.create(
        name=name,
        slug=name,
        fork_contract=contract,
        webhook_url="https://hooks.example/forks",
        webhook_secret="s3cret",
    )
    users = [User.objects.create(username=f"{name}-{number}") for number in range(clients)]
    for user in users:
        join(user, workspace)
    world = make_world(workspace, users[0], folder / name)
    world.agent.configure(process="dead", **MANNERS[manner % len(MANNERS)])
    world.attest()
    tenant = Tenant(world, users, contract)
    for session in (world.source, world.new_source()):
        tenant.add_source(session)
    for user in users:
        browser = Client()
        browser.force_login(user)
        tenant.browsers.append(browser)
    return tenant


@contextmanager
def meanwhile(point: CrashPoint, deed: Callable[[], None]) -> Iterator[None]:
    """Do something at a crash point, once, in the middle of whatever passes it; killing is one such deed."""
    environ = {crashpoints.VARIABLE: point.value}

    def kill(_pid: int, _signal: int) -> None:
        environ.clear()
        deed()

    real = crashpoints.os
    crashpoints.os = SimpleNamespace(environ=environ, kill=kill, getpid=real.getpid)  # type: ignore[assignment]
    try:
        yield
    finally:
        crashpoints.os = real


def die() -> None:
    """What a kill -9 is, in one process: the open transaction goes, the leases stay."""
    raise Killed
