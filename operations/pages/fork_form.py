"""The page that asks for a fork: which turn it cuts at, what stands in the way, and the two ids that make it one fork."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils.crypto import salted_hmac

from operations import destinations
from operations.choices import OPEN_STATUSES, OperationStatus, PointType
from operations.models import Operation
from operations.points import ForkPoint, InvalidPoint, PointRefused, ResolvedPoint, parse_point, resolve
from operations.requests import TITLE_LIMIT, Refused
from operations.templatetags.forks import LARGE
from sessions import history
from sessions.capabilities import session_capability, turn_capability
from sessions.choices import ForkContract
from sessions.models import Session
from sessions.payloads import clip

SALT = "operations.pages.fork_form"
PROMPTS_SHOWN = 3
PROMPT_LENGTH = 300


class ForkForm(forms.Form):
    """What the page sends back. Ids come from the server; the title alone is the reader's."""

    title = forms.CharField(required=False, max_length=TITLE_LIMIT)
    request_id = forms.UUIDField()
    target_session_id = forms.UUIDField()
    resolved_seq = forms.IntegerField(min_value=0)


@dataclass(slots=True)
class Plan:
    """What a fork at this point would be. ``refusal`` says why there can be none now.

    ``busy`` is on its way from the same point, ``unsettled`` are those nobody has taken in or nobody knows the end of.
    """

    point: ForkPoint
    resolved: ResolvedPoint | None
    refusal: str
    busy: Operation | None
    unsettled: list[Operation]
    unknown: bool
    turns_left_out: int
    prompts: list[tuple[int, str]]
    request_id: uuid.UUID
    target_session_id: uuid.UUID

    @property
    def ordinal(self) -> int | None:
        """The turn the fork ends with."""
        return self.resolved.turn.ordinal if self.resolved is not None and self.resolved.turn is not None else None


def point_of(query: QueryDict) -> ForkPoint:
    """The point an address asks for: ``?turn=<id>``, ``?at=<seq>``, ``?through=<seq>``, else the last settled turn.

    Raises :class:`InvalidPoint`.
    """
    if sum(bool(query.get(name)) for name in ("turn", "at", "through")) > 1:
        raise InvalidPoint("", "invalid", "The address names more than one place to fork at.")
    value: dict[str, Any] = {"type": PointType.LATEST_SETTLED.value}
    if query.get("turn"):
        value = {"type": PointType.THROUGH_TURN.value, "turnId": query["turn"]}
    for name, kind in (("at", PointType.AT_SEQ), ("through", PointType.THROUGH_SEQ)):
        if query.get(name):
            text = str(query[name])
            if not (text.isascii() and text.isdigit()):
                raise InvalidPoint("/seq", "invalid", "The place to fork at has to be a whole number.")
            value = {"type": kind.value, "seq": int(text[:20])}
    return parse_point(value)


def plan(source: Session, point: ForkPoint, user: User) -> Plan:
    """What a fork of ``source`` at ``point`` would be now."""
    resolved, refusal = _resolved(source, point)
    earlier = _at_same_point(source, resolved, user) if resolved is not None else []
    busy = next((operation for operation in earlier if operation.status in OPEN_STATUSES), None)
    unsettled = [operation for operation in earlier if _is_unsettled(operation)]
    ordinal = resolved.turn.ordinal if resolved is not None and resolved.turn is not None else 0
    return Plan(
        point,
        resolved,
        refusal,
        busy if source.workspace.fork_contract == ForkContract.OPTIMISTIC else None,
        unsettled,
        any(operation.status == OperationStatus.UNKNOWN for operation in unsettled),
        source.turn_count - ordinal if ordinal else 0,
        _prompts(source, ordinal),
        _derived_id("request", source, resolved, user, len(earlier)),
        _derived_id("target", source, resolved, user, len(earlier)),
    )


def _resolved(source: Session, point: ForkPoint) -> tuple[ResolvedPoint | None, str]:
    capability = session_capability(source)
    refusal = capability.sentence if not capability.fork else ""
    if not source.workspace.forks_enabled:
        refusal = "New forks are switched off in this workspace."
    try:
        resolved = resolve(source, point)
    except PointRefused as refused:
        return None, refusal or refused.sentence
    if resolved.turn is not None and not refusal:
        able = turn_capability(source, resolved.turn, capability)
        if not able.forkable:
            return resolved, able.sentence
    return resolved, refusal or _no_destination(source)


def _no_destination(source: Session) -> str:
    try:
        destinations.destination(source)
    except Refused as refused:
        return refused.sentence
    return ""


def _at_same_point(source: Session, resolved: ResolvedPoint, user: User) -> list[Operation]:
    found = Operation.objects.visible_to(user).filter(source_session_id=source.pk, resolved_seq=resolved.seq)
    return list(found.order_by("-prepared_at", "-id").defer(*LARGE))


def _is_unsettled(operation: Operation) -> bool:
    if operation.status == OperationStatus.UNKNOWN:
        return True
    return operation.status == OperationStatus.COMMITTED and operation.observed_at is None


def _prompts(source: Session, ordinal: int) -> list[tuple[int, str]]:
    """The last prompts that will be in the fork, the boundary's own last."""
    if ordinal < 1:
        return []
    first = max(1, ordinal - PROMPTS_SHOWN + 1)
    turns = history.turns(source, first=first, limit=ordinal - first + 1)
    return [(turn.ordinal, clip(turn.prompt, PROMPT_LENGTH)) for turn in turns]


def _derived_id(what: str, source: Session, resolved: ResolvedPoint | None, user: User, earlier: int) -> uuid.UUID:
    """The same ids on every look at the page until a fork from this point exists.

    Two tabs, a reload or a second click therefore ask for the same fork, and get the same operation; the next look at
    the page, after that fork, asks for another one.
    """
    seq = resolved.seq if resolved is not None else 0
    facts = f"{what}:{user.pk}:{source.pk}:{source.history_revision}:{seq}:{earlier}"
    return uuid.UUID(bytes=salted_hmac(SALT, facts, algorithm="sha256").digest()[:16], version=4)
