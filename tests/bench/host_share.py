"""forkhost's own share of a fork: a real web server, a real worker, and a provider that makes nothing."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import httpx
from django.db.models import F, Sum

from operations.choices import OPEN_STATUSES
from operations.models import Operation
from sessions.models import Session, SessionSync
from tests.bench import transcripts, world
from tests.bench.noop_provider import SECONDS
from tests.bench.processes import eventually, running
from tests.bench.report import Report
from tests.bench.sizes import MB, Sizes

MOST_POST_SECONDS = 0.020
MOST_SHARE_SECONDS = 0.025
PACE_SECONDS = 0.04
SOURCES = 10


def run(sizes: Sizes, vendor: str) -> Report:
    """Ask for forks one after the other, alone and then beside an import."""
    report = Report("host", f"forkhost's share of a fork, real server and worker, {vendor}")
    place = world.make_world()
    sources = [place.provided(100 if not sizes.quick else 5, 500 if not sizes.quick else 20) for _ in range(SOURCES)]
    codex_home = Path(os.environ["CODEX_HOME"])
    codex_home.mkdir(exist_ok=True)
    with running() as processes:
        processes.worker()
        client = processes.server(place)
        _posts(client, place, sources, 5 if sizes.quick else 60)
        _measure(report, "alone", _posts(client, place, sources, sizes.posts))
        transcripts.write_codex(codex_home, 2 * MB if sizes.quick else 400 * MB)
        eventually(
            lambda: SessionSync.objects.filter(bytes_done__gt=0).exists(), seconds=120, what="the import's beginning"
        )
        before, begun = _imported(), time.monotonic()
        beside = _posts(client, place, sources, sizes.posts_beside_import)
        read, taken = _imported() - before, time.monotonic() - begun
        busy = SessionSync.objects.exclude(bytes_done=F("bytes_total")).exists()
        _measure(report, "beside a paced import", beside)
        report.notes.append(
            f"One request every {PACE_SECONDS * 1000:.0f} ms; the import read {read / MB / taken:.1f} MB a second and "
            + ("ran on beyond the last of them." if busy else "ended before the last of them.")
        )
        client.close()
    return report


def _imported() -> int:
    return int(SessionSync.objects.aggregate(all=Sum("bytes_done"))["all"] or 0)


def _posts(
    client: httpx.Client, place: world.World, sources: Sequence[Session], count: int
) -> tuple[list[float], list[float]]:
    """Durations of POST to 202, and of prepared to committed without the provider's call."""
    posts, operations = [], []
    for number in range(count):
        source = sources[number % len(sources)]
        body = {
            "requestId": str(uuid.uuid4()),
            "targetAgentSessionId": str(uuid.uuid4()),
            "point": {"type": "latestSettled"},
        }
        begun = time.perf_counter()
        reply = client.post(f"/v1/workspaces/{place.workspace.pk}/agent-sessions/{source.pk}/fork", json=body)
        taken = time.perf_counter() - begun
        if reply.status_code != 202:
            raise RuntimeError(f"a fork was answered with {reply.status_code}: {reply.text}")
        posts.append(taken)
        operations.append(reply.json()["operationId"])
        time.sleep(max(0.0, PACE_SECONDS - taken))
    rows = Operation.objects.filter(pk__in=operations)
    eventually(lambda: not rows.filter(status__in=OPEN_STATUSES).exists(), seconds=120, what="the last fork")
    shares = []
    for prepared_at, completed_at, receipt in rows.values_list("prepared_at", "completed_at", "receipt"):
        shares.append((completed_at - prepared_at).total_seconds() - receipt[SECONDS])
    return posts, shares


def _measure(report: Report, name: str, measured: tuple[list[float], list[float]]) -> None:
    posts, shares = measured
    report.timed(f"{name}: POST to 202", posts, at_most=MOST_POST_SECONDS)
    report.timed(f"{name}: prepared to committed, minus the call", shares, at_most=MOST_SHARE_SECONDS)
