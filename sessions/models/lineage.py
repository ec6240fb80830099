"""Where a fork came from, and the files its history points to. Plain ids: both outlive source and child."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q

from sessions.models.history import EventLog


class Lineage(models.Model):
    """child -> source, at which turn, by which operation."""

    child_session_id = models.UUIDField(primary_key=True)
    workspace_id = models.UUIDField()
    source_session_id = models.UUIDField(db_index=True)
    source_turn_id = models.UUIDField(null=True)
    source_seq = models.BigIntegerField()
    source_ordinal = models.BigIntegerField(null=True)
    target_turn_id = models.UUIDField(null=True)
    operation_id = models.UUIDField(unique=True)
    forked_at_unix_ms = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "lineage"
        constraints = (
            models.CheckConstraint(name="lineage_not_itself", condition=~Q(child_session_id=F("source_session_id"))),
        )

    def __str__(self) -> str:
        return f"{self.child_session_id} from {self.source_session_id}"


class Blob(models.Model):
    """A content-addressed file in the data folder. ``sha256`` is hex."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=100, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.sha256


class Attachment(models.Model):
    """An event's reference to a blob."""

    log = models.ForeignKey(EventLog, on_delete=models.DO_NOTHING, related_name="attachments")
    seq = models.BigIntegerField()
    position = models.IntegerField()
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="attachments")
    name = models.TextField(blank=True, default="")

    class Meta:
        constraints = (models.UniqueConstraint(name="attachment_once", fields=("log", "seq", "position")),)

    def __str__(self) -> str:
        return f"{self.name} at {self.seq}"


class SessionAudit(models.Model):
    """Acts of people on sessions and workspaces: tombstone, restore, purge, detach, contract switch. Append-only."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    at = models.DateTimeField(auto_now_add=True)
    workspace_id = models.UUIDField(db_index=True)
    session_id = models.UUIDField(null=True, db_index=True)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("-at",)

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"
