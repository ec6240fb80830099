"""Who works on a session right now: ``<config>/sessions/<pid>.json``.

Every running agent keeps one such file with the session it has open and whether it is busy. A killed agent leaves its
file behind, so a process is believed only while the pid lives and started when the file says.
"""

from __future__ import annotations

import enum
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions.providers.base import Json

REST_MS = 5000

_STAT_START_TIME = 22


class OwnerState(enum.Enum):
    """What is known about the processes that have a session open."""

    BUSY = "busy"
    IDLE = "idle"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Owner:
    """``since_ms`` is when the state was entered, 0 when the agent does not say."""

    state: OwnerState
    since_ms: int = 0

    @property
    def at_rest(self) -> bool:
        """Idle for so long that every row of the work before it has reached the disk."""
        return self.state is OwnerState.IDLE and time.time() * 1000 - self.since_ms >= REST_MS


GONE = Owner(OwnerState.GONE)


def owners(config: Path) -> dict[str, Owner]:
    """The owner of every session that a living process has open; a busy one outweighs an idle one."""
    found: dict[str, Owner] = {}
    for entry in _entries(config):
        session_id = entry.get("sessionId")
        if not isinstance(session_id, str) or not _alive(entry):
            continue
        owner = _owner(entry)
        known = found.get(session_id)
        if known is None or owner.state is OwnerState.BUSY:
            found[session_id] = owner
    return found


def owner_of(config: Path, session_id: str) -> Owner:
    """The owner of one session; ``GONE`` when no living process has it open."""
    return owners(config).get(session_id, GONE)


def _entries(config: Path) -> Iterator[Json]:
    try:
        names = [name for name in os.listdir(config / "sessions") if name.endswith(".json")]
    except OSError:
        return
    for name in names:
        try:
            entry = json.loads((config / "sessions" / name).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(entry, dict):
            yield entry


def _owner(entry: Json) -> Owner:
    """Anything but a plain "idle" counts as busy: only idle is proof."""
    since: Any = entry.get("statusUpdatedAt", entry.get("updatedAt"))
    state = OwnerState.IDLE if entry.get("status") == "idle" else OwnerState.BUSY
    return Owner(state, since if isinstance(since, int) else 0)


def _alive(entry: Json) -> bool:
    """Whether the process that wrote the entry still runs; True when that cannot be told from here."""
    pid = entry.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    if _elsewhere(entry.get("pidDomain")):
        return True
    started = process_started_at(pid)
    if started is not None:
        return str(entry.get("procStart") or started) == started
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _elsewhere(domain: Any) -> bool:
    """Whether the entry's pid belongs to another pid namespace, where our look-up would find a stranger."""
    if not isinstance(domain, str) or ":pid:[" not in domain:
        return False
    try:
        ours = os.readlink("/proc/self/ns/pid")
    except OSError:
        return False
    return not domain.endswith(ours)


def process_started_at(pid: int) -> str | None:
    """The kernel's start time of a process in clock ticks since boot, None when there is no such process.

    A zombie counts as gone: it can do nothing more.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    after_name = stat[stat.rfind(b")") + 2 :].split()
    if after_name[0] in (b"Z", b"X"):
        return None
    return after_name[_STAT_START_TIME - 3].decode("ascii")
