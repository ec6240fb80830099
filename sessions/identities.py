"""Ids that follow from others, so that the same operation always leads to the same ids."""

from __future__ import annotations

import uuid

_SPACE = uuid.UUID("6d0c1c5e-52c5-5f0c-8f4e-3a6a3a5f6b21")


def turn_origin_id(log_id: int, ordinal: int, session_id: uuid.UUID) -> uuid.UUID:
    """The id of a turn in the session that wrote it."""
    return uuid.uuid5(session_id, f"turn:{log_id}:{ordinal}")


def interaction_origin_id(log_id: int, key: str, session_id: uuid.UUID) -> uuid.UUID:
    """The id of an interaction in the session that wrote it."""
    return uuid.uuid5(session_id, f"interaction:{log_id}:{key}".encode("utf-8", "surrogatepass").hex())


def inherited_turn_id(operation_id: uuid.UUID, origin_id: uuid.UUID) -> uuid.UUID:
    """The id of a turn in a session that inherited it through ``operation_id``."""
    return uuid.uuid5(operation_id, origin_id.hex)


def inherited_interaction_id(operation_id: uuid.UUID, origin_id: uuid.UUID) -> uuid.UUID:
    """The id of an interaction in a session that inherited it through ``operation_id``."""
    return uuid.uuid5(operation_id, f"interaction:{origin_id.hex}")


def message_id(session_id: uuid.UUID, log_id: int, seq: int) -> uuid.UUID:
    """The id of a message as one session shows it."""
    return uuid.uuid5(session_id, f"message:{log_id}:{seq}")


def direct_fork_id(child_session_id: uuid.UUID) -> uuid.UUID:
    """Stands for the operation of a fork that the store made by itself, without a provider."""
    return uuid.uuid5(_SPACE, child_session_id.hex)
