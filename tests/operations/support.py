"""A workspace with a runner, a home of the fake agent and a source session, for tests of the saga."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from forkhost.kit import clock
from forkhost.kit.leases import Lease
from operations import dispatch, saga, worker
from operations.models import Operation, OperationAudit
from operations.points import ForkPoint, parse_point
from sessions import history, runners, store
from sessions.models import Home, Runner, Session, Workspace
from sessions.providers.base import TurnBinding
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.agents.fake_provider import PROVIDER, FakeProvider

LEASE_SECONDS = 60.0
ACTOR = "worker:test"
LATEST = parse_point({"type": "latestSettled"})


@dataclass
class World:
    """Where forks happen in these tests."""

    workspace: Workspace
    user: User
    runner: Runner
    home: Home
    agent: FakeProvider
    source: Session

    def new_source(self, turns: int = 3, **facts: Any) -> Session:
        """A settled session with bound turns in the fake agent's home."""
        provider_id = f"source-{uuid.uuid4()}"
        session = store.create(
            workspace=self.workspace,
            provider=PROVIDER,
            home=self.home,
            provider_session_id=provider_id,
            title="Fix login",
            cwd=str(self.agent.folder),
            **facts,
        )
        for number in range(1, turns + 1):
            store.append(session.pk, turn(number))
        session.refresh_from_db()
        return session

    def request(self, **changes: Any) -> saga.PrepareRequest:
        """A request to fork the source at its last settled turn, with fresh ids."""
        values: dict[str, Any] = {
            "workspace_id": self.workspace.pk,
            "user": self.user,
            "source_session_id": self.source.pk,
            "request_id": str(uuid.uuid4()),
            "target_session_id": uuid.uuid4(),
            "point": LATEST,
            "title": None,
        }
        return saga.PrepareRequest(**{**values, **changes})

    def prepare(self, **changes: Any) -> Operation:
        """A prepared operation."""
        return saga.prepare(self.request(**changes)).operation

    def work(self, operation: Operation | None = None) -> Operation | None:
        """Let a worker take one operation as far as it goes; ``operation`` is read again afterwards."""
        lease = self.claim()
        if lease is not None:
            dispatch.work(lease, actor=ACTOR, lease_seconds=LEASE_SECONDS)
        if operation is not None:
            operation.refresh_from_db()
        return operation

    def claim(self) -> Lease | None:
        """What a worker of the runner would claim next."""
        return worker.claim_next(self.runner, ACTOR, LEASE_SECONDS)

    def fork(self, **changes: Any) -> Operation:
        """Prepare and work once."""
        operation = self.prepare(**changes)
        self.work(operation)
        return operation

    @staticmethod
    def due_now() -> dt.datetime:
        """A time that is due."""
        return clock.now()

    def attest(self) -> None:
        """Store what the agent proves about itself now."""
        runners.attest(self.home)
        self.home.refresh_from_db()


def turn(number: int, **binding: Any) -> list[store.Entry]:
    """The entries of one settled, bound turn of four events."""
    at = number * 1000
    return [
        TurnStart(at, f"Prompt {number}", TurnBinding(f"turn-{number}", binding), model="m", effort="high"),
        NewEvent("message.user", at + 1, {"text": f"Prompt {number}"}),
        NewEvent("message.assistant", at + 2, {"text": f"Answer {number}"}),
        TurnEnd(at + 3, "completed"),
    ]


def make_world(workspace: Workspace, user: User, folder: Path) -> World:
    """The world, its agent attested."""
    runner = runners.start(workspace, "here")
    agent = FakeProvider(folder)
    home = Home.objects.create(runner=runner, provider=PROVIDER, path=str(folder), queue=str(runner.pk))
    world = World(workspace, user, runner, home, agent, source=None)  # type: ignore[arg-type]
    world.attest()
    world.source = world.new_source()
    return world


def through(session: Session, ordinal: int) -> ForkPoint:
    """The point at a turn of the session."""
    view = history.turn_by_ordinal(session, ordinal)
    assert view is not None
    return parse_point({"type": "throughTurn", "turnId": str(view.id)})


def acts(operation: Operation) -> list[str]:
    """The audit of an operation, in order; its sequence has no gap."""
    rows = list(OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence"))
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1].sequence == Operation.objects.get(pk=operation.pk).version
    return [row.reason for row in rows]
