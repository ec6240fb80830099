"""What the installed Claude Agent SDK proved about itself."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions.providers.base import Attestation, BindingMode, HomeRef, IdentityMode, Json, PointSupport
from sessions.providers.claude import sdk

DRIVER_KIND = "claude-agent-sdk"
PROCESS_MODULE = "sessions.providers.claude.fork_process"
ATTEST_SECONDS = 60.0
LONGEST_FORK_SECONDS = 300.0

# SHA-256 of the SDK's module that forks, for the versions whose behaviour was established by running them:
# it is the same file in 0.2.143 to 0.2.189.
PROVEN_DIGESTS = frozenset({"16653fb5dbb6e9963e05ef1522e43ba4b8e28fd0b037e4749dde865ca9e4e675"})

_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH")
_CODE_ROOT = Path(__file__).resolve().parents[3]

SENTENCES = {
    "home_missing": "The agent's folder is no longer there.",
    "claude_sdk_missing": "The Claude Agent SDK is not installed beside forkhost, so sessions can be read only.",
    "claude_sdk_silent": "The process that would make the fork did not start or gave no answer.",
    "claude_sdk_changed": "This version of the Claude Agent SDK has another fork call than the one that was proven.",
    "claude_sdk_unproven": "Forking with this version of the Claude Agent SDK was never proven.",
    "claude_self_test_failed": "The SDK's own fork came out wrong in a test, so it is not used.",
}


@dataclass(frozen=True, slots=True)
class Runtime:
    """How the fork process is started. The same for attesting and for forking."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]


def runtime(home: HomeRef) -> Runtime:
    """The fork process for one home. It starts in our own code's folder: ``-m`` would import from any other."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["CLAUDE_CONFIG_DIR"] = str(home.path)
    return Runtime((sys.executable, "-m", PROCESS_MODULE), _CODE_ROOT, environment)


def attest(home: HomeRef) -> Attestation:
    """Never raises. The SDK counts only when its code is known and a fork in memory came out right."""
    if not home.path.is_dir():
        return _unsupported("home_missing", SENTENCES["home_missing"])
    process = runtime(home)
    facts = _facts(process)
    if isinstance(facts, str):
        return _unsupported(facts, SENTENCES[facts])
    version = str(facts["version"])
    if tuple(facts["signature"]) != sdk.SIGNATURE:
        return _unsupported("claude_sdk_changed", SENTENCES["claude_sdk_changed"], version)
    if facts["digest"] not in PROVEN_DIGESTS:
        return _unsupported("claude_sdk_unproven", SENTENCES["claude_sdk_unproven"], version)
    if facts["selfTest"]:
        return _unsupported("claude_self_test_failed", f"The SDK's fork is not right: {facts['selfTest']}.", version)
    return Attestation(
        driver_kind=DRIVER_KIND,
        driver_version=version,
        fingerprint=_fingerprint(process, facts),
        points=PointSupport.ANY_TURN,
        whole_session=True,
        binding_mode=BindingMode.PROVIDER_OWNED,
        identity_mode=IdentityMode.ANNOUNCED,
        longest_fork_seconds=LONGEST_FORK_SECONDS,
        executable=str(facts["file"]),
    )


def _unsupported(reason: str, detail: str, version: str = "") -> Attestation:
    return Attestation(
        driver_kind=DRIVER_KIND,
        driver_version=version,
        fingerprint="",
        points=PointSupport.UNSUPPORTED,
        whole_session=False,
        binding_mode=BindingMode.PROVIDER_OWNED,
        identity_mode=IdentityMode.ANNOUNCED,
        longest_fork_seconds=LONGEST_FORK_SECONDS,
        reason=reason,
        detail=detail,
    )


_proven: dict[str, Json] = {}


def _facts(process: Runtime) -> Json | str:
    """What the fork process says about the SDK, or a reason code. Kept while interpreter and SDK files stay the same."""
    key = _files_key(process)
    if key is None:
        return "claude_sdk_missing"
    if key not in _proven:
        answer = _ask(process)
        if isinstance(answer, str):
            return answer
        _proven.clear()
        _proven[key] = answer
    return _proven[key]


def _files_key(process: Runtime) -> str | None:
    spec = importlib.util.find_spec(sdk.PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    module = Path(spec.submodule_search_locations[0]) / "_internal" / "session_mutations.py"
    try:
        return json.dumps([list(process.argv), _identity(Path(process.argv[0])), _identity(module)])
    except OSError:
        return None


def _ask(process: Runtime) -> Json | str:
    try:
        done = subprocess.run(
            [*process.argv, "--attest"],
            cwd=process.cwd,
            env=dict(process.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ATTEST_SECONDS,
            check=False,
        )
        answer: Any = json.loads(done.stdout or b"{}")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "claude_sdk_silent"
    if answer.get("event") == "ready":
        facts: Json = answer["facts"]
        return facts
    return str(answer.get("reason") or "claude_sdk_silent")


def _identity(path: Path) -> list[Any]:
    resolved = path.resolve()
    stat = resolved.stat()
    return [str(resolved), stat.st_size, stat.st_mtime_ns]


def _fingerprint(process: Runtime, facts: Json) -> str:
    parts = [
        list(process.argv),
        str(process.cwd),
        hashlib.sha256(json.dumps(sorted(process.environment.items())).encode()).hexdigest(),
        _identity(Path(process.argv[0])),
        _identity(Path(facts["file"])),
        facts["version"],
        facts["digest"],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
