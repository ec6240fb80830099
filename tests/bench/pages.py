"""How long the server works on pages of a very long session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connection
from django.test import Client

from forkhost import preparing
from forkhost.warming import warm_up
from tests.bench import world
from tests.bench.report import Report, median, ms, p95
from tests.bench.sizes import MB, Sizes

MOST_SECONDS = 0.060


def run(sizes: Sizes, vendor: str) -> Report:
    """Read one session's newest page, its first page, and pages in its middle that nobody has seen yet."""
    turns, events = sizes.page_history
    report = Report("pages", f"Pages of a session of {turns:,} turns / {sizes.page_bytes // MB} MB, {vendor}")
    place = world.make_world()
    session = place.provided(turns, events, characters=max(40, int(sizes.page_bytes / events / 1.25)))
    client = signed_in(place)
    url = f"/sessions/{session.pk}/"
    fetch(client, "/")
    fetch(client, "/runners/")
    step = max(1, turns // (sizes.page_rounds + 1))
    rounds = sizes.page_rounds
    _ask(report, client, "newest page, again and again", _same(url, rounds), MOST_SECONDS)
    _ask(report, client, "first page, again and again", _same(f"{url}?from=1", rounds), MOST_SECONDS)
    unseen = [f"{url}?from={1 + number * step}" for number in range(1, rounds + 1)]
    _ask(report, client, "a page nobody has seen", unseen, MOST_SECONDS)
    found = [f"{url}?turn={number * step + step // 2}" for number in range(1, rounds + 1)]
    _ask(report, client, "where a search leads to, unseen", found, MOST_SECONDS)
    size = len(fetch(client, url).body)
    api = f"/v1/workspaces/{place.workspace.pk}/agent-sessions/{session.pk}"
    anywhere = [f"{api}/events?after={number * (events // (rounds + 1))}&limit=200" for number in range(rounds)]
    _ask(report, client, "API: 200 events from anywhere", anywhere)
    _ask(report, client, "API: the first 50 turns", _same(f"{api}/turns", rounds))
    report.notes.append(
        f"Measured inside the server, network left out. The newest page has {size / 1000:,.0f} kB of HTML."
    )
    return report


def signed_in(place: world.World) -> Client:
    """A browser of the world's user; this process is prepared as the web server's is."""
    Path(os.environ["FORKHOST_DATA"]).mkdir(exist_ok=True)
    preparing.collect_static()
    client = Client(SERVER_NAME="localhost")
    client.force_login(place.user)
    fetch(client, "/")
    warm_up()
    return client


class Taken(NamedTuple):
    """What one request took on the server, in seconds, and its body."""

    wall: float
    cpu: float
    body: bytes

    def json(self) -> Any:
        """The body of an answer of the API."""
        return json.loads(self.body)


def fetch(client: Client, url: str) -> Taken:
    """Ask for a page. Raises RuntimeError for anything but a 200."""
    begun, used = time.perf_counter(), _worked()
    response = client.get(url)
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    taken = Taken(time.perf_counter() - begun, _worked() - used, body)
    if response.status_code != 200:
        raise RuntimeError(f"{url} was answered with {response.status_code} on {connection.vendor}")
    return taken


def _worked() -> float:
    """Seconds of work of this process, and of the one that PostgreSQL has for its connection."""
    used = time.process_time()
    if connection.vendor == "postgresql" and connection.connection is not None:
        schedule = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
        used += int(schedule.read_text().split()[0]) / 1e9 if schedule.exists() else 0.0
    return used


def add_times(report: Report, what: str, taken: Sequence[Taken], *, at_most: float | None = None) -> None:
    """A line of the report: wall time, which is what was promised, and beside it what this process and the database worked."""
    cpu = [each.cpu for each in taken]
    report.timed(what, [each.wall for each in taken], at_most=at_most, CPU_ms=ms(median(cpu)), CPU_p95=ms(p95(cpu)))


def _ask(report: Report, client: Client, what: str, urls: Iterable[str], at_most: float | None = None) -> None:
    add_times(report, what, [fetch(client, url) for url in urls], at_most=at_most)


def _same(url: str, times: int) -> Iterator[str]:
    return (url for _ in range(times))
