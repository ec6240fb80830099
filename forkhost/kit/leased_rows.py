"""The columns of a row that is a piece of work; ``forkhost.kit.leases`` says how such rows are claimed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q


class LeasedRow(models.Model):
    """A row that is a piece of work. ``attempts`` counts claims since it was last set back by ``leases.release``."""

    queue = models.CharField(max_length=64, default="", blank=True)
    next_run_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=200, default="", blank=True)
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        # The claim. Partial on NOT NULL, because SQLite never uses a partial index on a list of bound states.
        indexes: ClassVar[tuple[models.Index, ...]] = (
            models.Index(name="%(class)s_due", fields=["queue", "next_run_at"], condition=Q(next_run_at__isnull=False)),
        )
