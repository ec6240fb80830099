"""Whether a fork costs the same however long the history is: sources of several lengths, forked in turns."""

from __future__ import annotations

import time

from sessions import store
from sessions.models import Session
from tests.bench import world
from tests.bench.report import Report, median, ms, p95
from tests.bench.sizes import Sizes

MOST_RATIO = 1.1


def run(sizes: Sizes, vendor: str) -> Report:
    """Fork through the SessionStore and through the whole saga."""
    report = Report("fork", f"The cost of a fork against the length of the history, {vendor}")
    place = world.make_world()
    hosted = [place.hosted(turns, events) for turns, events in sizes.histories]
    provided = [place.provided(turns, events) for turns, events in sizes.histories]

    def through_store(source: Session) -> None:
        store.fork(source.pk)

    def through_saga(source: Session) -> None:
        place.fork(source)

    for name, sources, fork, rounds in (
        ("store", hosted, through_store, sizes.fork_rounds),
        ("saga", provided, through_saga, sizes.saga_rounds),
    ):
        rows = []
        for source in sources:
            before = world.count_rows()
            fork(source)
            rows.append(world.rows_between(before, world.count_rows()))
        samples: list[list[float]] = [[] for _ in sources]
        cpu: list[list[float]] = [[] for _ in sources]
        for _ in range(rounds):
            for number, source in enumerate(sources):
                begun, used = time.perf_counter(), time.process_time()
                fork(source)
                samples[number].append(time.perf_counter() - begun)
                cpu[number].append(time.process_time() - used)
        for number, (turns, events) in enumerate(sizes.histories):
            ratio = median(samples[number]) / median(samples[0])
            equal = rows[number] == rows[0]
            report.add(
                f"{name}: {turns:,} turns / {events:,} events",
                promise="" if number == 0 else f"ratio <= {MOST_RATIO}, rows equal",
                kept=None if number == 0 else ratio <= MOST_RATIO and equal,
                facts={"rows": rows[number], "ratio": ratio, "median": median(samples[number])},
                n=rounds,
                median_ms=ms(median(samples[number])),
                p95_ms=ms(p95(samples[number])),
                CPU_ms=ms(median(cpu[number])),
                ratio=f"{ratio:.2f}",
                rows=sum(rows[number].values()),
            )
    report.notes.append(
        "A settled turn is two events at least. Saga: prepare to committed in one process, no provider."
    )
    return report
