"""What adapters share behind which no agent stands: there is nothing to find, to read, to tear or to bind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from sessions.providers.base import (
    Attestation,
    Candidate,
    ChildSearch,
    DiscoveredSession,
    ForkAccepted,
    ForkRequest,
    HomeRef,
    Json,
    ReadItem,
    Rejected,
    SessionFacts,
    SessionRef,
    TurnBinding,
    TurnMapping,
)


class AgentlessAdapter:
    """Every verb of :class:`sessions.providers.base.Adapter` but ``fork``, as it is where nothing outside is made.

    A subclass names itself, attests what ``attestation`` says, and overrides what is different with it.
    """

    provider: ClassVar[str]
    label: ClassVar[str]
    attestation: ClassVar[Attestation]

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        return None

    def attest(self, home: HomeRef) -> Attestation:
        return self.attestation

    def discover(self, home: HomeRef, known: Mapping[str, str]) -> Iterator[DiscoveredSession]:
        return iter(())

    def present(self, home: HomeRef) -> set[str]:
        return set()

    def read(self, ref: SessionRef, since: Json | None, after: TurnBinding | None) -> Iterator[ReadItem]:
        return iter(())

    def can_fork(self, attestation: Attestation | None, facts: SessionFacts, binding: TurnBinding | None) -> str:
        return ""

    def explain(self, reason: str) -> str:
        return reason

    def confirm_turn(self, request: ForkRequest) -> None:
        return None

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        return kept(request, child_provider_session_id, verified=["record"])

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        return ChildSearch("record", [], absence_proves=True, detail="Nothing is made outside before it commits.")

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        raise Rejected("not_torn", "Such a fork leaves nothing behind.")

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        return {}

    def resume_command(self, ref: SessionRef) -> str:
        return ""


def kept(request: ForkRequest, child_id: str, **receipt: Any) -> ForkAccepted:
    """A child that has no file and keeps its source's turn ids; ``receipt`` is what the receipt says beside its id."""
    turn = request.turn.binding
    mapping = [TurnMapping(turn.provider_turn_id, turn)] if turn.provider_turn_id else []
    return ForkAccepted(child_id, mapping, True, {"childProviderSessionId": child_id, "path": "", **receipt}, None)
