"""Finds the turn in which a sub-agent's lane was started, by the tool call that started it."""

from __future__ import annotations

import uuid

from django.db.models import F

from sessions import history
from sessions.choices import EventKind
from sessions.models import Event, Session


def place(session_id: uuid.UUID, *, after_seq: int = 0) -> int:
    """Tie the lanes of a session that have no turn yet to the turn whose tool call started them; how many.

    Looks at the session's own events after ``after_seq``. A lane whose call is not there stays with its session alone.
    """
    lanes = Session.objects.filter(parent_session_id=session_id, parent_turn_id=None, parent_tool_call_id__isnull=False)
    waiting = {str(call_id): lane_id for lane_id, call_id in lanes.values_list("pk", "parent_tool_call_id")}
    parent = Session.objects.filter(pk=session_id).first() if waiting else None
    if parent is None:
        return 0
    calls = Event.objects.filter(
        log_id=parent.log_id, seq__range=(after_seq + 1, parent.last_seq), kind=EventKind.TOOL_CALL
    )
    placed = 0
    for text, ordinal in calls.values_list("payload", "turn_no"):
        call_id = next((call_id for call_id in waiting if f'"{call_id}"' in text), None)
        if call_id is None or ordinal is None:
            continue
        turn = history.turn_by_ordinal(parent, ordinal)
        if turn is not None:
            lane = Session.objects.filter(pk=waiting.pop(call_id), parent_turn_id=None)
            placed += lane.update(parent_turn_id=turn.id, version=F("version") + 1)
    return placed
