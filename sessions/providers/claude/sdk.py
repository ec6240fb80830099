"""Finding, proving and calling the Claude Agent SDK. Used inside the fork process only.

The SDK's package imports a protocol stack that forking does not need and that takes a second to load, so only the
module with the fork is loaded, below an empty package.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "claude_agent_sdk"
DISTRIBUTION = "claude-agent-sdk"
MODULE = f"{PACKAGE}._internal.session_mutations"
SIGNATURE = ("session_store", "session_id", "directory", "up_to_message_id", "title")

_SOURCE_ID = "00000000-0000-4000-8000-000000000001"


class SdkMissing(Exception):
    """The SDK is not installed for this interpreter, or cannot be imported."""


def load() -> ModuleType:
    """The SDK's module with the store-backed fork and rename. Raises :class:`SdkMissing`."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SdkMissing("the package is not installed")
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules[PACKAGE] = package
    try:
        return importlib.import_module(MODULE)
    except ImportError as error:
        raise SdkMissing(str(error)) from error


def facts(module: ModuleType) -> dict[str, Any]:
    """Version, file, digest of the code that forks, its signature, and whether the self-test passed."""
    file = Path(str(module.__file__)).resolve()
    fork = getattr(module, "fork_session_via_store", None)
    return {
        "version": metadata.version(DISTRIBUTION),
        "file": str(file),
        "digest": hashlib.sha256(file.read_bytes()).hexdigest(),
        "signature": list(inspect.signature(fork).parameters) if callable(fork) else [],
        "selfTest": _self_test(module),
    }


def fork(module: ModuleType, store: Any, session_id: str, checkpoint: str, title: str) -> str:
    """One native fork; returns the child's id. Raises what the SDK and the store raise.

    An empty checkpoint means "no cut" to the SDK, so it is refused here.
    """
    if not checkpoint:
        raise ValueError("a fork needs the row to cut at")
    result = asyncio.run(
        module.fork_session_via_store(store, session_id, None, up_to_message_id=checkpoint, title=title)
    )
    return str(result.session_id)


def rename(module: ModuleType, store: Any, session_id: str, title: str) -> None:
    """Add a title row. Raises what the SDK and the store raise."""
    asyncio.run(module.rename_session_via_store(store, session_id, title))


class _MemoryStore:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self.appended: list[tuple[str, list[dict[str, Any]]]] = []

    async def load(self, key: Mapping[str, str]) -> list[dict[str, Any]]:
        return self._rows

    async def append(self, key: Mapping[str, str], entries: Sequence[dict[str, Any]]) -> None:
        self.appended.append((key["session_id"], list(entries)))


def _self_test(module: ModuleType) -> str:
    """Fork three made-up rows in memory at the second; "" when the child is right, else what was wrong."""
    ids = [f"00000000-0000-4000-8000-00000000001{n}" for n in range(3)]
    rows = [
        {"type": kind, "uuid": ids[n], "parentUuid": ids[n - 1] if n else None, "sessionId": _SOURCE_ID, "n": n}
        for n, kind in enumerate(("user", "assistant", "user"))
    ]
    store = _MemoryStore(rows)
    try:
        child_id = fork(module, store, _SOURCE_ID, ids[1], "self-test")
    except Exception as error:  # whatever a foreign version does wrong is a finding, not a crash
        return f"{type(error).__name__}: {error}"
    if len(store.appended) != 1 or store.appended[0][0] != child_id or child_id == _SOURCE_ID:
        return "the child was not handed over once under its own id"
    entries = store.appended[0][1]
    inherited = [entry for entry in entries if "forkedFrom" in entry]
    named = [entry["forkedFrom"] for entry in inherited]
    if named != [{"sessionId": _SOURCE_ID, "messageUuid": uuid} for uuid in ids[:2]]:
        return "the inherited rows do not name their origin"
    if inherited[1]["parentUuid"] != inherited[0]["uuid"] or inherited[0]["uuid"] in ids:
        return "the inherited rows were not renamed"
    last = entries[-1]
    if last.get("type") != "custom-title" or last.get("customTitle") != "self-test" or not last.get("uuid"):
        return "the title row is not the last one"
    return ""
