"""Named places where the fault tests kill this process, as a power cut would.

Inert unless ``FORKHOST_CRASH_AT`` names one of them. ``DURING_CALL`` and ``AFTER_CHILD_MADE`` lie inside a provider, so
only a provider made for tests passes through them.
"""

from __future__ import annotations

import enum
import os
import signal

VARIABLE = "FORKHOST_CRASH_AT"


class CrashPoint(enum.StrEnum):
    """In the order in which a fork passes them."""

    BEFORE_PREPARE_COMMITS = "before_prepare_commits"
    AFTER_PREPARE = "after_prepare"
    AFTER_DISPATCH_MARK = "after_dispatch_mark"
    DURING_CALL = "during_call"
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
