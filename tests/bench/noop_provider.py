"""An agent whose fork makes nothing, so that what a fork costs here is forkhost's own share."""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from sessions.providers.agentless import AgentlessAdapter, kept
from sessions.providers.base import (
    Attestation,
    BindingMode,
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    IdentityMode,
    PointSupport,
)

PROVIDER = "noop"
SECONDS = "seconds"


class NoopAdapter(AgentlessAdapter):
    """Accepts every fork at once. Its receipt says how many ``seconds`` the call took, the announcement included."""

    provider: ClassVar[str] = PROVIDER
    label: ClassVar[str] = "No-op"
    attestation: ClassVar[Attestation] = Attestation(
        driver_kind=PROVIDER,
        driver_version="1",
        fingerprint="noop/1",
        points=PointSupport.ANY_TURN,
        whole_session=True,
        binding_mode=BindingMode.HOST_COPY,
        identity_mode=IdentityMode.MARKER,
        longest_fork_seconds=60.0,
    )

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        begun = time.perf_counter()
        child_id = str(uuid.uuid4())
        return kept(request, child_id, verified=["nothing"], **{SECONDS: time.perf_counter() - begun})
