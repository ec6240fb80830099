"""A fork asks for the source's rights, and wider ones in an answer are noticed."""

from __future__ import annotations

from typing import Any

import pytest

from sessions.providers.base import ForkSettings
from sessions.providers.codex.settings import as_json, fork_parameters, from_context, from_reply, widened

WRITE: dict[str, Any] = {
    "type": "workspace-write",
    "writable_roots": ["/data"],
    "network_access": False,
    "exclude_slash_tmp": True,
    "exclude_tmpdir_env_var": True,
}
GIVEN_WRITE: dict[str, Any] = {
    "type": "workspaceWrite",
    "writableRoots": ["/data"],
    "networkAccess": False,
    "excludeSlashTmp": True,
    "excludeTmpdirEnvVar": True,
}


@pytest.mark.parametrize(
    ("asked", "given", "wider"),
    [
        ({"type": "read-only"}, {"type": "readOnly", "networkAccess": False}, False),
        ({"type": "read-only"}, {"type": "readOnly", "networkAccess": True}, True),
        ({"type": "read-only"}, GIVEN_WRITE, True),
        (WRITE, {"type": "readOnly"}, False),
        (WRITE, GIVEN_WRITE, False),
        (WRITE, {**GIVEN_WRITE, "networkAccess": True}, True),
        (WRITE, {**GIVEN_WRITE, "writableRoots": ["/data", "/etc"]}, True),
        (WRITE, {**GIVEN_WRITE, "writableRoots": []}, False),
        (WRITE, {**GIVEN_WRITE, "excludeSlashTmp": False}, True),
        (WRITE, {**GIVEN_WRITE, "excludeTmpdirEnvVar": False}, True),
        (WRITE, {"type": "dangerFullAccess"}, True),
        ({"mode": "danger-full-access"}, {"type": "dangerFullAccess"}, False),
        ({"type": "danger-full-access"}, GIVEN_WRITE, False),
        ({"type": "read-only"}, {"type": "somethingNew"}, True),
        ({}, {"type": "dangerFullAccess"}, False),
    ],
)
def test_a_wider_sandbox_is_noticed(asked: dict[str, Any], given: dict[str, Any], wider: bool) -> None:
    found = widened(ForkSettings(sandbox=asked), from_reply({"sandbox": given}))
    assert found == (["sandbox"] if wider else [])


@pytest.mark.parametrize(
    ("asked", "given", "wider"),
    [
        ("untrusted", "untrusted", False),
        ("untrusted", "on-request", True),
        ("on-request", "never", True),
        ("never", "on-request", False),
        ("never", {"granular": {"rules": True}}, True),
        ('{"granular": {"rules": true}}', {"granular": {"rules": True}}, False),
        ("", "never", False),
    ],
)
def test_an_approval_policy_that_asks_less_is_noticed(asked: str, given: object, wider: bool) -> None:
    found = widened(ForkSettings(approval_policy=asked), from_reply({"approvalPolicy": given}))
    assert found == (["approval policy"] if wider else [])


def test_what_the_source_recorded_is_asked_for_and_nothing_else() -> None:
    recorded = {"model": "m", "effort": "low", "approval_policy": "on-request", "sandbox_policy": WRITE, "cwd": "/p"}
    assert fork_parameters(from_context(recorded)) == {
        "model": "m",
        "approvalPolicy": "on-request",
        "sandbox": "workspace-write",
        "config": {
            "model_reasoning_effort": "low",
            "sandbox_workspace_write": {key: value for key, value in WRITE.items() if key != "type"},
        },
    }
    assert fork_parameters(ForkSettings()) == {}


def test_a_permission_profile_is_understood_where_no_sandbox_is_recorded() -> None:
    entries = [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
        {"path": {"type": "path", "path": "/p"}, "access": "write"},
        {"path": {"type": "path", "path": "/data"}, "access": "write"},
    ]
    files = {"type": "restricted", "entries": entries}
    profile = {"type": "managed", "file_system": files, "network": "restricted"}
    assert from_context({"permission_profile": profile, "cwd": "/p"}).sandbox == WRITE
    reading = {**profile, "file_system": {**files, "entries": entries[:1]}}
    assert from_context({"permission_profile": reading}).sandbox["type"] == "read-only"
    assert from_context({"permission_profile": {"type": "disabled"}}).sandbox == {"type": "danger-full-access"}
    assert from_context({"permission_profile": {"type": "new"}}).sandbox == {}


def test_settings_are_named_as_a_fork_takes_them() -> None:
    settings = ForkSettings(model="m", effort="high", approval_policy="never", sandbox={"type": "read-only"})
    assert ForkSettings(**as_json(settings)) == settings
    assert as_json(ForkSettings()) == {}
