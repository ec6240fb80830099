"""What came of the one provider call, in the three forms the saga knows, and as evidence keeps them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from operations import handover
from operations.choices import ErrorCode
from sessions.providers.base import ForkAccepted, Json, NotStarted, ProviderError, Rejected


class Disposition(enum.StrEnum):
    """The seed's four words; ``not_started`` and ``rejected`` both end as failed."""

    NOT_STARTED = "not_started"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Made:
    """The child exists, is mapped and verified."""

    accepted: ForkAccepted


@dataclass(frozen=True, slots=True)
class NotMade:
    """Proven: nothing was sent, or the provider said no and made nothing."""

    disposition: Disposition
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """Neither a child nor its absence is proven. ``child_id`` was seen, and is not adopted for that."""

    code: str
    text: str
    child_id: str = ""


Outcome: TypeAlias = Made | NotMade | Doubt


def of_error(error: Exception) -> NotMade | Doubt:
    """What an exception out of an adapter's ``fork`` says: anything that is not a proven no leaves doubt."""
    if isinstance(error, NotStarted):
        return NotMade(Disposition.NOT_STARTED, error.code, error.message)
    if isinstance(error, Rejected):
        return NotMade(Disposition.REJECTED, error.code, error.message)
    if isinstance(error, ProviderError):
        return Doubt(error.code, error.message, error.child_provider_session_id)
    return Doubt(ErrorCode.ADAPTER_FAILED, f"The adapter failed during the call ({type(error).__name__}): {error}")


def to_json(outcome: Outcome) -> Json:
    """As evidence keeps it."""
    if isinstance(outcome, Made):
        return {"disposition": Disposition.ACCEPTED.value, "accepted": handover.accepted_to_json(outcome.accepted)}
    if isinstance(outcome, NotMade):
        return {"disposition": outcome.disposition.value, "code": outcome.code, "text": outcome.text}
    return {
        "disposition": Disposition.UNKNOWN.value,
        "code": outcome.code,
        "text": outcome.text,
        "child": outcome.child_id,
    }


def from_json(stored: Json) -> Outcome:
    """The inverse of :func:`to_json`."""
    disposition = Disposition(stored["disposition"])
    if disposition is Disposition.ACCEPTED:
        return Made(handover.accepted_from_json(stored["accepted"]))
    if disposition is Disposition.UNKNOWN:
        return Doubt(stored["code"], stored["text"], stored["child"])
    return NotMade(disposition, stored["code"], stored["text"])
