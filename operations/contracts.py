"""The two fork contracts. Everything in which they differ is here, and nowhere else.

An operation carries the contract it was prepared under; switching a workspace affects later operations only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import ClassVar, Protocol

from django.db.models import Q

from forkhost.kit import clock
from operations.choices import OPEN_STATUSES, ErrorCode, OperationStatus
from operations.models import Operation
from operations.points import ResolvedPoint
from operations.requests import Refused
from sessions import capabilities, history, store
from sessions.choices import ForkContract, InteractionState, SessionKind
from sessions.models import Lineage, Session, WorkClaim
from sessions.providers.base import ForkAccepted, ForkRequest
from sessions.store import Snapshot

# How long a fork under the strict contract may hold its source while nobody sends it.
STRICT_DISPATCH_SECONDS = 15 * 60.0


Incarnation = Callable[[], uuid.UUID | None]


class Policy(Protocol):
    """One contract. Every method that writes is called inside the transaction of the transition it belongs to."""

    contract: ClassVar[ForkContract]
    require_prefix: ClassVar[bool]
    """Whether the provider has to prove the whole ordered prefix, not the chosen turn alone."""
    binds_before_acceptance: ClassVar[bool]
    """Whether the child is made readable in its home before it counts as accepted."""
    dispatch_seconds: ClassVar[float | None]
    """How long a prepared operation may wait to be sent; None: for ever."""

    def barrier(self, source: Session, resolved: ResolvedPoint) -> Operation | None:
        """The operation that answers every further request for the same source and point."""

    def check_source(self, source: Session, resolved: ResolvedPoint) -> None:
        """Raise :class:`Refused` when the source is not as the contract wants it. The source's row is locked."""

    def check_snapshot(self, snapshot: Snapshot) -> None:
        """Raise :class:`Refused` when what was frozen holds something the contract does not carry over."""

    def hold_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        """Forbid changes of the source where the contract wants that. Raises :class:`Refused`."""

    def release_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        """Allow changes again: the operation is committed, failed or unknown."""

    def unproven(self, request: ForkRequest, accepted: ForkAccepted) -> str:
        """What an adapter's acceptance leaves open, as a sentence; "" when it proves all that the contract wants."""

    def lapse(self, operation: Operation, incarnation: Incarnation) -> tuple[ErrorCode, str] | None:
        """Why a prepared operation must not be sent any more; ``incarnation`` tells its runner's now, where asked."""


class Optimistic:
    """The source stays writable; the chosen turn alone is proven; the same point again is a new fork."""

    contract: ClassVar[ForkContract] = ForkContract.OPTIMISTIC
    require_prefix: ClassVar[bool] = False
    binds_before_acceptance: ClassVar[bool] = False
    dispatch_seconds: ClassVar[float | None] = None

    def barrier(self, source: Session, resolved: ResolvedPoint) -> Operation | None:
        return None

    def check_source(self, source: Session, resolved: ResolvedPoint) -> None:
        return None

    def check_snapshot(self, snapshot: Snapshot) -> None:
        return None

    def hold_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        return None

    def release_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        return None

    def unproven(self, request: ForkRequest, accepted: ForkAccepted) -> str:
        return _chosen_turn_unproven(request, accepted)

    def lapse(self, operation: Operation, incarnation: Incarnation) -> tuple[ErrorCode, str] | None:
        return None


