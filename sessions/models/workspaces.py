"""Who works here and where the agents' state lies."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from forkhost.kit.leases import LeasedRow
from sessions.choices import ForkContract, MemberRole
from sessions.querysets import WorkspaceQuerySet


class Workspace(models.Model):
    """The tenant: members, runners and sessions belong to exactly one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200)
    slug = models.SlugField(max_length=80, unique=True)
    fork_contract = models.CharField(max_length=16, choices=ForkContract, default=ForkContract.OPTIMISTIC)
    forks_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(
                name="workspace_fork_contract_known", condition=models.Q(fork_contract__in=ForkContract.values)
            ),
        )

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user's place in a workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=MemberRole, default=MemberRole.MEMBER)

    class Meta:
        constraints = (models.UniqueConstraint(name="membership_once", fields=("workspace", "user")),)

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace} ({self.role})"


class Runner(models.Model):
    """A machine. ``incarnation`` is new with every start of its worker; ``last_seen_at`` is its heartbeat."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="runners")
    name = models.CharField(max_length=200)
    incarnation = models.UUIDField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(name="runner_name_in_workspace", fields=("workspace", "name")),)

    def __str__(self) -> str:
        return self.name


class Home(LeasedRow):
    """A provider's state folder on a runner. Its lease is the work of looking for sessions in it.

    ``attestation`` is the stored :class:`sessions.providers.base.Attestation` as JSON (null until a worker attested).
    ``queue`` is the runner's id as text.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    runner = models.ForeignKey(Runner, on_delete=models.PROTECT, related_name="homes")
    provider = models.CharField(max_length=64)
    path = models.TextField()
    attestation = models.JSONField(null=True)
    attested_at = models.DateTimeField(null=True)
    scanned_at = models.DateTimeField(null=True)
    problem_code = models.CharField(max_length=64, blank=True, default="")
    problem_text = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(LeasedRow.Meta):
        abstract = False
        constraints = (models.UniqueConstraint(name="home_once", fields=("runner", "provider", "path")),)

    def __str__(self) -> str:
        return f"{self.provider}: {self.path}"
