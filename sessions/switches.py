"""The two switches of a workspace that an operator may turn. Each is audited with its reason."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from sessions.choices import AuditAction, ForkContract
from sessions.models import SessionAudit, Workspace


def switch_forks(workspace: Workspace, enabled: bool, *, actor: str, reason: str) -> bool:
    """Allow new forks or refuse them; reads, replays, acknowledgements and recovery go on. False: it was so already."""
    return _switch(workspace, {"forks_enabled": enabled}, AuditAction.FORKS_SWITCH, actor, reason)


def switch_contract(workspace: Workspace, contract: ForkContract, *, actor: str, reason: str) -> bool:
    """Choose the contract of later forks; those that exist keep theirs. False: it was so already."""
    return _switch(workspace, {"fork_contract": contract}, AuditAction.CONTRACT_SWITCH, actor, reason)


def _switch(workspace: Workspace, values: dict[str, Any], action: AuditAction, actor: str, reason: str) -> bool:
    with transaction.atomic():
        changed = Workspace.objects.filter(pk=workspace.pk).exclude(**values).update(**values)
        if changed:
            SessionAudit.objects.create(
                workspace_id=workspace.pk, actor=actor[:200], action=action, detail={**values, "reason": reason}
            )
    return bool(changed)
