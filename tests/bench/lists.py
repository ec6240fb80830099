"""How long the server works on lists, filters and searches among very many sessions."""

from __future__ import annotations

import random
import uuid

from sessions import indexing, words
from sessions.choices import Visibility
from sessions.models import EventLog, Family, SearchDocument, Session
from sessions.places import TITLE, Place
from tests.bench import world
from tests.bench.pages import fetch, signed_in
from tests.bench.report import Report
from tests.bench.sizes import Sizes

MOST_SECONDS = 0.060
AT_ONCE = 5_000
BEGAN_MS = 1_785_326_400_000
PROVIDERS = ("hosted", "noop")


def run(sizes: Sizes, vendor: str) -> Report:
    """Ask for the lists of pages and API, filtered in every way."""
    report = Report("lists", f"Lists among {sizes.listed_sessions:,} sessions, {vendor}")
    place = world.make_world()
    _make_sessions(place, sizes.listed_sessions)
    long_one = place.hosted(20, 200)
    indexing.catch_up()
    client = signed_in(place)
    api = f"/v1/workspaces/{place.workspace.pk}/agent-sessions"
    asked = {
        "page: newest": "/",
        "page: of one provider": "/?provider=noop",
        "page: words of a title that many have": "/?q=session+cursor",
        "page: words that one title has": "/?q=needle",
        "page: words that no title has": "/?q=absentword",
        "page: in a folder": "/?cwd=/home/dev/project7",
        "page: in a folder that nobody works in": "/?cwd=/nowhere",
        "page: search, words that many have": "/search/?q=session+cursor",
        "page: search, words that one has": "/search/?q=needle",
        "page: operations": "/forks/",
        "API: newest": api,
        "API: of one provider": f"{api}?provider=hosted&limit=200",
        "API: one id": f"{api}?q={long_one.pk}",
        "API: search": "/v1/search?q=session+cursor",
    }
    for path in asked.values():
        fetch(client, path)
    samples: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(sizes.list_rounds):
        for name, path in asked.items():
            samples[name].append(fetch(client, path)[0])
    for name, taken in samples.items():
        report.timed(name, taken, at_most=MOST_SECONDS)
    return report


def _make_sessions(place: world.World, count: int) -> None:
    """Rows as listing a home and indexing it make them, written directly: that many take the store an hour."""
    titles, dice = _Titles(), random.Random(3)
    mine = words.workspace_word(place.workspace.pk)
    for start in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        ids = [uuid.uuid4() for _ in range(size)]
        logs = EventLog.objects.bulk_create([EventLog(first_seq=1, made_by=pk) for pk in ids])
        families = Family.objects.bulk_create([Family(title="") for _ in ids])
        sessions = [
            Session(
                id=pk,
                workspace=place.workspace,
                home=place.home if number % 2 else None,
                provider=PROVIDERS[number % 2],
                provider_session_id=str(pk),
                created_by=place.user,
                family=family,
                log=log,
                title="The needle" if number == count // 3 else titles.some(8),
                preview=titles.some(20),
                cwd=f"/home/dev/project{dice.randrange(200)}",
                visibility=Visibility.PRIVATE if dice.random() < 0.05 else Visibility.WORKSPACE,
                created_at_unix_ms=BEGAN_MS + number * 1000,
                updated_at_unix_ms=BEGAN_MS + number * 1000,
                search_due=False,
            )
            for number, (pk, log, family) in enumerate(zip(ids, logs, families, strict=True), start)
        ]
        Session.objects.bulk_create(sessions)
        SearchDocument.objects.bulk_create(
            SearchDocument(
                id=Place(session.log_id, TITLE).number,
                words=f"{mine} {words.normalised(f'{session.title} {session.preview}')}",
            )
            for session in sessions
        )


class _Titles:
    """Titles of words of which, as in any language, few are frequent and most are rare."""

    def __init__(self) -> None:
        self._dice = random.Random(5)
        syllables = ["ka", "lo", "mi", "ren", "sto", "vi", "ta", "ber", "un", "do", "fil", "gra"]
        made = ["".join(self._dice.choices(syllables, k=3)) for _ in range(4_000)]
        self._words = ["session", "cursor", *made]
        self._weights = [1 / (rank + 20) for rank in range(len(self._words))]

    def some(self, count: int) -> str:
        """A text of that many words."""
        return " ".join(self._dice.choices(self._words, self._weights, k=count))
