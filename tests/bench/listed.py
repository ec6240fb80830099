"""Very many sessions, some of them with histories, all indexed: rows written directly, the store would take an hour."""

from __future__ import annotations

import copy
import itertools
import json
import random
import uuid
from collections.abc import Sequence

from django.db import connection, transaction

from sessions import words
from sessions.api.hosted import HOSTED
from sessions.choices import Activity, EventKind, SessionKind, SyncState, Visibility
from sessions.models import Event, EventLog, Family, SearchDocument, Segment, Session, SessionSync
from sessions.places import TITLE, Place
from tests.bench import world

AT_ONCE = 5_000
BEGAN_MS = 1_785_326_400_000
# Beyond what the store itself gives out here.
FIRST_LOG = 1_000_000
# One session in so many has a history of so many events, most of them short: two events a session on average.
APART, EVENTS = 25, 50
LENGTHS, SHARES = (15, 60, 200, 2_000), (50, 85, 99, 100)
COMMON, NEEDLE, OLD = ("session", "cursor"), "needle", "monolith"


def make_sessions(place: world.World, count: int) -> None:
    """``count`` sessions as listing a home, reading some transcripts and indexing them leaves them."""
    makers = _Maker(place, count)
    for start in range(0, count, AT_ONCE):
        with transaction.atomic():
            makers.write(range(start, min(count, start + AT_ONCE)))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # The server does it by itself, some minutes after so much was written.
            cursor.execute("ANALYZE")


class _Maker:
    def __init__(self, place: world.World, count: int) -> None:
        self._like, self._count = place.provided(1, 2), count
        self._mine = words.workspace_word(place.workspace.pk)
        self._texts, self._dice = Texts(), random.Random(3)

    def write(self, numbers: Sequence[int]) -> None:
        """These sessions and what belongs to them."""
        sessions = [self._session(number) for number in numbers]
        EventLog.objects.bulk_create(EventLog(id=one.log_id, made_by=one.pk, first_seq=1) for one in sessions)
        Family.objects.bulk_create(Family(id=one.family_id) for one in sessions)
        Session.objects.bulk_create(sessions)
        SessionSync.objects.bulk_create(self._sync(one) for one in sessions if one.home_id is not None)
        SearchDocument.objects.bulk_create(
            self._document(one.log_id, TITLE, f"{one.title} {one.preview}") for one in sessions
        )
        for session in sessions:
            if session.last_seq:
                self._history(session)

    def _session(self, number: int) -> Session:
        session = copy.copy(self._like)
        session._state = copy.copy(self._like._state)
        session.pk, session.family_id, session.log_id = uuid.uuid4(), uuid.uuid4(), FIRST_LOG + number
        session.provider_session_id = str(session.pk)
        session.title = f"The {NEEDLE}" if number == self._count // 3 else self._texts.some(8)
        session.preview = self._texts.some(20)[:200]
        session.cwd = f"/home/dev/project{self._dice.randrange(200)}"
        session.visibility = Visibility.PRIVATE if self._dice.random() < 0.05 else Visibility.WORKSPACE
        session.created_at_unix_ms = session.updated_at_unix_ms = BEGAN_MS + number * 1000
        session.last_seq = EVENTS if number % APART == 0 else 0
        session.turn_count, session.search_due = 0, False
        session.activity = Activity.RUNNING if number % 1000 == 7 else Activity.IDLE
        session.fork_operation_id = uuid.uuid4() if number % 100 == 9 and number < self._count // 2 else None
        if number % 500 == 11:
            session.kind = SessionKind.CHILD
            session.root_session_id = session.parent_session_id = self._like.pk
        if number % 2 == 0:
            session.home_id, session.provider = None, HOSTED
        return session

    def _sync(self, session: Session) -> SessionSync:
        state = self._dice.choices([SyncState.IMPORTED, SyncState.LISTED, SyncState.MISSING], [60, 39, 1])[0]
        return SessionSync(session=session, state=state)

    def _document(self, log_id: int, seq: int, text: str) -> SearchDocument:
        return SearchDocument(id=Place(log_id, seq).number, words=f"{self._mine} {words.normalised(text)}")

    def _history(self, session: Session) -> None:
        """Notes, because these belong to no turn; a word that only the older half knows is in every one of these."""
        Segment.objects.create(session_id=session.pk, position=0, log_id=session.log_id, first_seq=1)
        old = session.log_id - FIRST_LOG < self._count // 2
        texts = [self._texts.some(self._dice.choices(LENGTHS, cum_weights=SHARES)[0]) for _ in range(EVENTS)]
        texts = [f"{text} {OLD}" if old else text for text in texts]
        Event.objects.bulk_create(
            Event(
                log_id=session.log_id,
                seq=seq,
                kind=EventKind.NOTE,
                at_unix_ms=BEGAN_MS,
                payload=json.dumps({"text": text}),
                digest=b"",
            )
            for seq, text in enumerate(texts, 1)
        )
        SearchDocument.objects.bulk_create(
            self._document(session.log_id, seq, text) for seq, text in enumerate(texts, 1)
        )
        EventLog.objects.filter(pk=session.log_id).update(searched_seq=EVENTS)


class Texts:
    """Words of which, as in any language, few are frequent and most are rare; many begin alike."""

    def __init__(self) -> None:
        self._dice = random.Random(5)
        syllables = ["ka", "lo", "mi", "ren", "sto", "vi", "ta", "ber", "un", "do", "fil", "gra"]
        known = ["".join(self._dice.choices(syllables, k=3)) for _ in range(4_000)]
        rare = ["".join(self._dice.choices(syllables, k=4)) for _ in range(30_000)]
        self._words = [*COMMON, *known, *rare]
        self._shares = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(self._words))))

    def some(self, count: int) -> str:
        """A text of that many words."""
        return " ".join(self._dice.choices(self._words, cum_weights=self._shares, k=count))
