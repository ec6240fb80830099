"""Whatever is in the index: what it finds is what is there, the newest first, and nothing is left out in between."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import pytest
from django.db import connection

from sessions import search_index, search_on_postgresql, search_on_sqlite
from sessions.models import SearchDocument
from sessions.places import LAST_SEQ, TITLE, Place
from sessions.search_matches import LogMatch
from sessions.words import PREFIX_LENGTH

pytestmark = pytest.mark.django_db

WORDS = ("rab", "rabbit", "rabbits", "ox", "oxen", "a")
MINE, OTHER = "wmine", "wother"
# At and beside the edges of the windows of logs on PostgreSQL.
EDGES = (1, 256, 2_048, 16_384, 131_072)

Documents = dict[Place, set[str]]


def documents(dice: random.Random) -> Documents:
    """Documents of some logs, near to each other and far apart; titles, first and last events among them."""
    logs = {max(1, edge * dice.randrange(1, 9) + dice.randrange(-2, 3)) for edge in EDGES for _ in range(6)}
    made: Documents = {}
    for log_id in logs:
        for seq in dice.sample([TITLE, 1, 2, 3, 70, LAST_SEQ], dice.randrange(1, 5)):
            mine = {MINE if dice.random() < 0.8 else OTHER}
            made[Place(log_id, seq)] = mine | set(dice.sample(WORDS, dice.randrange(4)))
    return made


def keep(made: Documents) -> None:
    SearchDocument.objects.bulk_create(
        SearchDocument(id=place.number, words=" ".join(sorted(words, key=lambda word: not word.startswith("w"))))
        for place, words in made.items()
    )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE agent_sessions_searchdocument")


def holds(there: set[str], words: Sequence[str], any_of: Collection[str]) -> bool:
    goes_on = all(
        any(word == wanted or (len(wanted) >= PREFIX_LENGTH and word.startswith(wanted)) for word in there)
        for wanted in words
    )
    return goes_on and (not any_of or not there.isdisjoint(any_of))


def expected(made: Documents, words: Sequence[str], any_of: Collection[str]) -> list[LogMatch]:
    seqs: dict[int, list[int]] = {}
    for place, there in made.items():
        if holds(there, words, any_of):
            seqs.setdefault(place.log_id, []).append(place.seq)
    return [
        LogMatch(log_id, TITLE in found, min((seq for seq in found if seq != TITLE), default=None))
        for log_id, found in sorted(seqs.items(), reverse=True)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_found_is_what_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    made = documents(dice)
    keep(made)
    for _ in range(12):
        monkeypatch.setattr(search_on_sqlite, "PLACES_A_LOOK", dice.choice([2, 7, 10_000]))
        monkeypatch.setattr(search_on_sqlite, "LOOKS", dice.choice([1, 4, 50]))
        monkeypatch.setattr(search_on_sqlite, "ENOUGH_LOGS", dice.choice([1, 5, 30]))
        monkeypatch.setattr(search_on_postgresql, "COMMON_PLACES", dice.choice([0, 0, 0, 1_000]))
        monkeypatch.setattr(search_on_postgresql, "NEWEST_DOCUMENTS", dice.choice([1, 10, 5_000]))
        monkeypatch.setattr(search_on_postgresql, "NEWEST_BYTES", dice.choice([60, 4_000_000]))
        monkeypatch.setattr(search_on_postgresql, "PLACES_A_RANGE", dice.choice([1, 3, 5_000]))
        monkeypatch.setattr(search_on_postgresql, "ENOUGH_LOGS", dice.choice([1, 5, 30]))
        words = dice.sample(WORDS, dice.randrange(1, 3))
        any_of = dice.choice([(), (MINE,), (MINE, OTHER)])
        most = dice.choice([1, 3, 500])

        found = search_index.logs_holding(words, any_of, most)

        there = expected(made, words, any_of)
        assert found.logs == there[: len(found.logs)], (words, any_of, most)
        assert len(found.logs) <= most
        assert not found.complete or len(found.logs) == len(there)
        assert found.logs or not there
