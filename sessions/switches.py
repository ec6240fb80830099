"""What an operator may decide about a workspace. Each change is audited with its reason."""

from __future__ import annotations

import secrets
from typing import Any

from django.db import transaction

from sessions.choices import AuditAction, ForkContract, Settlement
from sessions.models import SessionAudit, Workspace


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


def _switch(workspace: Workspace, values: dict[str, Any], action: AuditAction, actor: str, reason: str) -> bool:
    with transaction.atomic():
        changed = Workspace.objects.filter(pk=workspace.pk).exclude(**values).update(**values)
        if changed:
            SessionAudit.objects.create(
                workspace_id=workspace.pk, actor=actor[:200], action=action, detail={**values, "reason": reason}
            )
    return bool(changed)
