"""One act of the saga in a process of its own, so that a test can let it be killed.

    python -m tests.agents.one_process prepare|work|acknowledge|serve '{"workspace": ..., ...}'

``serve`` runs the worker's loop until the file named by ``until`` exists.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any

import django


class UntilFile:
    """A stop flag that a test sets by making a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    @property
    def requested(self) -> bool:
        """Whether the file is there."""
        return self._path.exists()


def main(action: str, facts: dict[str, Any]) -> None:
    """Carry out one act."""
    from django.contrib.auth.models import User

    from forkhost.kit import alarms
    from operations import dispatch, saga, worker
    from operations.points import parse_point
    from sessions.models import Runner
    from sessions.providers import registry
    from tests.agents.fake_provider import PROVIDER, FakeAdapter

    found = registry.Registry(MappingProxyType({PROVIDER: FakeAdapter()}))
    registry.registry = lambda: found  # type: ignore[assignment]
    runner = Runner.objects.get(pk=facts["runner"])
    if action == "prepare":
        saga.prepare(
            saga.PrepareRequest(
                workspace_id=runner.workspace_id,
                user=User.objects.get(pk=facts["user"]),
                source_session_id=facts["source"],
                request_id=facts["request"],
                target_session_id=facts["target"],
                point=parse_point({"type": "latestSettled"}),
            )
        )
    elif action == "work":
        lease = worker.claim_next(runner, "worker:doomed", facts["lease"])
        assert lease is not None
        dispatch.work(lease, actor="worker:doomed", lease_seconds=facts["lease"])
    elif action == "acknowledge":
        saga.acknowledge(facts["operation"], "user:member")
    else:
        pace = worker.Pace(lease_seconds=facts["lease"], poll_seconds=0.2, sweep_seconds=0.2, parallel=2)
        worker.run(runner, UntilFile(facts["until"]), pace=pace)
    assert {thread.name for thread in threading.enumerate()} <= {threading.main_thread().name, alarms.THREAD}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    main(sys.argv[1], json.loads(sys.argv[2]))
