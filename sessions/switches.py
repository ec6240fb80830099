"""What an operator may decide about a workspace. Each change is audited with its reason."""

from __future__ import annotations

import secrets
from typing import Any

from django.db import transaction

from sessions.choices import AuditAction, ForkContract, Settlement
from sessions.models import ForkHome, Home, SessionAudit, Workspace


def switch_forks(workspace: Workspace, enabled: bool, *, actor: str, reason: str) -> bool:
    """Allow new forks or refuse them; reads, replays, acknowledgements and recovery go on. False: it was so already."""
    return _switch(workspace, {"forks_enabled": enabled}, AuditAction.FORKS_SWITCH, actor, reason)


def switch_contract(workspace: Workspace, contract: ForkContract, *, actor: str, reason: str) -> bool:
    """Choose the contract of later forks; those that exist keep theirs. False: it was so already."""
    return _switch(workspace, {"fork_contract": contract}, AuditAction.CONTRACT_SWITCH, actor, reason)


def switch_settlement(workspace: Workspace, settlement: Settlement, *, actor: str, reason: str) -> bool:
    """Let proof settle unknown forks, or always ask an operator; from the next look on. False: it was so already."""
    return _switch(workspace, {"settlement": settlement}, AuditAction.SETTLEMENT_SWITCH, actor, reason)


def set_webhook(workspace: Workspace, url: str, *, actor: str, reason: str) -> str:
    """Tell ``url`` from now on, under a new secret, which is returned and shown once; "" tells nobody any more.

    The audit keeps the address without its secret.
    """
    secret = secrets.token_urlsafe(32) if url else ""
    with transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(webhook_url=url, webhook_secret=secret)
        SessionAudit.objects.create(
            workspace_id=workspace.pk,
            actor=actor[:200],
            action=AuditAction.WEBHOOK_SET,
            detail={"url": url, "reason": reason},
        )
    return secret


def set_fork_home(workspace: Workspace, provider: str, home: Home | None, *, actor: str, reason: str) -> bool:
    """Let later forks of the provider's sessions live in ``home``; None: each in its source's. False: it was so already.

    Raises ValueError when the home is another provider's or another workspace's.
    """
    if home is not None and (home.provider != provider or home.runner.workspace_id != workspace.pk):
        raise ValueError(f"home {home.pk} is no home of {provider!r} in this workspace")
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        known = ForkHome.objects.filter(workspace=workspace, provider=provider)
        if (known.values_list("home_id", flat=True).first()) == (home.pk if home is not None else None):
            return False
        known.delete()
        if home is not None:
            ForkHome.objects.create(workspace=workspace, provider=provider, home=home)
        detail = {"provider": provider, "home": str(home.pk) if home else "", "path": home.path if home else ""}
        SessionAudit.objects.create(
            workspace_id=workspace.pk,
            actor=actor[:200],
            action=AuditAction.FORK_HOME_SET,
            detail={**detail, "reason": reason},
        )
    return True


def _switch(workspace: Workspace, values: dict[str, Any], action: AuditAction, actor: str, reason: str) -> bool:
    with transaction.atomic():
        changed = Workspace.objects.filter(pk=workspace.pk).exclude(**values).update(**values)
        if changed:
            SessionAudit.objects.create(
                workspace_id=workspace.pk, actor=actor[:200], action=action, detail={**values, "reason": reason}
            )
    return bool(changed)
