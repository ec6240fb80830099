"""How an operation is said to people: its word, its colour, its steps, and what comes next.

The words are the product's promise: *Forked* only after committed, *nothing was created* only where that is proven, and an
unknown outcome is never called an error.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass

from operations.choices import ErrorCode, OperationStatus
from operations.models import Operation
from sessions import runners
from sessions.models import Runner


class Tone(enum.StrEnum):
    """The colour of a state; the word always stands beside it."""

    PENDING = "pending"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class State:
    """A state as people see it."""

    word: str
    icon: str
    tone: Tone


STATES: dict[OperationStatus, State] = {
    OperationStatus.PREPARED: State("Forking…", "wait", Tone.PENDING),
    OperationStatus.DISPATCHING: State("Forking…", "wait", Tone.PENDING),
    OperationStatus.PROVIDER_ACCEPTED: State("Forking…", "wait", Tone.PENDING),
    OperationStatus.COMMITTED: State("Forked", "check", Tone.COMMITTED),
    OperationStatus.FAILED: State("Fork failed", "cross", Tone.FAILED),
    OperationStatus.UNKNOWN: State("Outcome unknown", "unknown", Tone.UNKNOWN),
}


def state_of(operation: Operation) -> State:
    """The word, icon and tone of an operation."""
    return STATES[OperationStatus(operation.status)]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the operation's history. ``at`` is None for what has not happened (yet)."""

    title: str
    detail: str
    icon: str
    tone: Tone | None
    at: dt.datetime | None
    ahead: bool = False


def steps(operation: Operation) -> list[Step]:
    """The states with their times, in order; what is still ahead is last and says so."""
    status = OperationStatus(operation.status)
    lines = [
        Step(
            "Asked for",
            "The source’s history was frozen up to the chosen turn.",
            "check",
            Tone.COMMITTED,
            operation.prepared_at,
        )
    ]
    if operation.dispatched_at is not None:
        lines.append(
            Step("Sent to the agent", "Once; it is never sent again.", "check", Tone.COMMITTED, operation.dispatched_at)
        )
    if operation.accepted_at is not None:
        lines.append(
            Step(
                "Made by the agent",
                "The new session was found and verified.",
                "check",
                Tone.COMMITTED,
                operation.accepted_at,
            )
        )
    lines += _outcome(operation, status)
    if operation.observed_at is not None:
        lines.append(Step("Opened", "Somebody took in the result.", "person", None, operation.observed_at))
    return lines


def _outcome(operation: Operation, status: OperationStatus) -> list[Step]:
    if status == OperationStatus.COMMITTED:
        return [Step("Forked", "The fork is a session of its own.", "check", Tone.COMMITTED, operation.completed_at)]
    if status == OperationStatus.FAILED:
        return [
            Step("Fork failed", _sentence(nothing_created(operation)), "cross", Tone.FAILED, operation.completed_at)
        ]
    if status == OperationStatus.UNKNOWN:
        return [
            Step(
                "Outcome unknown",
                "The answer did not arrive, or could not be trusted.",
                "unknown",
                Tone.UNKNOWN,
                operation.unknown_since,
            )
        ]
    ahead = {
        OperationStatus.PREPARED: ("Sent to the agent", "Made by the agent", "Forked"),
        OperationStatus.DISPATCHING: ("Made by the agent", "Forked"),
        OperationStatus.PROVIDER_ACCEPTED: ("Forked",),
    }[status]
    return [Step(title, "", "dot", None, None, ahead=True) for title in ahead]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def nothing_created(operation: Operation) -> str:
    """Why it is certain that a failed fork left nothing behind."""
    if operation.needs_person:
        return "evidence found later contradicts that nothing was created; an operator has to look"
    if operation.calls == 0:
        return "nothing was sent, so nothing was created"
    if operation.error_code == ErrorCode.CONFIRMED_NOT_CREATED:
        return "an operator confirmed that nothing was created"
    if operation.error_code == ErrorCode.PROVEN_NOT_CREATED:
        return "it was proven that nothing was created"
    if operation.error_code == ErrorCode.TORN_CHILD_REMOVED:
        return "what the agent left behind was broken off, and an operator had it removed"
    return "it is certain that nothing was created"


def runner_away(operation: Operation) -> Runner | None:
    """The runner that should do the work and whose worker has not been seen lately; None while all is well."""
    if operation.next_run_at is None or operation.runner_id is None:
        return None
    runner = Runner.objects.filter(pk=operation.runner_id).first()
    return runner if runner is not None and not runners.is_alive(runner) else None


def poll_seconds(operation: Operation, now: dt.datetime) -> int | None:
    """How soon a page asks again: 1, 2, 5, 15 s as the operation grows older, 30 s while unknown; None when final."""
    status = OperationStatus(operation.status)
    if status in (OperationStatus.COMMITTED, OperationStatus.FAILED):
        return None
    if status == OperationStatus.UNKNOWN:
        return 30
    age = (now - operation.prepared_at).total_seconds()
    for seconds, until in ((1, 10), (2, 60), (5, 600)):
        if age < until:
            return seconds
    return 15