class Strict:
    """The source is quiet and fenced; the whole prefix is proven; one operation per point until it is observed."""

    contract: ClassVar[ForkContract] = ForkContract.STRICT
    require_prefix: ClassVar[bool] = True
    binds_before_acceptance: ClassVar[bool] = True
    dispatch_seconds: ClassVar[float | None] = STRICT_DISPATCH_SECONDS

    def barrier(self, source: Session, resolved: ResolvedPoint) -> Operation | None:
        return (
            Operation.objects.filter(
                contract=self.contract,
                source_session_id=source.pk,
                resolved_seq=resolved.seq,
                observed_at__isnull=True,
            )
            .exclude(status=OperationStatus.FAILED)
            .first()
        )

    def check_source(self, source: Session, resolved: ResolvedPoint) -> None:
        self._check_quiet(source)
        self._check_turns(source, resolved)
        if _lanes_in_prefix(source, resolved):
            raise Refused(
                "lane_in_prefix", 409, "A sub-agent worked in this part of the session, and its lane cannot be forked."
            )

    def check_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.attachments:
            raise Refused(
                "attachment_in_prefix", 409, "This part of the session points to local files, which are not forked."
            )

    def hold_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        if not store.set_fence(source_id, operation_id):
            raise fenced()

    def release_source(self, source_id: uuid.UUID, operation_id: uuid.UUID) -> None:
        store.release_fence(source_id, operation_id)

    def unproven(self, request: ForkRequest, accepted: ForkAccepted) -> str:
        gap = _chosen_turn_unproven(request, accepted)
        if gap or accepted.kept:
            return gap
        mapped = [entry.source_provider_turn_id for entry in accepted.mapping]
        if mapped != [binding.provider_turn_id for binding in request.prefix]:
            return "The child's turns are not the source's, in their order, up to the chosen one."
        return ""

    def lapse(self, operation: Operation, incarnation: Incarnation) -> tuple[ErrorCode, str] | None:
        if operation.runner_incarnation != incarnation():
            return ErrorCode.RUNNER_REPLACED, "The runner was started anew before the fork was sent; nothing was sent."
        if operation.dispatch_by is not None and operation.dispatch_by <= clock.now():
            return ErrorCode.DISPATCH_OVERDUE, "The runner did not come to send the fork in time; nothing was sent."
        return None

    def _check_quiet(self, source: Session) -> None:
        turn = history.latest_turn(source)
        if turn is not None and turn.last_seq is None:
            raise Refused("active_turn", 409, "A turn is still running in this session.", retry_after=5)
        if any(one.state == InteractionState.PENDING for one in history.interactions(source)):
            raise Refused("pending_interaction", 409, "A question in this session waits for an answer.")
        if WorkClaim.objects.filter(session_id=source.pk, settled_at__isnull=True).exists():
            raise Refused("unfinished_claim", 409, "Something on this session is not finished yet.", retry_after=5)
        other = (
            Operation.objects.filter(source_session_id=source.pk, status__in=OPEN_STATUSES)
            .values_list("pk", flat=True)
            .first()
        )
        if other is not None:
            raise Refused(
                "fork_in_progress",
                409,
                "Another fork of this session is on its way.",
                retry_after=2,
                operation_id=other,
            )

    def _check_turns(self, source: Session, resolved: ResolvedPoint) -> None:
        if resolved.turn is None or capabilities.is_hosted(source):
            # No provider stands behind a hosted session: its own log is the proof of its turns.
            return
        provider_ids = [binding.provider_turn_id for binding in history.bindings_through(source, resolved.turn.ordinal)]
        complete = len(provider_ids) == resolved.turn.ordinal and all(provider_ids)
        if not complete or len(set(provider_ids)) != len(provider_ids):
            raise Refused(
                "turn_sequence_incomplete",
                409,
                "Not every turn up to this one can be tied to exactly one turn of the agent.",
            )


_OPTIMISTIC = Optimistic()
_STRICT = Strict()


def policy(contract: str) -> Policy:
    """The policy object of a contract. Raises ValueError for anything but the two."""
    return _STRICT if ForkContract(contract) == ForkContract.STRICT else _OPTIMISTIC


def fenced(operation_id: uuid.UUID | None = None) -> Refused:
    """The refusal of everything that would change a fenced source."""
    return Refused(
        "session_fenced",
        409,
        "A fork under the strict contract needs this session unchanged until it is done.",
        retry_after=2,
        operation_id=operation_id,
    )


def _chosen_turn_unproven(request: ForkRequest, accepted: ForkAccepted) -> str:
    if not accepted.child_provider_session_id:
        return "The agent named no child."
    if accepted.child_provider_session_id == request.source.provider_session_id:
        return "The agent named the source itself as the child."
    chosen = request.turn.binding.provider_turn_id
    if chosen and (not accepted.mapping or accepted.mapping[-1].source_provider_turn_id != chosen):
        return "The child does not end at the chosen turn."
    return ""


def _lanes_in_prefix(source: Session, resolved: ResolvedPoint) -> bool:
    """Whether a sub-agent's lane hangs on a turn through the boundary, in the source or where it inherited from."""
    session: Session | None = source
    last = resolved.turn.ordinal if resolved.turn else source.turn_count
    seen: set[uuid.UUID] = set()
    while session is not None and session.pk not in seen:
        seen.add(session.pk)
        for turn_id in Session.objects.filter(
            Q(parent_session_id=session.pk) | Q(root_session_id=session.pk), kind=SessionKind.CHILD
        ).values_list("parent_turn_id", flat=True):
            turn = history.turn_by_id(session, turn_id) if turn_id else None
            # A lane whose place is not known may lie in the prefix.
            if turn is None or turn.ordinal <= last:
                return True
        line = Lineage.objects.filter(child_session_id=session.pk).first()
        if line is None:
            return False
        last = min(last, line.source_ordinal if line.source_ordinal is not None else last)
        session = Session.objects.filter(pk=line.source_session_id).first()
    return False
