"""How long the server works on lists, filters and searches among very many sessions, and twice as many indexed events."""

from __future__ import annotations

from sessions import indexing
from sessions.models import SearchDocument, Session
from tests.bench import listed, world
from tests.bench.pages import Taken, add_times, fetch, signed_in
from tests.bench.report import Report
from tests.bench.sizes import Sizes

MOST_SECONDS = 0.060


def run(sizes: Sizes, vendor: str) -> Report:
    """Ask for the lists of pages and API, filtered in every way, and look for every kind of word."""
    place = world.make_world()
    listed.make_sessions(place, sizes.listed_sessions)
    long_one = place.hosted(20, 200)
    indexing.catch_up()
    documents = SearchDocument.objects.count()
    title = f"Lists among {sizes.listed_sessions:,} sessions, {documents:,} titles and events indexed, {vendor}"
    report = Report("lists", title)
    client = signed_in(place)
    api = f"/v1/workspaces/{place.workspace.pk}/agent-sessions"
    middle = fetch(client, f"{api}?limit=200").json()["nextCursor"]
    asked = {**_pages(), **_api(api, long_one, middle)}
    for path in asked.values():
        fetch(client, path)
    samples: dict[str, list[Taken]] = {name: [] for name in asked}
    for _ in range(sizes.list_rounds):
        for name, path in asked.items():
            samples[name].append(fetch(client, path))
    for name, taken in samples.items():
        add_times(report, name, taken, at_most=MOST_SECONDS)
    return report


def _pages() -> dict[str, str]:
    common = "+".join(listed.COMMON)
    return {
        "page: newest": "/",
        "page: of one provider": "/?provider=noop",
        "page: in a folder": "/?cwd=/home/dev/project7",
        "page: in a folder that everybody works in": "/?cwd=/home/dev",
        "page: in a folder that nobody works in": "/?cwd=/nowhere",
        "page: running": "/?state=running",
        "page: forks": "/?state=forked",
        "page: being imported": "/?state=importing",
        "page: transcripts gone, one provider": "/?state=missing&provider=noop",
        "page: operations": "/forks/",
        "page: words that many have": f"/?q={common}",
        "page: words that many have, in a folder": f"/?q={common}&cwd=/home/dev/project7",
        "search: a word that many have": f"/search/?q={listed.COMMON[0]}",
        "search: the beginning of such a word": f"/search/?q={listed.COMMON[0][:3]}",
        "search: words that many have": f"/search/?q={common}",
        "search: a beginning of a great many words": "/search/?q=kal",
        "search: a beginning of some words": "/search/?q=kalomi",
        "search: a word of the older half": f"/search/?q={listed.OLD}",
        "search: a word that one has": f"/search/?q={listed.NEEDLE}",
        "search: a word that nobody has": "/search/?q=absentword",
    }


def _api(api: str, session: Session, cursor: str) -> dict[str, str]:
    common = "+".join(listed.COMMON)
    return {
        "API: newest": api,
        "API: 200 of one provider": f"{api}?provider=hosted&limit=200",
        "API: after a cursor": f"{api}?cursor={cursor}",
        "API: sub-agents' lanes": f"{api}?kind=child",
        "API: deleted": f"{api}?deleted=true",
        "API: in a folder": f"{api}?cwd=/home/dev/project7",
        "API: one id": f"{api}?q={session.pk}",
        "API: words that many have": f"{api}?q={common}",
        "API: search": f"/v1/search?q={common}",
    }
