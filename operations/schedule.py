"""When something is tried or looked at again."""

from __future__ import annotations

import datetime as dt

from forkhost.kit import clock

MINUTE = 60.0
HOUR = 60 * MINUTE

# After the dispatch of an operation whose outcome is unknown; then a person is needed.
LOOKUPS = (1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 1 * HOUR, 6 * HOUR, 24 * HOUR)
# A person who keeps an operation unknown sees it again after this long.
SNOOZE = 24 * HOUR

LOCAL_WORK = (0.2, 1.0, 5.0, 15.0, 60.0, 5 * MINUTE, 10 * MINUTE)
# Local work that failed this often waits for a person; it is still tried.
LOCAL_WORK_PATIENCE = 5


def first_look(dispatched_at: dt.datetime | None) -> dt.datetime:
    """When an operation that just became unknown is looked up first: now, or at the first step of the schedule."""
    now = clock.now()
    return max(now, (dispatched_at or now) + dt.timedelta(seconds=LOOKUPS[0]))


def next_look(dispatched_at: dt.datetime | None) -> dt.datetime | None:
    """The next step of the schedule after now; None: there is none, a person is needed."""
    now = clock.now()
    for seconds in LOOKUPS:
        at = (dispatched_at or now) + dt.timedelta(seconds=seconds)
        if at > now:
            return at
    return None


def local_work_again_in(attempts: int) -> float:
    """Seconds until local work that failed for the ``attempts``-th time is tried again."""
    return LOCAL_WORK[min(max(attempts, 1), len(LOCAL_WORK)) - 1]
