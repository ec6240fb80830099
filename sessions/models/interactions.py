"""What waits for a person, and what is unfinished on a session."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from sessions.choices import ClaimKind, InteractionKind, InteractionState
from sessions.models.history import EventLog
from sessions.models.sessions import Session


class Interaction(models.Model):
    """A question, approval or plan. It lies in a log beside the event that asked, so forks share it.

    A session that inherited it shows another id, and shows it as superseded unless it was answered within the seed.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    log = models.ForeignKey(EventLog, on_delete=models.DO_NOTHING, related_name="interactions", db_index=False)
    key = models.TextField()
    turn_no = models.BigIntegerField(null=True)
    asked_seq = models.BigIntegerField()
    closed_seq = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=16, choices=InteractionKind)
    state = models.CharField(max_length=16, choices=InteractionState, default=InteractionState.PENDING)

    class Meta:
        # A fork asks what was still waiting at its boundary, without looking at what was answered before.
        indexes = (models.Index(name="interaction_log_closed", fields=("log", "closed_seq")),)
        constraints = (
            models.UniqueConstraint(name="interaction_key_in_log", fields=("log", "key")),
            models.CheckConstraint(
                name="interaction_state_matches",
                condition=Q(state=InteractionState.PENDING, closed_seq__isnull=True)
                | Q(
                    state__in=[InteractionState.ANSWERED, InteractionState.SUPERSEDED],
                    closed_seq__gte=models.F("asked_seq"),
                ),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} ({self.state})"


class WorkClaim(models.Model):
    """Something unfinished on a session: open until ``settled_at`` is set."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="claims")
    kind = models.CharField(max_length=24, choices=ClaimKind)
    note = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        # Strict prepare asks whether anything is unfinished.
        indexes = (
            models.Index(name="claim_open_on_session", fields=("session",), condition=Q(settled_at__isnull=True)),
        )

    def __str__(self) -> str:
        return f"{self.kind} on {self.session_id}"
