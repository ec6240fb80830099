"""The states and kinds of what happened. Colours and icons belong to the pages."""

from __future__ import annotations

from django.db import models

from sessions.providers.base import EventKind as ProviderEventKind
from sessions.providers.base import Outcome as ProviderOutcome


class ForkContract(models.TextChoices):
    """Which rules the forks of a workspace follow; copied into each operation."""

    OPTIMISTIC = "optimistic"
    STRICT = "strict"


class Settlement(models.TextChoices):
    """Whether proof alone may settle an unknown fork of a workspace, or an operator is always asked."""

    AUTOMATIC = "automatic"
    ASK = "ask"


class MemberRole(models.TextChoices):
    """What a member may do; an operator may also settle unknown forks."""

    MEMBER = "member"
    OPERATOR = "operator"


class SessionKind(models.TextChoices):
    """A root stands alone; a child is a sub-agent's lane of another session."""

    ROOT = "root"
    CHILD = "child"


class Visibility(models.TextChoices):
    """Who in the workspace sees a session."""

    WORKSPACE = "workspace"
    PRIVATE = "private"


class Activity(models.TextChoices):
    """What a session is doing, as far as the newest import shows."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class EventKind(models.TextChoices):
    """The closed list of records a log holds; the same values as the adapters use."""

    TURN_START = ProviderEventKind.TURN_START.value
    TURN_END = ProviderEventKind.TURN_END.value
    MESSAGE_USER = ProviderEventKind.MESSAGE_USER.value
    MESSAGE_ASSISTANT = ProviderEventKind.MESSAGE_ASSISTANT.value
    REASONING = ProviderEventKind.REASONING.value
    TOOL_CALL = ProviderEventKind.TOOL_CALL.value
    TOOL_RESULT = ProviderEventKind.TOOL_RESULT.value
    CONTEXT = ProviderEventKind.CONTEXT.value
    COMPACTION = ProviderEventKind.COMPACTION.value
    INTERACTION_ASKED = ProviderEventKind.INTERACTION_ASKED.value
    INTERACTION_ANSWERED = ProviderEventKind.INTERACTION_ANSWERED.value
    INTERACTION_SUPERSEDED = ProviderEventKind.INTERACTION_SUPERSEDED.value
    NOTE = ProviderEventKind.NOTE.value


class TurnPhase(models.TextChoices):
    """A turn is open until it is settled on positive proof, and immutable from then on."""

    OPEN = "open"
    SETTLED = "settled"


class TurnOutcome(models.TextChoices):
    """How a settled turn ended; the same values as the adapters use."""

    COMPLETED = ProviderOutcome.COMPLETED.value
    FAILED = ProviderOutcome.FAILED.value
    CANCELED = ProviderOutcome.CANCELED.value
    INTERRUPTED = ProviderOutcome.INTERRUPTED.value


class BindingState(models.TextChoices):
    """Whether a turn is tied to the provider's own turn, so that it can be forked at."""

    BOUND = "bound"
    RECOVERY_REQUIRED = "recovery_required"
    NONE = "none"


class InteractionKind(models.TextChoices):
    """What waits for a person."""

    QUESTION = "question"
    APPROVAL = "approval"
    PLAN = "plan"


class InteractionState(models.TextChoices):
    """pending -> answered | superseded."""

    PENDING = "pending"
    ANSWERED = "answered"
    SUPERSEDED = "superseded"


class ClaimKind(models.TextChoices):
    """Something unfinished on a session."""

    SUBMIT = "submit"
    GOAL_CONTROL = "goal_control"
    RUNTIME_OPERATION = "runtime_operation"


class SyncState(models.TextChoices):
    """How much of a session's provider transcript is in its history.

    listed -> importing -> imported; missing = the transcript is gone; failed = it cannot be read, with a reason;
    deferred = a fork needs the source unchanged, or the child belongs to an unfinished operation.
    """

    LISTED = "listed"
    IMPORTING = "importing"
    IMPORTED = "imported"
    MISSING = "missing"
    FAILED = "failed"
    DEFERRED = "deferred"


class AuditAction(models.TextChoices):
    """Acts of people on sessions and workspaces that are kept for ever."""

    TOMBSTONE = "tombstone"
    RESTORE = "restore"
    PURGE = "purge"
    DETACH = "detach"
    ATTACH = "attach"
    CONTRACT_SWITCH = "contract_switch"
    FORKS_SWITCH = "forks_switch"
    SETTLEMENT_SWITCH = "settlement_switch"
    WEBHOOK_SET = "webhook_set"
    FORK_HOME_SET = "fork_home_set"
