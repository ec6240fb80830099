"""The append-only logs that forks share.

A session is an ordered list of segments, each a prefix of one log; the last one is its open tail. ``seq`` in a log is the
seq in every session that shows it, so nothing is ever mapped by offset. Triggers (``sessions.triggers``) keep logs without
gaps and settled turns immutable on both databases. Everything here is written by ``sessions.store`` alone.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q

from sessions.choices import BindingState, EventKind, TurnOutcome, TurnPhase


class EventLog(models.Model):
    """One append-only log. ``seed_digest`` is the running digest it continues from (empty for a log from seq 1).

    ``made_by`` is the one session that ever wrote to it: a plain id, because a log outlives a rewind and a purge.
    ``searched_seq`` is the last event whose words are in the search index.
    """

    id = models.BigAutoField(primary_key=True)
    made_by = models.UUIDField(db_index=True)
    first_seq = models.BigIntegerField()
    seed_digest = models.BinaryField(max_length=32, default=b"")
    searched_seq = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.CheckConstraint(name="log_first_seq_positive", condition=Q(first_seq__gte=1)),)

    def __str__(self) -> str:
        return f"log {self.pk} from {self.first_seq}"


class Event(models.Model):
    """One record. ``payload`` is canonical JSON text; ``turn_no`` the ordinal of its turn, null when standalone.

    ``digest`` is SHA-256 over the previous event's digest, seq, kind, time and payload bytes.
    """

    pk = models.CompositePrimaryKey("log_id", "seq")
    log = models.ForeignKey(EventLog, on_delete=models.DO_NOTHING, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    turn_no = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=32, choices=EventKind)
    at_unix_ms = models.BigIntegerField()
    payload = models.TextField()
    digest = models.BinaryField(max_length=32)

    class Meta:
        constraints = (models.CheckConstraint(name="event_kind_known", condition=Q(kind__in=EventKind.values)),)

    def __str__(self) -> str:
        return f"{self.kind} at {self.seq}"


class Turn(models.Model):
    """One user submission and all that follows until it is settled: open -> settled (immutable).

    ``id`` is the origin id; a session that inherited the turn shows another (``sessions.identities``). ``ordinal``
    counts from 1 through the whole session. ``digest`` is the running digest at its last event. The binding alone may
    still move forward until the next turn starts.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    log = models.ForeignKey(EventLog, on_delete=models.DO_NOTHING, related_name="turns", db_index=False)
    ordinal = models.BigIntegerField()
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField(null=True)
    phase = models.CharField(max_length=16, choices=TurnPhase, default=TurnPhase.OPEN)
    outcome = models.CharField(max_length=16, choices=TurnOutcome, null=True)  # noqa: DJ001  null = not settled
    digest = models.BinaryField(max_length=32, null=True)
    prompt = models.CharField(max_length=200, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    effort = models.CharField(max_length=64, blank=True, default="")
    origin = models.CharField(max_length=32, default="user")
    usage = models.JSONField(default=dict)
    started_at_unix_ms = models.BigIntegerField()
    settled_at_unix_ms = models.BigIntegerField(null=True)
    provider_turn_id = models.TextField(blank=True, default="")
    binding = models.JSONField(default=dict)
    binding_state = models.CharField(max_length=24, choices=BindingState, default=BindingState.NONE)
    binding_reason = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(name="turn_ordinal_in_log", fields=("log", "ordinal")),
            models.UniqueConstraint(name="turn_first_seq_in_log", fields=("log", "first_seq")),
            models.UniqueConstraint(name="turn_one_open_in_log", fields=("log",), condition=Q(phase=TurnPhase.OPEN)),
            models.UniqueConstraint(
                name="turn_provider_id_in_log", fields=("log", "provider_turn_id"), condition=~Q(provider_turn_id="")
            ),
            models.CheckConstraint(
                name="turn_phase_matches",
                condition=Q(
                    phase=TurnPhase.OPEN,
                    last_seq__isnull=True,
                    outcome__isnull=True,
                    digest__isnull=True,
                    settled_at_unix_ms__isnull=True,
                )
                | Q(
                    phase=TurnPhase.SETTLED,
                    last_seq__gte=F("first_seq"),
                    outcome__in=TurnOutcome.values,
                    digest__isnull=False,
                    settled_at_unix_ms__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="turn_bound_has_provider_id",
                condition=(Q(binding_state=BindingState.BOUND) & ~Q(provider_turn_id=""))
                | Q(binding_state__in=[BindingState.NONE, BindingState.RECOVERY_REQUIRED]),
            ),
        )

    def __str__(self) -> str:
        return f"turn {self.ordinal} ({self.phase})"


class Segment(models.Model):
    """A prefix of a log that a session shows. ``last_seq`` null marks the open tail, which has exactly one writer.

    ``first_turn``/``last_turn`` are turn ordinals (null: the segment holds no turn start).
    """

    session = models.ForeignKey(
        "agent_sessions.Session", on_delete=models.DO_NOTHING, related_name="segments", db_index=False
    )
    position = models.IntegerField()
    log = models.ForeignKey(EventLog, on_delete=models.DO_NOTHING, related_name="segments", db_index=False)
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField(null=True)
    first_turn = models.BigIntegerField(null=True)
    last_turn = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("position",)
        # Purge asks which part of a log is still shown by somebody.
        indexes = (models.Index(name="segment_log_last_seq", fields=("log", "last_seq")),)
        constraints = (
            models.UniqueConstraint(name="segment_position_in_session", fields=("session", "position")),
            models.UniqueConstraint(
                name="segment_one_tail_in_session", fields=("session",), condition=Q(last_seq__isnull=True)
            ),
            models.UniqueConstraint(
                name="segment_one_writer_of_log", fields=("log",), condition=Q(last_seq__isnull=True)
            ),
            models.CheckConstraint(
                name="segment_not_empty", condition=Q(last_seq__isnull=True) | Q(last_seq__gte=F("first_seq"))
            ),
        )

    def __str__(self) -> str:
        return f"segment {self.position} of {self.session_id}"
