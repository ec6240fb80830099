"""What a thread may do: reading it from a rollout, asking for it in a fork, and telling when an answer is wider."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from sessions.providers.base import ForkSettings, Json
from sessions.providers.codex.records import list_of, model_and_effort, text_of


class Sandbox(enum.StrEnum):
    """Codex's sandbox modes as it takes them, narrowest first."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    EXTERNAL = "external-sandbox"
    FULL_ACCESS = "danger-full-access"


SANDBOX_ORDER = list(Sandbox)
# Who asks a person most comes first.
APPROVAL_ORDER = ["untrusted", "on-request", "on-failure", "never"]

_SPELLINGS = {
    "readOnly": Sandbox.READ_ONLY,
    "workspaceWrite": Sandbox.WORKSPACE_WRITE,
    "externalSandbox": Sandbox.EXTERNAL,
    "dangerFullAccess": Sandbox.FULL_ACCESS,
    **{mode.value: mode for mode in Sandbox},
}


def from_context(payload: Json) -> ForkSettings:
    """The settings in a ``turn_context`` or in ``thread_settings``."""
    model, effort = model_and_effort(payload)
    sandbox = payload.get("sandbox_policy")
    if not isinstance(sandbox, dict):
        roots = [text_of(payload, "cwd"), *list_of(payload, "runtime_workspace_roots")]
        sandbox = _from_profile(payload.get("permission_profile"), [str(root) for root in roots if root])
    return ForkSettings(
        model=model,
        effort=effort,
        approval_policy=_approval_text(payload.get("approval_policy")),
        sandbox=sandbox,
    )


def as_json(settings: ForkSettings) -> Json:
    """The recorded ones, under the names of :class:`ForkSettings`."""
    named: Json = {
        "model": settings.model,
        "effort": settings.effort,
        "permission_mode": settings.permission_mode,
        "approval_policy": settings.approval_policy,
        "sandbox": settings.sandbox,
    }
    return {name: value for name, value in named.items() if value}


def fork_parameters(settings: ForkSettings) -> Json:
    """The parameters of ``thread/fork`` that ask for these settings; only what is recorded is asked for."""
    parameters: Json = {}
    config: Json = {}
    if settings.model:
        parameters["model"] = settings.model
    if settings.approval_policy:
        granular = settings.approval_policy.startswith("{")
        parameters["approvalPolicy"] = json.loads(settings.approval_policy) if granular else settings.approval_policy
    if settings.effort:
        config["model_reasoning_effort"] = settings.effort
    mode = sandbox_mode(settings.sandbox)
    if mode is not None and mode is not Sandbox.EXTERNAL:
        parameters["sandbox"] = mode.value
    if mode is Sandbox.WORKSPACE_WRITE:
        config["sandbox_workspace_write"] = {
            "network_access": bool(_value(settings.sandbox, "network_access")),
            "writable_roots": _roots(settings.sandbox),
            "exclude_slash_tmp": bool(_value(settings.sandbox, "exclude_slash_tmp")),
            "exclude_tmpdir_env_var": bool(_value(settings.sandbox, "exclude_tmpdir_env_var")),
        }
    if config:
        parameters["config"] = config
    return parameters


def widened(asked: ForkSettings, given: ForkSettings) -> list[str]:
    """Which rights ``given`` has beyond ``asked``; what was not asked for or is not known is not compared."""
    wider: list[str] = []
    if asked.approval_policy and given.approval_policy and _approval_wider(asked, given):
        wider.append("approval policy")
    if asked.sandbox and given.sandbox and _sandbox_wider(asked.sandbox, given.sandbox):
        wider.append("sandbox")
    return wider


def from_reply(reply: Json) -> ForkSettings:
    """The settings that the reply of ``thread/fork`` says the child has."""
    sandbox = reply.get("sandbox")
    return ForkSettings(
        model=text_of(reply, "model"),
        effort=text_of(reply, "reasoningEffort"),
        approval_policy=_approval_text(reply.get("approvalPolicy")),
        sandbox=sandbox if isinstance(sandbox, dict) else {},
    )


def sandbox_mode(policy: Mapping[str, Any]) -> Sandbox | None:
    """The mode of a policy in any version's spelling."""
    return _SPELLINGS.get(str(policy.get("type") or policy.get("mode") or ""))


def _approval_text(policy: Any) -> str:
    """A policy by name as it is, a granular one as canonical JSON, so that two can be compared."""
    if isinstance(policy, dict):
        return json.dumps(policy, sort_keys=True)
    return policy if isinstance(policy, str) else ""


def _approval_wider(asked: ForkSettings, given: ForkSettings) -> bool:
    if asked.approval_policy == given.approval_policy:
        return False
    ranks = {name: rank for rank, name in enumerate(APPROVAL_ORDER)}
    if asked.approval_policy not in ranks or given.approval_policy not in ranks:
        return True
    return ranks[given.approval_policy] > ranks[asked.approval_policy]


def _sandbox_wider(asked: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    asked_mode, given_mode = sandbox_mode(asked), sandbox_mode(given)
    if asked_mode is None or given_mode is None:
        return asked != given
    if asked_mode is not given_mode:
        return SANDBOX_ORDER.index(given_mode) > SANDBOX_ORDER.index(asked_mode)
    if asked_mode is Sandbox.FULL_ACCESS:
        return False
    if _network(given) and not _network(asked):
        return True
    if asked_mode is not Sandbox.WORKSPACE_WRITE:
        return False
    narrowings = ("exclude_slash_tmp", "exclude_tmpdir_env_var")
    if any(_value(asked, name) and not _value(given, name) for name in narrowings):
        return True
    return not set(_roots(given)) <= set(_roots(asked))


def _network(policy: Mapping[str, Any]) -> bool:
    return _value(policy, "network_access") in (True, "enabled")


def _roots(policy: Mapping[str, Any]) -> list[str]:
    roots = _value(policy, "writable_roots")
    return [str(root) for root in roots] if isinstance(roots, list) else []


def _value(policy: Mapping[str, Any], name: str) -> Any:
    """A value under its name in a rollout, or under its name in the protocol."""
    first, *rest = name.split("_")
    return policy.get(name, policy.get(first + "".join(word.capitalize() for word in rest)))


def _from_profile(profile: Any, workspace: list[str]) -> Json:
    """The sandbox that a permission profile amounts to, {} when it is not understood.

    Writing inside the ``workspace`` folders is what the mode means, so those are no further roots.
    """
    kind = text_of(profile, "type")
    if kind == "disabled":
        return {"type": Sandbox.FULL_ACCESS.value}
    files = profile.get("file_system") if kind == "managed" else None
    if not isinstance(files, dict) or files.get("type") != "restricted":
        return {}
    writes = [entry.get("path") for entry in list_of(files, "entries") if text_of(entry, "access") == "write"]
    network = profile.get("network") == "enabled"
    if not writes:
        return {"type": Sandbox.READ_ONLY.value, "network_access": network}
    special = {text_of(path.get("value"), "kind") for path in writes if isinstance(path, dict)}
    if "root" in special:
        return {}
    return {
        "type": Sandbox.WORKSPACE_WRITE.value,
        "writable_roots": [root for path in writes if (root := text_of(path, "path")) and not _within(root, workspace)],
        "network_access": network,
        "exclude_slash_tmp": "slash_tmp" not in special,
        "exclude_tmpdir_env_var": "tmpdir" not in special,
    }


def _within(path: str, folders: list[str]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)
