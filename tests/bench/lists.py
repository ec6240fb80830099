"""How long the server works on lists, filters and searches among very many sessions."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from sessions import indexing, words
from sessions.api.hosted import HOSTED
from sessions.choices import Visibility
from sessions.models import EventLog, Family, SearchDocument, Session
from sessions.places import TITLE, Place
from tests.bench import world
from tests.bench.pages import Taken, add_times, fetch, signed_in
from tests.bench.report import Report
from tests.bench.sizes import Sizes

MOST_SECONDS = 0.060
AT_ONCE = 5_000
BEGAN_MS = 1_785_326_400_000
# Beyond what the store itself gives out here.
FIRST_LOG = 1_000_000


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
    samples: dict[str, list[Taken]] = {name: [] for name in asked}
    for _ in range(sizes.list_rounds):
        for name, path in asked.items():
            samples[name].append(fetch(client, path))
    for name, taken in samples.items():
        add_times(report, name, taken, at_most=MOST_SECONDS)
    return report


def _make_sessions(place: world.World, count: int) -> None:
    """Rows as listing a home and indexing it make them, written directly: that many take the store an hour."""
    like = place.provided(1, 2)
    titles, dice = _Titles(), random.Random(3)
    mine = words.workspace_word(place.workspace.pk)
    bare = connection.vendor == "sqlite"
    for start in range(0, count, AT_ONCE):
        logs, families, sessions, documents = [], [], [], []
        for number in range(start, min(count, start + AT_ONCE)):
            session_id, family_id, log_id = _uuid(bare=bare), _uuid(bare=bare), FIRST_LOG + number
            title = "The needle" if number == count // 3 else titles.some(8)
            preview = titles.some(20)
            logs.append({"id": log_id, "made_by": session_id})
            families.append({"id": family_id})
            sessions.append(
                {
                    "id": session_id,
                    "family_id": family_id,
                    "log_id": log_id,
                    "provider_session_id": session_id,
                    "title": title,
                    "preview": preview,
                    "cwd": f"/home/dev/project{dice.randrange(200)}",
                    "visibility": (Visibility.PRIVATE if dice.random() < 0.05 else Visibility.WORKSPACE).value,
                    "created_at_unix_ms": BEGAN_MS + number * 1000,
                    "updated_at_unix_ms": BEGAN_MS + number * 1000,
                    "search_due": False,
                    **({} if number % 2 else {"home_id": None, "provider": HOSTED}),
                }
            )
            words_of_it = f"{mine} {words.normalised(f'{title} {preview}')}"
            documents.append({"id": Place(log_id, TITLE).number, "words": words_of_it})
        with transaction.atomic():
            _insert(EventLog, like.log_id, logs)
            _insert(Family, like.family_id, families)
            _insert(Session, like.pk, sessions)
            _insert(SearchDocument, None, documents)


def _uuid(*, bare: bool) -> str:
    """A new id as this database's driver takes it."""
    made = uuid.uuid4()
    return made.hex if bare else str(made)


def _insert(model: type[Model], like: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Rows that are as the one with the key ``like``, but for what they say; without one, as they say themselves."""
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        before: dict[str, Any] = {}
        if like is not None:
            key = like.hex if isinstance(like, uuid.UUID) and connection.vendor == "sqlite" else like
            cursor.execute(f"SELECT * FROM {table} WHERE id = %s", [key])
            before = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
        names = list(before or rows[0])
        columns, places = ", ".join(f'"{name}"' for name in names), ", ".join(["%s"] * len(names))
        values = [[row.get(name, before.get(name)) for name in names] for row in rows]
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)


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
