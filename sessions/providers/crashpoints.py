"""Named places where the fault tests kill a process, as a power cut would.

Inert unless ``FORKHOST_CRASH_AT`` names one of them. It lies below the adapters, because some of the places do.
"""

from __future__ import annotations

import enum
import os
import signal

VARIABLE = "FORKHOST_CRASH_AT"


class CrashPoint(enum.StrEnum):
    """In the order in which a fork passes them. The two ``AGENT_`` places lie in a process of the adapter's own."""

    BEFORE_PREPARE_COMMITS = "before_prepare_commits"
    AFTER_PREPARE = "after_prepare"
    AFTER_DISPATCH_MARK = "after_dispatch_mark"
    DURING_CALL = "during_call"
    AGENT_WRITES_CHILD = "agent_writes_child"
    AGENT_WROTE_CHILD = "agent_wrote_child"
    AFTER_CHILD_MADE = "after_child_made"
    AFTER_CALL = "after_call"
    AFTER_ACCEPT = "after_accept"
    DURING_MATERIALISE = "during_materialise"
    AFTER_COMMIT = "after_commit"
    BEFORE_ACKNOWLEDGE_COMMITS = "before_acknowledge_commits"


def crash_point(point: CrashPoint) -> None:
    """Kill this process with SIGKILL when the environment names ``point``."""
    if os.environ.get(VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)


def handed_on() -> dict[str, str]:
    """What a process of an adapter's own needs in its environment to die where this one was told."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
