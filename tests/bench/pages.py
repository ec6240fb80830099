"""How long the server works on pages of a very long session."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from django.db import connection, reset_queries
from django.test import Client

from forkhost import preparing
from tests.bench import world
from tests.bench.report import Report
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
    report.timed("newest page, again and again", _times(client, _same(url, sizes.page_rounds)), at_most=MOST_SECONDS)
    first = _same(f"{url}?from=1", sizes.page_rounds)
    report.timed("first page, again and again", _times(client, first), at_most=MOST_SECONDS)
    unseen = (f"{url}?from={1 + number * step}" for number in range(1, sizes.page_rounds + 1))
    report.timed("a page nobody has seen", _times(client, unseen), at_most=MOST_SECONDS)
    size = len(fetch(client, url)[1])
    api = f"/v1/workspaces/{place.workspace.pk}/agent-sessions/{session.pk}"
    events_at = (
        f"{api}/events?after={number * (events // (sizes.page_rounds + 1))}" for number in range(sizes.page_rounds)
    )
    report.timed("API: 200 events from anywhere", _times(client, (f"{path}&limit=200" for path in events_at)))
    report.timed("API: the first 50 turns", _times(client, _same(f"{api}/turns", sizes.page_rounds)))
    report.notes.append(
        f"Measured inside the server, network left out. The newest page has {size / 1000:,.0f} kB of HTML."
    )
    return report


def signed_in(place: world.World) -> Client:
    """A browser of the world's user; it is not told from one that comes through the web server."""
    Path(os.environ["FORKHOST_DATA"]).mkdir(exist_ok=True)
    preparing.collect_static()
    client = Client(SERVER_NAME="localhost")
    client.force_login(place.user)
    return client


def fetch(client: Client, url: str) -> tuple[float, bytes]:
    """Seconds on the server, and the body. Raises RuntimeError for anything but a 200."""
    reset_queries()
    begun = time.perf_counter()
    response = client.get(url)
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    taken = time.perf_counter() - begun
    if response.status_code != 200:
        raise RuntimeError(f"{url} was answered with {response.status_code} on {connection.vendor}")
    return taken, body


def _times(client: Client, urls: Iterator[str]) -> list[float]:
    return [fetch(client, url)[0] for url in urls]


def _same(url: str, times: int) -> Iterator[str]:
    return (url for _ in range(times))
