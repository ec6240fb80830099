"""What many forks of one large source cost in time and bytes."""

from __future__ import annotations

import time

from sessions import store
from tests.bench import world
from tests.bench.report import Report, median, ms, p95
from tests.bench.sizes import Sizes

MOST_BYTES = 3_000


def run(sizes: Sizes, vendor: str) -> Report:
    """Fork the source again and again, through the store and through the saga."""
    turns, events = sizes.many_source
    title = f"{sizes.many_forks:,} forks of one source of {turns:,} turns / {events:,} events, {vendor}"
    report = Report("many", title)
    place = world.make_world()
    hosted = place.hosted(turns, events)
    provided = place.provided(turns, events)
    for name, fork, promised in (
        ("the history alone (store)", lambda: store.fork(hosted.pk), True),
        ("the whole saga: with operation, snapshot, result, audit", lambda: place.fork(provided), False),
    ):
        before, before_rows = world.database_bytes(), world.count_rows()
        samples = []
        for _ in range(sizes.many_forks):
            begun = time.perf_counter()
            fork()
            samples.append(time.perf_counter() - begun)
        grown = (world.database_bytes() - before) / sizes.many_forks
        gained = sum(world.rows_between(before_rows, world.count_rows()).values())
        report.add(
            name,
            promise=f"<= {MOST_BYTES:,} bytes each" if promised else "",
            kept=grown <= MOST_BYTES if promised else None,
            facts={"bytes": grown, "rows": gained / sizes.many_forks},
            seconds=f"{sum(samples):.1f}",
            median_ms=ms(median(samples)),
            p95_ms=ms(p95(samples)),
            bytes_each=f"{grown:,.0f}",
            rows_each=f"{gained / sizes.many_forks:g}",
        )
    return report
