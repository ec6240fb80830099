"""Claude Code and the Claude Agent SDK."""

from __future__ import annotations

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
    Rejected,
    SessionFacts,
    SessionRef,
    TurnBinding,
    Unreadable,
)
from sessions.providers.claude import attestation, discovery, evidence, forking
from sessions.providers.claude.reader import Source, read_transcript

CONFIG_VARIABLE = "CLAUDE_CONFIG_DIR"
DEFAULT_FOLDER = ".claude"

_REASONS = {
    "not_attested": "No worker has looked at the Claude Agent SDK on this machine yet.",
    **attestation.SENTENCES,
    "sub_agent_lane": "This is the lane of a sub-agent; fork the session that started it.",
    "turn_not_bound": "The turn is not tied to a row of the transcript, so it cannot be forked at.",
    "transcript_damaged": "Rows before this point are damaged; a fork would silently leave out what came before them.",
    "prefix_missing": "An earlier turn is no longer in the agent's transcript.",
    "turn_missing": "The turn is no longer in the agent's transcript.",
    "turn_in_progress": "The agent is still working on this turn.",
    "not_torn": "This is not a broken-off child of this fork.",
    "bind_unsupported": "Claude ties a fork to the folder it was made in, so it cannot be moved to another home.",
}


class ClaudeAdapter:
    """Reads transcripts itself; forks through the SDK's store interface, which names the child before it exists."""

    provider: ClassVar[str] = "claude"
    label: ClassVar[str] = "Claude Code"

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        configured = environ.get(CONFIG_VARIABLE)
        home = environ.get("HOME")
        if not configured and not home:
            return None
        path = Path(configured) if configured else Path(str(home)) / DEFAULT_FOLDER
        return HomeRef(self.provider, path.resolve()) if path.is_dir() else None

    def attest(self, home: HomeRef) -> Attestation:
        return attestation.attest(home)

    def discover(self, home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
        return discovery.discover(home, known)

    def present(self, home: HomeRef) -> set[str]:
        return discovery.present(home.path)

    def read(self, ref: SessionRef, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
        if ref.path is None:
            raise Unreadable("source_transcript_missing", "The session has no transcript.")
        parent, _, lane = ref.provider_session_id.partition(discovery.LANE_SEPARATOR)
        finished = bool(lane) and discovery.lane_finished(ref.path, parent)
        return read_transcript(Source(ref.path, ref.home.path, parent, bool(lane), finished), since, after)

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        if attestation is None:
            return "not_attested"
        if attestation.points is PointSupport.UNSUPPORTED:
            return attestation.reason
        if facts.extra.get("lane"):
            return "sub_agent_lane"
        if binding is None:
            return ""
        if not binding.provider_turn_id or not evidence.checkpoint_of(binding):
            return binding.reason or "turn_not_bound"
        return "transcript_damaged" if binding.data.get("broken") else ""

    def explain(self, reason: str) -> str:
        return _REASONS.get(reason, reason)

    def confirm_turn(self, request: ForkRequest) -> None:
        """The chosen turn lies whole in the source, a child cut there would continue it, and nothing came after it.

        Reads the whole transcript: rows through the cut must give the branch the history shows, or a child would
        continue another one.
        """
        source, turn = request.source.path, request.turn.binding
        if source is None:
            raise Unreadable("source_transcript_missing", "The session has no transcript.")
        if not evidence.checkpoint_of(turn):
            raise Rejected("turn_not_bound", _REASONS["turn_not_bound"])
        try:
            cut = evidence.cut_at(source, evidence.checkpoint_of(turn))
        except FileNotFoundError as error:
            raise Unreadable("source_transcript_missing", "The source's transcript is gone.") from error
        except OSError as error:
            raise Unreadable("source_unreadable", f"The source's transcript: {error.strerror}.") from error
        if cut is None or not evidence.ends_with(cut, turn):
            raise Rejected("turn_missing", _REASONS["turn_missing"])
        if cut.branch.broken:
            raise Rejected("transcript_damaged", _REASONS["transcript_damaged"])
        if cut.went_on and evidence.busy(request.source.home.path, request.source.provider_session_id):
            raise Rejected("turn_in_progress", _REASONS["turn_in_progress"])
        if request.require_prefix and not evidence.holds_prefix(cut, request.prefix):
            raise Rejected("prefix_missing", _REASONS["prefix_missing"])

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        return forking.fork(request, reporter)

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        try:
            return forking.proven(request, child_provider_session_id)
        except evidence.WrongChild as error:
            raise Rejected("wrong_child", f"The session is not the child of this fork: {error}.") from error
        except FileNotFoundError as error:
            raise Unreadable("child_missing", "There is no transcript under the child's id.") from error
        except OSError as error:
            raise Unreadable("child_unreadable", f"A transcript cannot be read: {error.strerror}.") from error

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        if request.source.path is None:
            raise Unreadable("source_transcript_missing", "The session has no transcript.")
        return evidence.find_children(request, request.source.path, since_ms, announced_id)

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        if request.source.path is None:
            raise Unreadable("source_transcript_missing", "The session has no transcript.")
        try:
            return evidence.remove_torn(request, request.source.path, candidate)
        except OSError as error:
            raise Unreadable("child_unreadable", f"The transcript cannot be removed: {error.strerror}.") from error

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        if target.path.resolve() != request.source.home.path.resolve():
            raise Rejected("bind_unsupported", _REASONS["bind_unsupported"])
        again = self.verify(request, accepted.child_provider_session_id)
        return {"method": "same_home", "path": again.receipt["path"], "verified": again.receipt["verified"]}

    def resume_command(self, ref: SessionRef) -> str:
        if discovery.LANE_SEPARATOR in ref.provider_session_id:
            return ""
        config = "" if ref.home.path == _users_folder() else f"{CONFIG_VARIABLE}={shlex.quote(str(ref.home.path))} "
        resume = f"{config}claude --resume {shlex.quote(ref.provider_session_id)}"
        return f"cd {shlex.quote(ref.cwd)} && {resume}" if ref.cwd else resume


def _users_folder() -> Path:
    """The folder the agent uses when nothing else is said."""
    return (Path.home() / DEFAULT_FOLDER).resolve()
