"""Sessions, their families and their import."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from forkhost.kit.leased_rows import LeasedRow
from sessions.choices import Activity, SessionKind, SyncState, Visibility
from sessions.models.history import EventLog
from sessions.models.workspaces import Home, Workspace
from sessions.querysets import SessionQuerySet


class Family(models.Model):
    """Sessions connected by lineage or observed parents. ``next_number`` is the one title counter, never set back."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.TextField(blank=True, default="")
    next_number = models.BigIntegerField(default=2)

    class Meta:
        verbose_name_plural = "families"
        constraints = (models.CheckConstraint(name="family_number_from_two", condition=Q(next_number__gte=2)),)

    def __str__(self) -> str:
        return self.title or str(self.pk)


class Session(models.Model):
    """The canonical record of one conversation.

    ``write_fence`` (an operation id) and ``last_seq`` guard every history write: each begins with one guarded update of
    this row. ``seed_length`` counts inherited events. ``binding_map`` maps inherited turn ordinals (as text) to
    ``[provider_turn_id, binding]``; ``binding_kept`` says that inherited turns keep the source's binding.
    A child is a sub-agent's lane; a fork is a root. ``search_due``: the search index is behind its title or its history.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="sessions")
    home = models.ForeignKey(Home, on_delete=models.PROTECT, null=True, related_name="sessions")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    provider = models.CharField(max_length=64)
    provider_session_id = models.TextField(null=True)  # noqa: DJ001  null = the provider has none
    provider_version = models.CharField(max_length=64, blank=True, default="")

    kind = models.CharField(max_length=8, choices=SessionKind, default=SessionKind.ROOT)
    root_session_id = models.UUIDField(null=True)
    parent_session_id = models.UUIDField(null=True)
    parent_turn_id = models.UUIDField(null=True)
    parent_tool_call_id = models.TextField(null=True)  # noqa: DJ001  null on a root

    family = models.ForeignKey(Family, on_delete=models.PROTECT, related_name="sessions")
    fork_operation_id = models.UUIDField(null=True, unique=True)
    observed_parent_provider_id = models.TextField(blank=True, default="")
    observed_parent_id = models.UUIDField(null=True)
    detached = models.BooleanField(default=False)

    title = models.TextField(blank=True, default="")
    preview = models.CharField(max_length=200, blank=True, default="")
    project = models.TextField(blank=True, default="")
    cwd = models.TextField(blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    effort = models.CharField(max_length=64, blank=True, default="")
    settings = models.JSONField(default=dict)
    runtime_context = models.JSONField(default=dict)
    provider_facts = models.JSONField(default=dict)
    visibility = models.CharField(max_length=16, choices=Visibility, default=Visibility.WORKSPACE)
    pinned = models.BooleanField(default=False)
    worktree_isolated = models.BooleanField(default=False)
    activity = models.CharField(max_length=16, choices=Activity, default=Activity.IDLE)

    log = models.OneToOneField(EventLog, on_delete=models.PROTECT, related_name="session")
    last_seq = models.BigIntegerField(default=0)
    seed_length = models.BigIntegerField(default=0)
    turn_count = models.BigIntegerField(default=0)
    history_revision = models.BigIntegerField(default=0)
    version = models.BigIntegerField(default=0)
    write_fence = models.UUIDField(null=True)
    binding_map = models.JSONField(null=True)
    binding_kept = models.BooleanField(default=False)
    search_due = models.BooleanField(default=True)

    created_at_unix_ms = models.BigIntegerField()
    updated_at_unix_ms = models.BigIntegerField()
    tombstoned_at = models.DateTimeField(null=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        indexes = (
            # The sessions list and its cursor: newest activity first, in one workspace.
            models.Index(
                name="session_list",
                fields=("workspace", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=True),
            ),
            # The list filtered by provider.
            models.Index(
                name="session_list_by_provider",
                fields=("workspace", "provider", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=True),
            ),
            # The list filtered by what sessions are doing, which is rarely anything.
            models.Index(
                name="session_list_by_activity",
                fields=("workspace", "activity", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=True),
            ),
            # The list of forks alone, of sub-agents' lanes alone, of deleted sessions: each may be few among very many.
            models.Index(
                name="session_list_of_forks",
                fields=("workspace", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=True)
                & (Q(fork_operation_id__isnull=False) | Q(observed_parent_id__isnull=False)),
            ),
            models.Index(
                name="session_list_of_lanes",
                fields=("workspace", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=True, parent_session_id__isnull=False),
            ),
            models.Index(
                name="session_list_of_deleted",
                fields=("workspace", "-updated_at_unix_ms", "-id"),
                condition=Q(tombstoned_at__isnull=False),
            ),
            # The list filtered by a folder in which few sessions work; its beginning is compared byte for byte.
            models.Index(
                name="session_by_folder",
                fields=("workspace", "cwd"),
                opclasses=("uuid_ops", "text_pattern_ops"),
                condition=Q(tombstoned_at__isnull=True),
            ),
            # The lanes below a session, all of them or the next; few sessions are lanes.
            models.Index(
                name="session_by_parent", fields=("parent_session_id",), condition=Q(parent_session_id__isnull=False)
            ),
            models.Index(
                name="session_by_root", fields=("root_session_id",), condition=Q(root_session_id__isnull=False)
            ),
            # What the search index has to catch up with, newest first.
            models.Index(name="session_search_due", fields=("-updated_at_unix_ms",), condition=Q(search_due=True)),
        )
        constraints = (
            models.UniqueConstraint(
                name="session_provider_id_in_home",
                fields=("home", "provider_session_id"),
                condition=Q(provider_session_id__isnull=False),
            ),
            models.CheckConstraint(
                name="session_kind_matches",
                condition=Q(
                    kind=SessionKind.ROOT,
                    root_session_id__isnull=True,
                    parent_session_id__isnull=True,
                    parent_turn_id__isnull=True,
                    parent_tool_call_id__isnull=True,
                )
                | Q(
                    kind=SessionKind.CHILD,
                    root_session_id__isnull=False,
                    parent_session_id__isnull=False,
                    fork_operation_id__isnull=True,
                ),
            ),
            models.CheckConstraint(
                name="session_seed_within_history",
                condition=Q(seed_length__gte=0) & Q(last_seq__gte=models.F("seed_length")),
            ),
        )

    def __str__(self) -> str:
        return self.title or self.preview or str(self.pk)


class TakenId(models.Model):
    """A session id that is, was, or will be a session's: one unique index decides every race for it.

    ``operation_id`` is set while a fork reserves the id; a failed fork gives it back. A purged session's stays for ever.
    """

    session_id = models.UUIDField(primary_key=True)
    operation_id = models.UUIDField(null=True)

    def __str__(self) -> str:
        return str(self.session_id)


class SessionSync(LeasedRow):
    """How far a provider session's transcript is imported; the row is its own work item (``queue``: the runner's id).

    ``stamp_seen`` is what discovery saw last, ``stamp_imported`` what the history holds; they differ while there is work.
    ``cursor`` belongs to the adapter. ``damage`` lists ``{"line": n, "reason": code}`` (the first hundred;
    ``damage_count`` counts all).
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="sync")
    path = models.TextField(blank=True, default="")
    state = models.CharField(max_length=16, choices=SyncState, default=SyncState.LISTED)
    stamp_seen = models.TextField(blank=True, default="")
    stamp_imported = models.TextField(blank=True, default="")
    cursor = models.JSONField(null=True)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    wanted_at = models.DateTimeField(null=True)
    problem_code = models.CharField(max_length=64, blank=True, default="")
    problem_text = models.TextField(blank=True, default="")
    damage = models.JSONField(default=list)
    damage_count = models.BigIntegerField(default=0)

    class Meta(LeasedRow.Meta):
        abstract = False
        # The list filtered by how far transcripts are imported.
        indexes = (*LeasedRow.Meta.indexes, models.Index(name="sync_by_state", fields=("state",)))

    def __str__(self) -> str:
        return f"sync of {self.session_id} ({self.state})"
