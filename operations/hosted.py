"""Forks of hosted sessions: no provider stands behind them, so the fork is the record itself.

They take the same way through the saga as every other fork, which keeps replay, audit and recovery the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from sessions.providers.base import (
    Attestation,
    BindingMode,
    Candidate,
    ChildSearch,
    DiscoveredSession,
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    HomeRef,
    IdentityMode,
    Json,
    PointSupport,
    ReadItem,
    Rejected,
    SessionFacts,
    SessionRef,
    TurnBinding,
    TurnMapping,
)

# Hosted forks need no machine of their own: the worker of any runner takes them.
QUEUE = ""
# Stands in for a state folder; nothing is ever read or written there.
NOWHERE = Path("/")

ATTESTATION = Attestation(
    driver_kind="hosted",
    driver_version="1",
    fingerprint="hosted/1",
    points=PointSupport.ANY_TURN,
    whole_session=True,
    binding_mode=BindingMode.PROVIDER_OWNED,
    identity_mode=IdentityMode.ANNOUNCED,
    longest_fork_seconds=1.0,
)


class HostedAdapter:
    """The adapter of sessions that are recorded through the API."""

    provider: ClassVar[str] = "hosted"
    label: ClassVar[str] = "Hosted"

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        return None

    def attest(self, home: HomeRef) -> Attestation:
        return ATTESTATION

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

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        """Nothing outside the database is made; the child's own id stands in for a provider's."""
        reporter.announce(request.operation_id)
        return self.verify(request, request.operation_id)

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        turn = request.turn.binding
        mapping = [TurnMapping(turn.provider_turn_id, turn)] if turn.provider_turn_id else []
        return ForkAccepted(
            child_provider_session_id=child_provider_session_id,
            mapping=mapping,
            kept=True,
            receipt={"childProviderSessionId": child_provider_session_id, "path": "", "verified": ["record"]},
            child_path=None,
        )

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        return ChildSearch("record", [], absence_proves=True, detail="A hosted fork makes nothing before it commits.")

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        raise Rejected("not_torn", "A hosted fork leaves nothing behind.")

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        return {}

    def resume_command(self, ref: SessionRef) -> str:
        return ""
