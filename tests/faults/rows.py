"""The rows of the long form: which faults are done to which agent on which database, and how often."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sessions.choices import ForkContract
from sessions.providers.crashpoints import CrashPoint
from tests.faults import campaign
from tests.faults.campaign import IN_AGENT, IN_WORKER, Batch, Disturb
from tests.faults.invariants import Findings
from tests.faults.places import Place, claude_place, codex_place, fake_place
from tests.faults.zygote import Zygote
from tests.postgres import Server

FAKE_BATCH = 45
LEAST = 5
REAL_BATCH = 2
# Rows whose batches kill few workers or none are run this often.
FEW_BATCHES = 2
# About how long the process of a call lives, so that a kill within it hits any part of it.
CALL_MS = {"codex": 200.0, "claude": 1200.0}


@dataclass(frozen=True)
class Row:
    """One fault at one agent."""

    provider: str
    name: str
    disturb: Disturb
    prepare: bool = True
    kills_workers: bool = True
    few: bool = False


def rows(provider: str, server: Server | None) -> list[Row]:
    """Every row of an agent; ``server`` is the database's when it is PostgreSQL."""
    real = provider != "fake"
    points = [*CrashPoint] if not real else [*IN_WORKER, *IN_AGENT]
    if provider != "claude":
        points = [point for point in points if point not in IN_AGENT]
    made = [_at(provider, point) for point in points]
    made.append(Row(provider, "at any moment", campaign.kill_at_random(2.0 if real else 0.4)))
    made.append(Row(provider, "stalled, then killed", campaign.stall_at_random(1.5 if real else 0.3), few=True))
    if real:
        made.append(
            Row(provider, "the agent itself", campaign.kill_calls(CALL_MS[provider]), kills_workers=False, few=True)
        )
    if provider == "claude":
        made.append(Row(provider, "full disk", campaign.limit_files(2048), kills_workers=False, few=True))
    if server is not None:
        made.append(
            Row(
                provider,
                "connections cut",
                campaign.cut_connections(1.0 if real else 0.3),
                kills_workers=False,
                few=True,
            )
        )
    if server is not None and not real:
        made.append(
            Row(provider, "database killed", campaign.restart_database(server, 0.3), kills_workers=False, few=True)
        )
    return made


def _at(provider: str, point: CrashPoint) -> Row:
    disturb, prepare = campaign.disturbance(point, parallel=(1, 1, 2) if provider == "fake" else (1,))
    in_agent = point in IN_AGENT
    return Row(provider, point.value, disturb, prepare, kills_workers=not in_agent, few=in_agent)


def place_of(provider: str, folder: Path, chance: random.Random, sources: int) -> AbstractContextManager[Place]:
    """A new place of an agent; only the fake one has as many sources as are asked for."""
    makers: dict[str, Callable[[], AbstractContextManager[Place]]] = {
        "fake": lambda: _fake(folder, chance, sources),
        "codex": lambda: codex_place(folder),
        "claude": lambda: claude_place(folder),
    }
    return makers[provider]()


@contextlib.contextmanager
def _fake(folder: Path, chance: random.Random, sources: int) -> Iterator[Place]:
    yield fake_place(folder, chance.choice(list(ForkContract)), sources, chance)


def run(row: Row, kills: int, zygote: Zygote, folder: Path, chance: random.Random, forks: int = 0) -> Findings:
    """Batches of one row, of ``forks`` if that is given, until so many workers died in it."""
    total = Findings()
    batches = 0
    size = forks or (FAKE_BATCH if row.provider == "fake" else REAL_BATCH)
    begun = time.monotonic()
    while batches < FEW_BATCHES if row.few else total.kills < kills:
        batches += 1
        if not (row.few or forks or row.provider != "fake"):
            size = max(LEAST, min(FAKE_BATCH, kills - total.kills))
        with place_of(row.provider, folder / f"{chance.getrandbits(64):016x}", chance, size) as place:
            try:
                found = Batch(place, zygote, chance).run(row.disturb, size, prepare=row.prepare)
            except (AssertionError, TimeoutError) as error:
                total.wrong.append(f"the batch did not come to its end: {error}")
                break
        total.add(found)
        if not (row.few or found.kills):
            total.wrong.append("nobody came to where it should have died")
            break
    for sentence in (*total.lost, *total.doubled, *total.wrong):
        sys.stderr.write(f"{row.provider}, {row.name}: {sentence}\n")
    total.seconds = time.monotonic() - begun
    return total
