"""How much each section does."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of one run of the benchmark."""

    quick: bool = False
    histories: tuple[tuple[int, int], ...] = ((100, 200), (1_000, 10_000), (5_000, 100_000), (100, 100_000))
    """(turns, events) of the sources whose forks are compared; the first is what the others are compared with."""
    fork_rounds: int = 60
    saga_rounds: int = 30
    many_forks: int = 1_000
    many_source: tuple[int, int] = (5_000, 100_000)
    posts: int = 300
    posts_beside_import: int = 200
    queued_forks: int = 300
    worker_counts: tuple[int, ...] = (1, 2, 4)
    transcript_bytes: int = 100 * MB
    page_history: tuple[int, int] = (5_000, 100_000)
    page_bytes: int = 100 * MB
    page_rounds: int = 40
    listed_sessions: int = 100_000
    list_rounds: int = 30
    agent_turns: tuple[int, ...] = (100, 1_000)
    """Histories that every agent forks; the first is what the others are compared with."""
    agent_rounds: int = 10


FULL = Sizes()
QUICK = Sizes(
    quick=True,
    histories=((10, 20), (60, 240), (10, 240)),
    fork_rounds=5,
    saga_rounds=4,
    many_forks=20,
    many_source=(60, 240),
    posts=8,
    posts_beside_import=6,
    queued_forks=10,
    worker_counts=(1, 2),
    transcript_bytes=2 * MB,
    page_history=(60, 600),
    page_bytes=1 * MB,
    page_rounds=4,
    listed_sessions=500,
    list_rounds=4,
    agent_turns=(3, 6),
    agent_rounds=2,
)
HUGE_BYTES = 2_000 * MB
