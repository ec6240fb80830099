"""The one write path of history.

Every function that changes a history begins with one guarded update of the session's row, inside its transaction, and
raises one of :mod:`sessions.errors` when it may not write. Lock order everywhere: session, log, operation.
"""

from __future__ import annotations

from sessions.fences import release_fence, set_fence
from sessions.store.appending import Appender, append
from sessions.store.bindings import bind_turn, fill_binding
from sessions.store.entries import Appended, Entry, NewEvent, TurnEnd, TurnStart, stored_form
from sessions.store.facts import (
    create,
    detach,
    open_claim,
    rename,
    restore,
    set_pinned,
    set_visibility,
    settle_claim,
    tombstone,
    update_facts,
)
from sessions.store.forking import fork, materialise
from sessions.store.freezing import freeze
from sessions.store.interactions import answer_interaction, ask_interaction, supersede_interaction
from sessions.store.purging import Foreseen, foresee, purge, sweep
from sessions.store.reserving import release_id, take_id
from sessions.store.rewinding import rewind
from sessions.store.snapshots import FrozenAttachment, FrozenInteraction, FrozenSegment, Snapshot

__all__ = [
    "Appended",
    "Appender",
    "Entry",
    "Foreseen",
    "FrozenAttachment",
    "FrozenInteraction",
    "FrozenSegment",
    "NewEvent",
    "Snapshot",
    "TurnEnd",
    "TurnStart",
    "answer_interaction",
    "append",
    "ask_interaction",
    "bind_turn",
    "create",
    "detach",
    "fill_binding",
    "foresee",
    "fork",
    "freeze",
    "materialise",
    "open_claim",
    "purge",
    "release_fence",
    "release_id",
    "rename",
    "restore",
    "rewind",
    "set_fence",
    "set_pinned",
    "set_visibility",
    "settle_claim",
    "stored_form",
    "supersede_interaction",
    "sweep",
    "take_id",
    "tombstone",
    "update_facts",
]
