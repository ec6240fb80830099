"""A real agent's home as a home of a runner in the test's database, its sessions imported."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import User

from operations import dispatch, saga, worker
from operations.models import Operation
from operations.points import parse_point
from sessions import history, runners, syncing
from sessions.discovery import Scanner
from sessions.importing import import_claimed
from sessions.models import Home, Runner, Session
from sessions.providers import registry
from tests.conftest import People

LEASE_SECONDS = 60.0
ACTOR = "worker:test"


@dataclass
class Place:
    """One runner with one home of a real agent."""

    runner: Runner
    home: Home
    user: User

    def bring_in(self) -> None:
        """Look for sessions and read them, as the runner's worker does."""
        Scanner(self.home, registry.adapter(self.home.provider)).scan()
        while (lease := syncing.claim_next(self.runner.pk, "test", hurried=False)) is not None:
            import_claimed(lease, lambda: False)

    def session(self, provider_session_id: str) -> Session:
        """An imported session by the agent's own id."""
        found: Session = Session.objects.get(home=self.home, provider_session_id=provider_session_id)
        return found

    def fork(self, source: Session, ordinal: int) -> Operation:
        """Ask for a fork at a turn and let the worker take it once."""
        view = history.turn_by_ordinal(source, ordinal)
        assert view is not None
        request = saga.PrepareRequest(
            workspace_id=source.workspace_id,
            user=self.user,
            source_session_id=source.pk,
            request_id=str(uuid.uuid4()),
            target_session_id=uuid.uuid4(),
            point=parse_point({"type": "throughTurn", "turnId": str(view.id)}),
            title=None,
        )
        operation = saga.prepare(request).operation
        self.work(operation)
        return operation

    def work(self, operation: Operation) -> None:
        """Let the worker take what is due once."""
        lease = worker.claim_next(self.runner, ACTOR, LEASE_SECONDS)
        if lease is not None:
            dispatch.work(lease, actor=ACTOR, lease_seconds=LEASE_SECONDS)
        operation.refresh_from_db()


def make_place(people: People, provider: str, path: Path) -> Place:
    """The place, the agent attested and its sessions read."""
    runner = runners.start(people.workspace, "here")
    runners.ensure_homes(runner, {}, [(provider, path)])
    home = Home.objects.select_related("runner__workspace").get(provider=provider, path=str(path))
    attestation = runners.attest(home)
    assert attestation is not None
    assert not attestation.reason, attestation
    home.refresh_from_db()
    place = Place(runner, home, people.member)
    place.bring_in()
    return place
