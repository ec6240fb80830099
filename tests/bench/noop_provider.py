"""An agent whose fork makes nothing, so that what a fork costs here is forkhost's own share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
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

PROVIDER = "noop"
SECONDS = "seconds"


class NoopAdapter:
    """Accepts every fork at once. Its receipt says how many ``seconds`` the call took, the announcement included."""

    provider: ClassVar[str] = PROVIDER
    label: ClassVar[str] = "No-op"

    def default_home(self, environ: Mapping[str, str]) -> HomeRef | None:
        return None

    def attest(self, home: HomeRef) -> Attestation:
        return Attestation(
            driver_kind=PROVIDER,
            driver_version="1",
            fingerprint="noop/1",
            points=PointSupport.ANY_TURN,
            whole_session=True,
            binding_mode=BindingMode.HOST_COPY,
            identity_mode=IdentityMode.MARKER,
            longest_fork_seconds=60.0,
        )

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
        begun = time.perf_counter()
        child_id = str(uuid.uuid4())
        return self._accepted(request, child_id, time.perf_counter() - begun)

    def verify(self, request: ForkRequest, child_provider_session_id: str) -> ForkAccepted:
        return self._accepted(request, child_provider_session_id, 0.0)

    def _accepted(self, request: ForkRequest, child_id: str, seconds: float) -> ForkAccepted:
        turn = request.turn.binding
        receipt = {"childProviderSessionId": child_id, "path": "", "verified": ["nothing"], SECONDS: seconds}
        return ForkAccepted(child_id, [TurnMapping(turn.provider_turn_id, turn)], True, receipt, None)

    def find_children(self, request: ForkRequest, since_ms: int, announced_id: str) -> ChildSearch:
        return ChildSearch("nowhere", [], absence_proves=True)

    def remove_torn(self, request: ForkRequest, candidate: Candidate) -> Json:
        raise Rejected("not_torn", "It leaves nothing behind.")

    def bind(self, request: ForkRequest, accepted: ForkAccepted, target: HomeRef) -> Json:
        return {}

    def resume_command(self, ref: SessionRef) -> str:
        return ""
