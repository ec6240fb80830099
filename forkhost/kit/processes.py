"""Which process is meant, and whether it is certainly dead.

A pid alone names nothing: it is reused, and it restarts with the machine. Pid, start time and boot id together name one
process for ever. Linux only; elsewhere nothing is ever proven dead.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROC = Path("/proc")
BOOT_ID = PROC / "sys" / "kernel" / "random" / "boot_id"


class Identity(Protocol):
    """What names a process: ``started_at`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot, decimal)."""

    @property
    def pid(self) -> int: ...

    @property
    def started_at(self) -> str: ...

    @property
    def boot_id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process of one boot."""

    pid: int
    started_at: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    group: int
    session: int
    started_at: str

    @property
    def ended(self) -> bool:
        """A zombie waits for its parent only; it runs no code any more."""
        return self.state in "ZXx"


def boot_id() -> str:
    """This boot's id, "" where the system has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def identify(pid: int | None = None) -> ProcessName:
    """Name a running process, this one by default. Raises ProcessLookupError when there is none."""
    number = os.getpid() if pid is None else pid
    stat = _stat(number)
    if stat is None:
        raise ProcessLookupError(f"no process {number}")
    return ProcessName(number, stat.started_at, boot_id())


def pid_namespace() -> str:
    """The namespace in which this process sees pids, "" where the system has none. Each container has its own."""
    try:
        return os.readlink(PROC / "self" / "ns" / "pid")
    except OSError:
        return ""


def is_dead(identity: Identity, namespace: str | None = None) -> bool:
    """Whether the process and everything left of its process group and session has certainly ended.

    False when it lives and when nothing can be proven, as of a process whose pid was given in another ``namespace``
    (None: this one). A descendant that made a session of its own is not seen.
    """
    here = boot_id()
    if not here or not identity.boot_id or not identity.started_at.isdecimal() or identity.pid <= 0:
        return False
    if identity.boot_id != here:
        return True
    if namespace is not None and namespace != pid_namespace():
        return False
    leader = _stat(identity.pid)
    if leader is not None and leader.started_at != identity.started_at:
        # A pid is handed out again only after the last member of the group it named has gone.
        return True
    if leader is not None and not leader.ended:
        return False
    return not _has_members(identity.pid)


def _has_members(group: int) -> bool:
    for entry in os.scandir(PROC):
        if not entry.name.isdecimal():
            continue
        stat = _stat(int(entry.name))
        if stat is not None and not stat.ended and group in (stat.group, stat.session):
            return True
    return False


def _stat(pid: int) -> _Stat | None:
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses and may hold anything, blanks and parentheses too.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return _Stat(
        state=fields[0].decode("ascii"),
        group=int(fields[2]),
        session=int(fields[3]),
        started_at=fields[19].decode("ascii"),
    )


def yield_to_others(niceness: int) -> None:
    """Let other processes go first from now on, as far as the system allows it.

    Linux schedules each session as one group, so within a session of its own a process's niceness says nothing to the
    others; the group has one, too.
    """
    with contextlib.suppress(OSError):
        os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            (PROC / "self" / "autogroup").write_text(str(niceness), encoding="ascii")
