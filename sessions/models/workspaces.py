"""Who works here and where the agents' state lies."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from forkhost.kit.leased_rows import LeasedRow
from sessions.choices import ForkContract, MemberRole, Settlement
from sessions.querysets import WorkspaceQuerySet


class Workspace(models.Model):
    """The tenant: members, runners and sessions belong to exactly one.

    ``webhook_url`` is told about forks that need a person or were settled; each message is signed with
    ``webhook_secret``, which has to be readable here and is shown nowhere. Both are set, or neither.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200)
    slug = models.SlugField(max_length=80, unique=True)
    fork_contract = models.CharField(max_length=16, choices=ForkContract, default=ForkContract.OPTIMISTIC)
    forks_enabled = models.BooleanField(default=True)
    settlement = models.CharField(max_length=16, choices=Settlement, default=Settlement.AUTOMATIC)
    webhook_url = models.URLField(max_length=500, blank=True, default="")
    webhook_secret = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(
                name="workspace_fork_contract_known", condition=models.Q(fork_contract__in=ForkContract.values)
            ),
            models.CheckConstraint(
                name="workspace_settlement_known", condition=models.Q(settlement__in=Settlement.values)
            ),
            models.CheckConstraint(
                name="workspace_webhook_is_signed",
                condition=models.Q(webhook_url="", webhook_secret="")
                | (~models.Q(webhook_url="") & ~models.Q(webhook_secret="")),
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


class ForkHome(models.Model):
    """The home in which a workspace wants the forks of one provider to live; without one they live in their source's.

    Whether an adapter can bring a fork there is asked when the fork is prepared.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="fork_homes")
    provider = models.CharField(max_length=64)
    home = models.ForeignKey(Home, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(name="fork_home_once", fields=("workspace", "provider")),)

    def __str__(self) -> str:
        return f"{self.workspace}: {self.home}"
