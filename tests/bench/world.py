"""What the sections work on: one workspace and its user, sessions of a given length, forks through the whole saga."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection

from operations import dispatch, saga, worker
from operations.choices import OperationStatus
from operations.models import Operation
from operations.points import parse_point
from sessions import runners, store, workspaces
from sessions.api.hosted import HOSTED
from sessions.models import Home, Runner, Session, Workspace
from sessions.providers.base import TurnBinding
from sessions.store import Entry, NewEvent, TurnEnd, TurnStart
from tests.bench.noop_provider import PROVIDER
from tests.bench.transcripts import Words

RUNNER = "bench"
LATEST = parse_point({"type": "latestSettled"})
LEASE_SECONDS = 60.0
ENTRIES_AT_ONCE = 2_000
USAGE = {"inputTokens": 1_200, "outputTokens": 340, "cacheReadInputTokens": 56_000, "costUsd": 0.0123}


@dataclass(slots=True)
class World:
    """Where forks happen. The no-op provider's home lies on ``runner``."""

    workspace: Workspace
    user: User
    runner: Runner
    home: Home

    def hosted(self, turns: int, events: int, *, characters: int = 40) -> Session:
        """A hosted session with that many settled turns and events, their texts about that long."""
        session = store.create(workspace=self.workspace, provider=HOSTED, title="Fix login", created_by=self.user)
        return fill(session, turns, events, characters)

    def provided(self, turns: int, events: int, *, characters: int = 40) -> Session:
        """The same in the no-op provider's home, its turns bound."""
        session = store.create(
            workspace=self.workspace,
            provider=PROVIDER,
            home=self.home,
            provider_session_id=str(uuid.uuid4()),
            title="Fix login",
            created_by=self.user,
            cwd=self.home.path,
        )
        return fill(session, turns, events, characters)

    def prepare(self, source: Session) -> Operation:
        """A prepared fork at the last settled turn."""
        request = saga.PrepareRequest(
            workspace_id=self.workspace.pk,
            user=self.user,
            source_session_id=source.pk,
            request_id=str(uuid.uuid4()),
            target_session_id=uuid.uuid4(),
            point=LATEST,
            title=None,
        )
        return saga.prepare(request).operation

    def fork(self, source: Session) -> Operation:
        """A committed fork, made by this process alone. Raises RuntimeError when it is not committed."""
        operation = self.prepare(source)
        lease = worker.claim_next(self.runner, "worker:bench", LEASE_SECONDS)
        if lease is not None:
            dispatch.work(lease, actor="worker:bench", lease_seconds=LEASE_SECONDS)
        operation.refresh_from_db()
        if operation.status != OperationStatus.COMMITTED:
            raise RuntimeError(f"a fork ended as {operation.status}: {operation.error_text}")
        return operation


def make_world() -> World:
    """The world of an empty database."""
    workspace = workspaces.default_workspace()
    user = User.objects.create_user("bench")
    workspaces.join(user, workspace)
    runner = runners.start(workspace, RUNNER)
    folder = Path(os.environ["FORKHOST_BENCH"]) / "noop-home"
    folder.mkdir(exist_ok=True)
    home = Home.objects.create(runner=runner, provider=PROVIDER, path=str(folder), queue=str(runner.pk))
    runners.attest(home)
    home.refresh_from_db()
    return World(workspace, user, runner, home)


def fill(session: Session, turns: int, events: int, characters: int) -> Session:
    """Append settled turns: a start, an end, and as many records between them as make up ``events``."""
    words = Words()
    per_turn, rest = divmod(events, turns)
    if per_turn < 2:
        raise ValueError("a settled turn has two events at least")
    entries: list[Entry] = []
    for number in range(1, turns + 1):
        entries += _turn(number, per_turn + (1 if number <= rest else 0) - 2, words, characters)
        if len(entries) >= ENTRIES_AT_ONCE:
            store.append(session.pk, entries)
            entries = []
    store.append(session.pk, entries)
    session.refresh_from_db()
    return session


def _turn(number: int, records: int, words: Words, characters: int) -> list[Entry]:
    at = 1_785_326_400_000 + number * 60_000
    kinds = ("message.user", "reasoning", "tool.call", "tool.result", "message.assistant")
    entries: list[Entry] = [TurnStart(at, words.text(80), TurnBinding(f"turn-{number}"), model="m", effort="high")]
    for place in range(records):
        kind = kinds[min(place, 1)] if place < 2 else kinds[2 + (place - 2) % 2] if place < records - 1 else kinds[-1]
        entries.append(NewEvent(kind, at + place, _payload(kind, f"call-{number}-{place // 2}", words, characters)))
    return [*entries, TurnEnd(at + records, "completed", usage=dict(USAGE))]


def _payload(kind: str, call_id: str, words: Words, characters: int) -> dict[str, Any]:
    if kind == "tool.call":
        return {"callId": call_id, "name": "Bash", "input": {"command": words.text(60)}}
    if kind == "tool.result":
        return {"callId": call_id, "output": words.text(2 * characters), "isError": False}
    return {"text": f"## Step\n\nSee `{words.text(20)}`:\n\n```python\n{words.text(characters)}\n```\n"}


def count_rows() -> dict[str, int]:
    """How many rows each table of ours holds."""
    models = [model for label in ("agent_sessions", "operations") for model in apps.get_app_config(label).get_models()]
    return {model._meta.db_table: model._base_manager.count() for model in models}


def rows_between(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """How many rows each table gained, tables that gained none left out."""
    return {table: count - before[table] for table, count in after.items() if count != before[table]}


def database_bytes() -> int:
    """The size of the database on disk, everything settled into its own files."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.fetchall()
            cursor.execute(
                "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            )
        else:
            cursor.execute(
                "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
            )
        return int(cursor.fetchone()[0])
