"""What the session store refuses, as types. ``code`` is stable and part of the API; the message is a sentence."""

from __future__ import annotations

from typing import ClassVar


class StoreError(Exception):
    """Base of every refusal. Nothing was written."""

    code: ClassVar[str] = "store_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SessionNotFound(StoreError):
    """No session has this id (any more)."""

    code = "session_not_found"


class StaleSession(StoreError):
    """The history moved since the caller looked: another last seq, or another revision after a rewind."""

    code = "stale_session"


class SessionAlreadyExists(StoreError):
    """The id is taken, or was taken by a session that has been purged."""

    code = "session_already_exists"


class InvalidForkBoundary(StoreError):
    """The boundary names no event of the session."""

    code = "invalid_fork_boundary"


class ForkInsideTurn(StoreError):
    """The boundary lies inside a turn; ``turn_ordinal`` names it."""

    code = "fork_inside_turn"

    def __init__(self, message: str, turn_ordinal: int) -> None:
        super().__init__(message)
        self.turn_ordinal = turn_ordinal


class SessionFenced(StoreError):
    """A fork under the strict contract needs the session unchanged."""

    code = "session_fenced"


class SessionGone(StoreError):
    """The session is tombstoned, so its history takes no more writes."""

    code = "session_tombstoned"


class SessionHeld(StoreError):
    """A fork under way needs the session, so it cannot be purged yet."""

    code = "session_held"


class HistoryGone(StoreError):
    """The frozen history is not there any more, or is not what was frozen."""

    code = "history_gone"


class TurnConflict(StoreError):
    """The entry does not fit the state of the turns: an end without an open turn, a turn that does not exist."""

    code = "turn_conflict"


class BindingConflict(StoreError):
    """The binding cannot move like this, or its provider turn id belongs to another turn of the session."""

    code = "binding_conflict"


class AttachmentMissing(StoreError):
    """A file that the history points to is not stored."""

    code = "attachment_missing"


class UnknownReference(StoreError):
    """A typed reference in a payload names nothing in this history, names it twice, or has an unknown type."""

    code = "unknown_reference"


class PayloadRefused(StoreError):
    """The payload cannot be written as JSON: not an object, NaN or infinity, nested too deeply."""

    code = "payload_refused"


class InteractionConflict(StoreError):
    """The interaction is not pending in this session."""

    code = "interaction_conflict"
