"""Imports the transcripts of one home through the real adapter and store, and says how long it took.

    python -m tests.bench.import_one PROVIDER HOME

A process of its own, because its peak memory is one of the figures. Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import django


def peak_bytes() -> int:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(provider: str, folder: str) -> None:
    """Import everything below ``folder``."""
    django.setup()
    from django.db.models import Sum

    from sessions import runners, workspaces
    from sessions.discovery import Scanner
    from sessions.importing import import_claimed
    from sessions.models import Event, Home, SessionSync, Turn
    from sessions.providers import registry
    from sessions.syncing import claim_next
    from sessions.worker import settle

    settle()
    runner = runners.start(workspaces.default_workspace(), "bench")
    home = Home.objects.create(runner=runner, provider=provider, path=folder, queue=str(runner.pk))
    Scanner(home, registry.adapter(provider)).scan()
    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    slices = 0
    while (lease := claim_next(runner.pk, "bench", hurried=False)) is not None:
        import_claimed(lease, lambda: False)
        slices += 1
    # Counting below looks at all of the database, which SQLite maps into this process.
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak_bytes()}
    syncs = SessionSync.objects.filter(session__home=home)
    print(
        json.dumps(
            {
                **taken,
                "slices": slices,
                "bytes": syncs.aggregate(all=Sum("bytes_done"))["all"],
                "states": sorted(syncs.values_list("state", flat=True)),
                "events": Event.objects.count(),
                "turns": Turn.objects.count(),
                "peakBefore": before,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
