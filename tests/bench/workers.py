"""How many forks a second one, two and four workers get through."""

from __future__ import annotations

import datetime as dt
import time

from django.db.models import Max

from forkhost.kit import clock, wakeups
from operations.choices import OPEN_STATUSES, OperationStatus
from operations.models import Operation
from operations.saga import WAKE_UP
from tests.bench import world
from tests.bench.processes import eventually, running
from tests.bench.report import Report
from tests.bench.sizes import Sizes

AT_LEAST = 150.0
PROMISED_WORKERS = 2


def run(sizes: Sizes, vendor: str) -> Report:
    """Queue forks while nobody may take them, then let the waiting workers go."""
    report = Report("workers", f"Forks a second by number of workers, {vendor}")
    place = world.make_world()
    sources = [place.provided(100 if not sizes.quick else 5, 500 if not sizes.quick else 20) for _ in range(10)]
    for count in sizes.worker_counts:
        with running() as processes:
            for _ in range(count):
                processes.worker()
            # Beyond their first look and their attestations.
            time.sleep(3.0 if not sizes.quick else 0.5)
            speed, wrong = _drain(place, sources, sizes.queued_forks)
        # SQLite has one write lock, and most of a fork is spent under it.
        promised = count == PROMISED_WORKERS and vendor == "postgresql"
        report.add(
            f"{count} worker{'s' if count > 1 else ''}",
            promise=f">= {AT_LEAST:.0f} forks/s" if promised else "",
            kept=speed >= AT_LEAST and not wrong if promised else None,
            facts={"speed": speed, "wrong": wrong, "forks": sizes.queued_forks},
            forks=sizes.queued_forks,
            forks_per_s=f"{speed:.0f}",
            not_committed=wrong,
        )
    return report


def _drain(place: world.World, sources: list, count: int) -> tuple[float, int]:  # type: ignore[type-arg]
    far = clock.now() + dt.timedelta(days=1)
    held = []
    for number in range(count):
        held.append(place.prepare(sources[number % len(sources)]).pk)
        Operation.objects.filter(pk=held[-1], status=OperationStatus.PREPARED).update(next_run_at=far)
    rows = Operation.objects.filter(pk__in=held)
    # One that a worker was quick enough to take before it was held back does not count.
    waiting = rows.filter(status=OperationStatus.PREPARED, lease_token__isnull=True, next_run_at=far)
    begun = clock.now()
    released = waiting.update(next_run_at=clock.database_now())
    wakeups.notify(WAKE_UP)
    # Looked at seldom and without a list of ids, or looking would take the processor away from the forks.
    still_open = Operation.objects.filter(status__in=OPEN_STATUSES)
    eventually(lambda: not still_open.exists(), seconds=180, what="the last fork", every=0.1)
    ended = rows.aggregate(last=Max("completed_at"))["last"]
    return released / (ended - begun).total_seconds(), rows.exclude(status=OperationStatus.COMMITTED).count()
