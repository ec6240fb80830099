"""OpenAI Codex: forks through ``thread/fork`` of ``codex app-server``, reads the rollouts itself."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from sessions.providers.base import (
    Attestation,
    Candidate,
    ChildSearch,
    DiscoveredSession,
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    HomeRef,
    Json,
    PointSupport,
    ReadItem,
    SessionFacts,
    SessionRef,
    TurnBinding,
)
from sessions.providers.codex import attestation, binding, discovery, evidence, forking, reasons, torn
from sessions.providers.codex.lineage import locate, resolve
from sessions.providers.codex.reader import RolloutReader
from sessions.providers.codex.rollouts import rollout_files

HOME_VARIABLE = "CODEX_HOME"
DEFAULT_FOLDER = ".codex"


class CodexAdapter:
    """Implements :class:`sessions.providers.base.Adapter` for Codex. Holds no state."""

    provider: ClassVar[str] = "codex"
    label: ClassVar[str] = "Codex"

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        path = _default_path(environ)
        return HomeRef(self.provider, path) if path is not None and path.is_dir() else None

    def attest(self, home: HomeRef) -> Attestation:
        return attestation.attest(home, os.environ)

    def discover(self, home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
        return discovery.discover(home, known)

    def present(self, home: HomeRef) -> set[str]:
        return {file.thread_id for file in rollout_files(home.path)}

    def read(self, ref: SessionRef, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
        parts = resolve(ref.home.path, locate(ref))
        return RolloutReader(parts, after=after.provider_turn_id if after is not None else "").read(since)

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        if attestation is None:
            return reasons.ATTESTATION_MISSING
        if attestation.points is PointSupport.UNSUPPORTED:
            return attestation.reason or reasons.NO_TURN_ANCHOR
        if facts.extra.get("archived"):
            return reasons.SOURCE_ARCHIVED
        if facts.extra.get("unreadable"):
            return str(facts.extra["unreadable"])
        if facts.damaged:
            return reasons.SOURCE_DAMAGED
        if binding is not None and not binding.provider_turn_id:
            return binding.reason or reasons.TURN_UNBOUND
        return ""

    def explain(self, reason: str) -> str:
        return reasons.SENTENCES.get(reason, reason)

    def confirm_turn(self, request: ForkRequest) -> None:
        evidence.confirm_turn(request)

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        return forking.fork(request, reporter, os.environ)

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        return evidence.verify(request, child_provider_session_id)

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        return evidence.find_children(request, since_ms, announced_id)

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        return torn.remove_torn(request, candidate)

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        return binding.bind(request, accepted.child_provider_session_id, target)

    def resume_command(self, ref: SessionRef) -> str:
        command = f"codex resume {shlex.quote(ref.provider_session_id)}"
        default = _default_path({name: os.environ[name] for name in ("HOME",) if name in os.environ})
        if default is None or os.path.realpath(default) != os.path.realpath(ref.home.path):
            command = f"{HOME_VARIABLE}={shlex.quote(str(ref.home.path))} {command}"
        return f"cd {shlex.quote(ref.cwd)} && {command}" if ref.cwd else command


def _default_path(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(HOME_VARIABLE, "")
    if named:
        return Path(named).absolute()
    user = environ.get("HOME", "")
    return Path(user) / DEFAULT_FOLDER if user else None
