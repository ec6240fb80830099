"""The one write path of operations: prepare, the guarded transitions, and what an operator decides.

Nothing else writes an operation, its audit or its request ids. Callers import from here.
"""

from __future__ import annotations

from operations.requests import Prepared, PrepareRequest, Refused
from operations.saga.moves import WAKE_UP, IllegalMove, Lost
from operations.saga.preparing import acknowledge, prepare
from operations.saga.settling import (
    add_note,
    adopt,
    ask_removal,
    assign,
    confirm_not_created,
    conflict,
    keep_unknown,
    look_again,
    mark_seen,
    release,
    torn_children,
    verified_children,
)
from operations.saga.transitions import ChildTaken

__all__ = [
    "WAKE_UP",
    "ChildTaken",
    "IllegalMove",
    "Lost",
    "PrepareRequest",
    "Prepared",
    "Refused",
    "acknowledge",
    "add_note",
    "adopt",
    "ask_removal",
    "assign",
    "confirm_not_created",
    "conflict",
    "keep_unknown",
    "look_again",
    "mark_seen",
    "prepare",
    "release",
    "torn_children",
    "verified_children",
]
