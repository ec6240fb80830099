"""The states of a fork operation, their legal moves, and the words for the API."""

from __future__ import annotations

from django.db import models

from sessions.providers.base import BindingMode as ProviderBindingMode
from sessions.providers.base import IdentityMode as ProviderIdentityMode
from sessions.providers.base import MatchStrength as ProviderMatchStrength


class OperationStatus(models.TextChoices):
    """prepared -> dispatching -> provider_accepted -> committed; prepared, dispatching -> failed; dispatching -> unknown;
    unknown -> provider_accepted | failed by evidence only. Nothing leads from unknown to dispatching.
    """

    PREPARED = "prepared"
    DISPATCHING = "dispatching"
    PROVIDER_ACCEPTED = "provider_accepted"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


MOVES: dict[OperationStatus, frozenset[OperationStatus]] = {
    OperationStatus.PREPARED: frozenset({OperationStatus.DISPATCHING, OperationStatus.FAILED}),
    OperationStatus.DISPATCHING: frozenset(
        {OperationStatus.PROVIDER_ACCEPTED, OperationStatus.FAILED, OperationStatus.UNKNOWN}
    ),
    OperationStatus.PROVIDER_ACCEPTED: frozenset({OperationStatus.COMMITTED}),
    OperationStatus.UNKNOWN: frozenset({OperationStatus.PROVIDER_ACCEPTED, OperationStatus.FAILED}),
    OperationStatus.COMMITTED: frozenset(),
    OperationStatus.FAILED: frozenset(),
}

OPEN_STATUSES = (OperationStatus.PREPARED, OperationStatus.DISPATCHING, OperationStatus.PROVIDER_ACCEPTED)
TERMINAL_STATUSES = (OperationStatus.COMMITTED, OperationStatus.FAILED, OperationStatus.UNKNOWN)


class PublicStatus(models.TextChoices):
    """What clients see; unknown is terminal for waiting, although evidence may settle it later."""

    ACCEPTED = "accepted"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Phase(models.TextChoices):
    """How far an operation is, in the words of the API."""

    FROZEN = "frozen"
    DISPATCHING = "dispatching"
    MATERIALIZING = "materializing"
    COMMITTED = "committed"
    FAILED = "failed"
    DELIVERY_UNKNOWN = "deliveryUnknown"


PUBLIC_STATUS: dict[OperationStatus, PublicStatus] = {
    OperationStatus.PREPARED: PublicStatus.ACCEPTED,
    OperationStatus.DISPATCHING: PublicStatus.ACCEPTED,
    OperationStatus.PROVIDER_ACCEPTED: PublicStatus.ACCEPTED,
    OperationStatus.COMMITTED: PublicStatus.COMMITTED,
    OperationStatus.FAILED: PublicStatus.FAILED,
    OperationStatus.UNKNOWN: PublicStatus.UNKNOWN,
}

PHASE: dict[OperationStatus, Phase] = {
    OperationStatus.PREPARED: Phase.FROZEN,
    OperationStatus.DISPATCHING: Phase.DISPATCHING,
    OperationStatus.PROVIDER_ACCEPTED: Phase.MATERIALIZING,
    OperationStatus.COMMITTED: Phase.COMMITTED,
    OperationStatus.FAILED: Phase.FAILED,
    OperationStatus.UNKNOWN: Phase.DELIVERY_UNKNOWN,
}


class PointType(models.TextChoices):
    """Where a caller asks to cut."""

    THROUGH_TURN = "throughTurn"
    AT_SEQ = "atSeq"
    THROUGH_SEQ = "throughSeq"
    LATEST_SETTLED = "latestSettled"


class BindingMode(models.TextChoices):
    """Who ties inherited turns to the child's own ids."""

    HOST_COPY = ProviderBindingMode.HOST_COPY.value
    PROVIDER_OWNED = ProviderBindingMode.PROVIDER_OWNED.value


class IdentityMode(models.TextChoices):
    """How a child whose answer was lost can be recognised."""

    ANNOUNCED = ProviderIdentityMode.ANNOUNCED.value
    MARKER = ProviderIdentityMode.MARKER.value
    SEARCH = ProviderIdentityMode.SEARCH.value


class MatchStrength(models.TextChoices):
    """How sure evidence is."""

    EXACT = ProviderMatchStrength.EXACT.value
    LIKELY = ProviderMatchStrength.LIKELY.value
    NONE = ProviderMatchStrength.NONE.value


class EvidenceMethod(models.TextChoices):
    """How evidence about an unknown came to us."""

    LATE_ANSWER = "late_answer"
    LOOKUP = "lookup"
    IMPORTER = "importer"
    OPERATOR = "operator"


class Act(models.TextChoices):
    """Why an audit row was written."""

    PREPARED = "prepared"
    REPLAYED = "replayed"
    DISPATCHING = "dispatching"
    ACCEPTED = "accepted"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    LOCAL_WORK_FAILED = "local_work_failed"
    LOOKED_UP = "looked_up"
    LATE_ANSWER = "late_answer"
    CONTRADICTED = "contradicted"
    ADOPTED = "adopted"
    PROVEN_NOT_CREATED = "proven_not_created"
    CONFIRMED_NOT_CREATED = "confirmed_not_created"
    KEPT_UNKNOWN = "kept_unknown"
    LOOK_AGAIN = "look_again"
    ACKNOWLEDGED = "acknowledged"
    PROOF_WAITS = "proof_waits"
    ASSIGNED = "assigned"
    RELEASED = "released"
    NOTED = "noted"
    SEEN = "seen"
    TORN_REMOVAL_ASKED = "torn_removal_asked"
    TORN_REMOVED = "torn_removed"
    TORN_NOT_REMOVED = "torn_not_removed"
    HOME_REPAIRED = "home_repaired"
    HOME_NOT_READABLE = "home_not_readable"


# How an unknown fork came to its end; the audit row of such an act leaves the state unknown.
SETTLEMENTS = (Act.ADOPTED, Act.LATE_ANSWER, Act.PROVEN_NOT_CREATED, Act.CONFIRMED_NOT_CREATED)


class NotificationKind(models.TextChoices):
    """What people and webhooks are told about."""

    NEEDS_PERSON = "needs_person"
    SETTLED = "settled"


class Channel(models.TextChoices):
    """How they are told."""

    EMAIL = "email"
    WEBHOOK = "webhook"


class ErrorCode(models.TextChoices):
    """Why an operation failed or is unknown, in forkhost's own words; adapters add codes of their own."""

    ADAPTER_MISSING = "adapter_missing"
    ADAPTER_FAILED = "adapter_failed"
    HOME_MISSING = "home_missing"
    FOLDER_MISSING = "working_folder_missing"
    RUNTIME_CHANGED = "runtime_changed"
    ATTACHMENT_MISSING = "attachment_missing"
    RUNNER_REPLACED = "runner_replaced"
    DISPATCH_OVERDUE = "dispatch_overdue"
    WORKER_LOST = "worker_lost"
    CALL_OVERDUE = "call_overdue"
    WRONG_CHILD = "wrong_child"
    BINDING_FAILED = "binding_failed"
    LOCAL_WORK_FAILED = "local_work_failed"
    PROVEN_NOT_CREATED = "proven_not_created"
    CONFIRMED_NOT_CREATED = "confirmed_not_created"
    TORN_CHILD_REMOVED = "torn_child_removed"
    RESTORED = "restored_from_backup"
