"""Fork operations, what happened to them, and what was seen about them.

The operation row is its own queue entry and outbox. It holds plain ids, no cascading keys: a committed result is rebuilt
from this row alone, also after source and child are purged. Written by ``operations.saga`` only.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from forkhost.kit.leased_rows import LeasedRow
from operations.choices import (
    Act,
    BindingMode,
    Channel,
    EvidenceMethod,
    IdentityMode,
    NotificationKind,
    OperationStatus,
    PointType,
)
from operations.querysets import AppendOnly, AppendOnlyQuerySet, OperationQuerySet
from sessions.choices import ForkContract

S = OperationStatus


class Operation(LeasedRow):
    """One durable fork; see ``OperationStatus`` for its moves.

    ``request_id`` is the caller's replay key, normalised; ``request_hash`` covers source, target, requested point and
    title, in version ``request_hash_version``. ``snapshot`` is the frozen JSON text of
    ``sessions.store.Snapshot`` and ``snapshot_hash`` its SHA-256. ``frozen`` holds what an adapter is asked with beyond
    the columns: home path, transcript path, cwd, settings, and the path of the home the child has to live in.
    ``target_home_id`` names that home when it is not the source's; ``home_bound_at`` is when the child was last seen to
    be readable there. ``target_turn_id`` is known from prepare on, because it
    follows from the operation's id. ``target_mapping`` is the ordered list of
    ``{"source", "target", "data", "reason"}`` with the child's bindings. ``dispatch_token`` is set once, with the
    dispatching mark, and never again. ``calls`` is 0 until that mark and 1 after. ``version`` counts the acts on this
    row and is the sequence of the newest audit row. ``unknown_since`` is set while the operation is unknown only.
    ``assigned_to_id`` is the operator who looks after it. ``removal`` is an operator's wish that the runner remove one
    torn child, ``{"child", "path", "actor"}``, until it was tried. ``result_session`` is set when committed and holds what
    of the child's projection the other columns do not say (``operations.results``).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace_id = models.UUIDField()
    runner_id = models.UUIDField(null=True)
    home_id = models.UUIDField(null=True)
    target_home_id = models.UUIDField(null=True)
    provider = models.CharField(max_length=64)
    requested_by_id = models.BigIntegerField(null=True)

    request_id = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    request_hash_version = models.PositiveSmallIntegerField(default=1)
    contract = models.CharField(max_length=16, choices=ForkContract)
    runner_incarnation = models.UUIDField(null=True)
    dispatch_by = models.DateTimeField(null=True)

    source_session_id = models.UUIDField()
    target_session_id = models.UUIDField()
    source_provider_session_id = models.TextField(blank=True, default="")
    child_provider_session_id = models.TextField(blank=True, default="")
    announced_child_id = models.TextField(blank=True, default="")

    point_type = models.CharField(max_length=16, choices=PointType)
    point = models.JSONField()
    resolved_turn_id = models.UUIDField(null=True)
    resolved_seq = models.BigIntegerField()
    resolved_ordinal = models.BigIntegerField(null=True)
    source_provider_turn_id = models.TextField(blank=True, default="")
    binding = models.JSONField(default=dict)
    target_turn_id = models.UUIDField(null=True)
    target_seq = models.BigIntegerField(null=True)

    title = models.TextField(blank=True, default="")
    family_id = models.UUIDField(null=True)
    frozen = models.JSONField(default=dict)
    snapshot = models.TextField()
    snapshot_hash = models.CharField(max_length=64)
    driver_kind = models.CharField(max_length=64)
    driver_version = models.CharField(max_length=64, blank=True, default="")
    fingerprint = models.TextField(blank=True, default="")
    binding_mode = models.CharField(max_length=24, choices=BindingMode)
    identity_mode = models.CharField(max_length=24, choices=IdentityMode)
    target_mapping = models.JSONField(null=True)
    bindings_kept = models.BooleanField(default=False)
    receipt = models.JSONField(null=True)
    result_session = models.JSONField(null=True)

    status = models.CharField(max_length=24, choices=OperationStatus, default=S.PREPARED)
    error_code = models.CharField(max_length=64, blank=True, default="")
    error_text = models.TextField(blank=True, default="")
    unknown_since = models.DateTimeField(null=True)
    looks = models.PositiveIntegerField(default=0)
    needs_person = models.BooleanField(default=False)
    assigned_to_id = models.BigIntegerField(null=True)
    removal = models.JSONField(null=True)
    warnings = models.JSONField(default=list)
    calls = models.PositiveSmallIntegerField(default=0)
    dispatch_token = models.UUIDField(null=True)
    process = models.JSONField(null=True)
    version = models.BigIntegerField(default=0)

    # The default makes the insert hand back the time it wrote, whatever gave it.
    prepared_at = models.DateTimeField(db_default=Now())
    dispatched_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    home_bound_at = models.DateTimeField(null=True)

    objects = OperationQuerySet.as_manager()

    class Meta(LeasedRow.Meta):
        abstract = False
        permissions = (("settle_operation", "Can settle forks whose outcome is unknown"),)
        indexes = (
            *LeasedRow.Meta.indexes,
            # The operations list and its cursor.
            models.Index(name="operation_list", fields=("workspace_id", "-prepared_at", "-id")),
            # The counts on every page, and what the importer asks about unfinished forks. NULL instead of a list of
            # states, because SQLite uses no partial index on those.
            models.Index(
                name="operation_unfinished", fields=("workspace_id", "status"), condition=Q(completed_at__isnull=True)
            ),
            # Forks listed at their turn on the source's page; fences and barriers.
            models.Index(name="operation_by_source", fields=("source_session_id", "status")),
            # Children that live in another home than their source: either home's importer asks about them.
            models.Index(name="operation_bound_from", fields=("home_id",), condition=Q(target_home_id__isnull=False)),
            models.Index(
                name="operation_bound_into",
                fields=("target_home_id", "target_session_id"),
                condition=Q(target_home_id__isnull=False),
            ),
            # The queue of unknown forks, oldest first.
            models.Index(
                name="operation_unknown_queue", fields=("unknown_since",), condition=Q(unknown_since__isnull=False)
            ),
            models.Index(name="operation_needs_person", fields=("workspace_id",), condition=Q(needs_person=True)),
        )
        constraints = (
            models.UniqueConstraint(name="operation_request_once", fields=("workspace_id", "request_id")),
            models.UniqueConstraint(
                name="operation_target_reserved", fields=("target_session_id",), condition=~Q(status=S.FAILED)
            ),
            models.UniqueConstraint(
                name="operation_child_once",
                fields=("home_id", "child_provider_session_id"),
                condition=~Q(child_provider_session_id="") & ~Q(status__in=[S.FAILED, S.UNKNOWN]),
            ),
            # The barrier of the strict contract: one unobserved or unknown operation per source and resolved point.
            models.UniqueConstraint(
                name="operation_barrier_once",
                fields=("source_session_id", "resolved_seq"),
                condition=Q(contract=ForkContract.STRICT, observed_at__isnull=True) & ~Q(status=S.FAILED),
            ),
            models.CheckConstraint(name="operation_status_known", condition=Q(status__in=S.values)),
            models.CheckConstraint(name="operation_contract_known", condition=Q(contract__in=ForkContract.values)),
            # Nothing that is on its way can be forgotten by the queue.
            models.CheckConstraint(
                name="operation_open_is_queued",
                condition=~Q(status__in=[S.PREPARED, S.DISPATCHING, S.PROVIDER_ACCEPTED])
                | Q(next_run_at__isnull=False),
            ),
            models.CheckConstraint(
                name="operation_calls_follow_dispatch",
                condition=Q(calls=0, dispatch_token__isnull=True, dispatched_at__isnull=True)
                | Q(calls=1, dispatch_token__isnull=False, dispatched_at__isnull=False),
            ),
            models.CheckConstraint(
                name="operation_prepared_not_sent",
                condition=~Q(status=S.PREPARED) | Q(calls=0, accepted_at__isnull=True),
            ),
            models.CheckConstraint(name="operation_dispatching_sent", condition=~Q(status=S.DISPATCHING) | Q(calls=1)),
            models.CheckConstraint(
                name="operation_accepted_complete",
                condition=~Q(status__in=[S.PROVIDER_ACCEPTED, S.COMMITTED])
                | (
                    Q(calls=1, target_mapping__isnull=False, receipt__isnull=False, accepted_at__isnull=False)
                    & ~Q(child_provider_session_id="")
                ),
            ),
            models.CheckConstraint(
                name="operation_committed_complete",
                condition=~Q(status=S.COMMITTED)
                | Q(target_seq__isnull=False, completed_at__isnull=False, result_session__isnull=False),
            ),
            models.CheckConstraint(
                name="operation_failed_has_reason",
                condition=~Q(status=S.FAILED) | (~Q(error_code="") & Q(completed_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="operation_unknown_has_reason",
                condition=(Q(status=S.UNKNOWN, unknown_since__isnull=False, calls=1) & ~Q(error_code=""))
                | (~Q(status=S.UNKNOWN) & Q(unknown_since__isnull=True)),
            ),
            models.CheckConstraint(
                name="operation_observed_only_committed", condition=Q(observed_at__isnull=True) | Q(status=S.COMMITTED)
            ),
            models.CheckConstraint(
                name="operation_removal_only_unknown", condition=Q(removal__isnull=True) | Q(status=S.UNKNOWN)
            ),
            models.CheckConstraint(
                name="operation_other_home_is_host_copy",
                condition=Q(target_home_id__isnull=True)
                | (Q(binding_mode=BindingMode.HOST_COPY) & ~Q(target_home_id=models.F("home_id"))),
            ),
            models.CheckConstraint(
                name="operation_target_not_source", condition=~Q(target_session_id=models.F("source_session_id"))
            ),
        )

    def __str__(self) -> str:
        return f"fork {self.pk} ({self.status})"


class RequestAlias(models.Model):
    """A request id that was answered with an operation, the operation's own included; replays for ever.

    One table for both, so that one unique index decides every race on a request id.
    """

    workspace_id = models.UUIDField()
    request_id = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    operation_id = models.UUIDField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "request aliases"
        constraints = (models.UniqueConstraint(name="alias_request_once", fields=("workspace_id", "request_id")),)

    def __str__(self) -> str:
        return f"{self.request_id} -> {self.operation_id}"


class AppendOnlyRow(models.Model):
    """A row that is neither changed nor deleted once it is there."""

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(type(self).__name__)
        super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnly(type(self).__name__)


class OperationAudit(AppendOnlyRow):
    """One row per transition or act, written in the same transaction. ``sequence`` counts from 1 in an operation."""

    id = models.BigAutoField(primary_key=True)
    operation_id = models.UUIDField()
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    from_status = models.CharField(max_length=24, blank=True, default="")
    to_status = models.CharField(max_length=24, blank=True, default="")
    actor = models.CharField(max_length=200)
    reason = models.CharField(max_length=64, choices=Act)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("operation_id", "sequence")
        constraints = (models.UniqueConstraint(name="audit_sequence_once", fields=("operation_id", "sequence")),)
        # The metrics count acts; all they need is in the index.
        indexes = (models.Index(name="audit_acts", fields=("reason", "from_status", "to_status")),)

    def __str__(self) -> str:
        return f"{self.from_status or '-'} -> {self.to_status or '-'} by {self.actor}"


class Evidence(AppendOnlyRow):
    """What was read, never written, from a provider about an operation. Append-only."""

    id = models.BigAutoField(primary_key=True)
    operation_id = models.UUIDField(db_index=True)
    dispatch_token = models.UUIDField(null=True)
    at = models.DateTimeField()
    method = models.CharField(max_length=24, choices=EvidenceMethod)
    candidates = models.JSONField(default=list)
    absence_proves = models.BooleanField(default=False)
    contradicts = models.BooleanField(default=False)
    detail = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "evidence"
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.method} for {self.operation_id}"


class Notification(LeasedRow):
    """One message to one address about one act on an operation, written in the act's own transaction.

    ``sequence`` is the act's audit row. ``body`` is the exact text that is sent, each time it is tried. ``recipient_id``
    is a user for email, else 0; a webhook's address and secret are its workspace's when it is sent. The queue is always "": the
    worker of any runner delivers. Either ``delivered_at``, ``given_up_at`` or ``next_run_at`` is set.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace_id = models.UUIDField()
    operation_id = models.UUIDField(db_index=True)
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=NotificationKind)
    channel = models.CharField(max_length=16, choices=Channel)
    recipient_id = models.BigIntegerField(default=0)
    body = models.TextField()
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    error_text = models.TextField(blank=True, default="")

    class Meta(LeasedRow.Meta):
        abstract = False
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(
                name="notification_once", fields=("operation_id", "sequence", "channel", "recipient_id")
            ),
            models.CheckConstraint(
                name="notification_queued_or_over",
                condition=Q(next_run_at__isnull=False, delivered_at__isnull=True, given_up_at__isnull=True)
                | Q(next_run_at__isnull=True, delivered_at__isnull=False, given_up_at__isnull=True)
                | Q(next_run_at__isnull=True, delivered_at__isnull=True, given_up_at__isnull=False),
            ),
            models.CheckConstraint(
                name="notification_has_recipient",
                condition=Q(channel=Channel.WEBHOOK, recipient_id=0) | (Q(channel=Channel.EMAIL) & ~Q(recipient_id=0)),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel} about {self.operation_id}"
