"""Forks on pages that know nothing of operations: counts in the header, controls and marks at the turns of a session."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django import template
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Q
from django.http import HttpRequest

from operations.choices import OPEN_STATUSES, OperationStatus
from operations.console.rights import may_settle
from operations.models import Operation, OperationAudit
from operations.pages.opening import acknowledging_url, opening_url
from operations.pages.presentation import State, state_of
from operations.receipts import settlement_words
from sessions.capabilities import Capability, Reason, TurnCapability, turn_capability
from sessions.history import TurnView
from sessions.models import Session
from sessions.pages.timeline import Page

register = template.Library()

MARKS_PER_TURN = 20
LARGE = ("snapshot", "result_session", "binding", "target_mapping", "receipt")


@dataclass(frozen=True, slots=True)
class Mark:
    """A fork at a turn of its source. ``child`` is set once it is committed and there for this reader."""

    operation: Operation
    state: State
    child: Session | None

    @property
    def title(self) -> str:
        """What the fork is called."""
        return str(self.child) if self.child is not None else self.operation.title

    @property
    def open(self) -> bool:
        """Whether it is on its way."""
        return self.operation.status in OPEN_STATUSES

    @property
    def gone(self) -> bool:
        """Whether the fork was made and its session is not there for this reader any more."""
        return self.operation.status == OperationStatus.COMMITTED and self.child is None


@dataclass(slots=True)
class Forks:
    """The forks of one session, by the ordinal of the turn they were cut at, for the turns of one page."""

    session: Session
    capability: Capability
    by_turn: dict[int, list[Mark]] = field(default_factory=dict)

    def at(self, ordinal: int) -> list[Mark]:
        """Those cut at this turn, newest first."""
        return self.by_turn.get(ordinal, [])


@register.simple_tag(takes_context=True)
def nav_counts(context: dict[str, Any]) -> dict[str, int]:
    """How many operations the reader has open and unknown."""
    user = _user(context)
    unfinished = Operation.objects.visible_to(user).filter(completed_at__isnull=True)
    found = dict(unfinished.order_by().values_list("status").annotate(count=Count("pk")))
    unknown = found.pop(OperationStatus.UNKNOWN.value, 0)
    return {"open": sum(found.values()), "unknown": unknown}


@register.simple_tag(takes_context=True)
def may_decide(context: dict[str, Any], operation: Operation) -> bool:
    """Whether the reader may decide about this fork in the admin."""
    user = _user(context)
    return bool(getattr(user, "is_staff", False)) and may_settle(user, operation)


@register.simple_tag(takes_context=True)
def console_counts(context: dict[str, Any]) -> dict[str, int]:
    """How many forks the reader sees in the admin's queue, and how many of them need a person."""
    queue = Operation.objects.visible_to(_user(context)).queue()
    counts: dict[str, int] = queue.aggregate(all=Count("pk"), person=Count("pk", filter=Q(needs_person=True)))
    return counts


@register.simple_tag(takes_context=True)
def forks_of(context: dict[str, Any], session: Session, page: Page, capability: Capability) -> Forks:
    """The forks at the turns of a page; two queries however many there are."""
    forks = Forks(session, capability)
    if page.rows:
        user = _user(context)
        first, last = page.rows[0].turn.ordinal, page.rows[-1].turn.ordinal
        operations = (
            Operation.objects.visible_to(user)
            .filter(source_session_id=session.pk, resolved_ordinal__gte=first, resolved_ordinal__lte=last)
            .order_by("-prepared_at", "-id")
            .defer(*LARGE)
        )
        forks.by_turn = _by_turn(list(operations), user)
    return forks


def _by_turn(operations: list[Operation], user: User | AnonymousUser) -> dict[int, list[Mark]]:
    children = children_of(operations, user)
    by_turn: dict[int, list[Mark]] = defaultdict(list)
    for operation in operations:
        if operation.resolved_ordinal is not None and len(by_turn[operation.resolved_ordinal]) < MARKS_PER_TURN:
            mark = Mark(operation, state_of(operation), children.get(operation.target_session_id))
            by_turn[operation.resolved_ordinal].append(mark)
    return dict(by_turn)


def children_of(operations: list[Operation], user: User | AnonymousUser) -> dict[uuid.UUID, Session]:
    """The living child sessions of committed operations, by id; those the reader may see."""
    ids = [operation.target_session_id for operation in operations if operation.status == OperationStatus.COMMITTED]
    return Session.objects.visible_to(user).living().in_bulk(ids) if ids else {}


@register.inclusion_tag("operations/turn_tail.html", takes_context=True)
def turn_tail(context: dict[str, Any], turn: TurnView) -> dict[str, Any]:
    """The end of a turn: its outcome, its fork control, and the forks made here."""
    forks: Forks = context["forks"]
    marks = forks.at(turn.ordinal)
    able = _control(forks, turn)
    return {
        "agent_session": forks.session,
        "turn": turn,
        "marks": marks,
        "shown": forks.capability.fork_through_turn,
        "able": able,
        "busy": next((mark for mark in marks if mark.open), None),
        "unsettled": next((mark for mark in marks if mark.operation.status == OperationStatus.UNKNOWN), None),
    }


def _control(forks: Forks, turn: TurnView) -> TurnCapability:
    if not forks.capability.fork_through_turn:
        return TurnCapability(False, forks.capability.reason, forks.capability.sentence)
    able = turn_capability(forks.session, turn, forks.capability)
    if able.reason == Reason.TURN_NOT_SETTLED:
        return TurnCapability(False, able.reason, "This turn is still running; it can be forked once it is settled.")
    return able


@register.simple_tag
def settlement_of(operation: Operation) -> str:
    """Who or what ended the uncertainty about a fork, and why, as a sentence; "" when there was none."""
    if operation.calls == 0 or operation.status == OperationStatus.UNKNOWN:
        return ""
    acts = OperationAudit.objects.filter(operation_id=operation.pk, from_status=OperationStatus.UNKNOWN)
    return settlement_words(list(acts))


@register.simple_tag
def looked_after_by(operation: Operation) -> User | None:
    """The operator who looks after an unknown fork."""
    return User.objects.filter(pk=operation.assigned_to_id).first() if operation.assigned_to_id else None


@register.filter
def opening(operation: Operation) -> str:
    """Where the browser goes to open a committed fork; the page there acknowledges it once it is shown."""
    return opening_url(operation)


@register.simple_tag(takes_context=True)
def acknowledgement_of(context: dict[str, Any], session: Session) -> str:
    """Where the session's page acknowledges the fork that has led to it; "" when nothing is to be acknowledged."""
    request: HttpRequest | None = context.get("request")
    return acknowledging_url(request, session.pk) if request is not None else ""


@register.filter
def fork_state(operation: Operation) -> State:
    """The word, icon and tone of an operation."""
    return state_of(operation)


def _user(context: dict[str, Any]) -> User | AnonymousUser:
    request: HttpRequest | None = context.get("request")
    return request.user if request is not None and hasattr(request, "user") else AnonymousUser()
