"""Forks of hosted sessions: no provider stands behind them, so the fork is the record itself.

They take the same way through the saga as every other fork, which keeps replay, audit and recovery the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from sessions.providers.agentless import AgentlessAdapter
from sessions.providers.base import (
    Attestation,
    BindingMode,
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    IdentityMode,
    PointSupport,
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


class HostedAdapter(AgentlessAdapter):
    """The adapter of sessions that are recorded through the API."""

    provider: ClassVar[str] = "hosted"
    label: ClassVar[str] = "Hosted"
    attestation: ClassVar[Attestation] = ATTESTATION

    def fork(self, request: ForkRequest, reporter: ForkReporter) -> ForkAccepted:
        """Nothing outside the database is made; the child's own id stands in for a provider's."""
        reporter.announce(request.operation_id)
        return self.verify(request, request.operation_id)
