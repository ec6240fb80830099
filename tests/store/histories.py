"""Short ways to write histories in tests."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection

from sessions import history, store
from sessions.models import Event, EventLog, Home, Interaction, Lineage, Runner, Segment, Session, Turn, Workspace
from sessions.providers.base import TurnBinding


def hosted(workspace: Workspace, title: str = "Fix login", **facts: Any) -> Session:
    """An empty session that no provider holds: the store is strict with it."""
    return store.create(workspace=workspace, provider="hosted", title=title, **facts)


def imported(workspace: Workspace, **facts: Any) -> Session:
    """An empty session that lives in a provider's home: the store is lenient with it."""
    runner, _ = Runner.objects.get_or_create(workspace=workspace, name="machine")
    home, _ = Home.objects.get_or_create(runner=runner, provider="codex", path="/home/dev/.codex")
    facts.setdefault("provider_session_id", uuid.uuid4().hex)
    return store.create(workspace=workspace, provider="codex", home=home, **facts)


def turn(number: int, *, outcome: str = "completed", extra: int = 0, **facts: Any) -> list[store.Entry]:
    """A settled turn of four events and ``extra`` more, bound to ``t<number>``."""
    return [*open_turn(number, extra=extra, **facts), store.TurnEnd(number * 1000 + 900, outcome)]


def open_turn(number: int, *, extra: int = 0, **facts: Any) -> list[store.Entry]:
    """The same turn without its end."""
    at = number * 1000
    facts.setdefault("binding", TurnBinding(f"t{number}", {"row": number}))
    more = [store.NewEvent("tool.result", at + 3, {"callId": f"c{n}", "output": "ok"}) for n in range(extra)]
    return [
        store.TurnStart(at, f"prompt {number}", **facts),
        store.NewEvent("message.user", at + 1, {"text": f"prompt {number}"}),
        *more,
        store.NewEvent("message.assistant", at + 5, {"text": f"answer {number}"}),
    ]


def fresh(session: Session) -> Session:
    """The session as it is now."""
    return Session.objects.select_related("log").get(pk=session.pk)


def shown(session: Session) -> list[tuple[Any, ...]]:
    """Everything a session shows, down to the stored bytes."""
    now = fresh(session)
    events = history.events(now, limit=10_000)
    digests = history.event_digests(now, 1, now.last_seq)
    assert [event.seq for event in events] == list(range(1, now.last_seq + 1))
    assert len(digests) == len(events)
    rows: list[tuple[Any, ...]] = [
        (event, Event.objects.get(log_id=event.log_id, seq=event.seq).payload, digest)
        for event, digest in zip(events, digests, strict=True)
    ]
    return [*rows, *((view,) for view in history.turns(now, limit=10_000)), *((v,) for v in history.interactions(now))]


def texts(session: Session) -> list[str]:
    """The texts of the session's messages."""
    events = history.events(fresh(session), limit=10_000)
    return [event.payload["text"] for event in events if event.kind.startswith("message.")]


def row_counts() -> dict[str, int]:
    """How many rows each table of a history has."""
    tables = (Event, EventLog, Interaction, Lineage, Segment, Session, Turn)
    return {model.__name__: model._default_manager.count() for model in tables}


def execute(sql: str, *values: Any) -> int:
    """Run SQL past the store; the number of rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)
