"""Finding sessions by what was said in them: titles, prompts, answers, and what tools were told and said.

The one selector of pages and API. The index knows places in logs; a session is found by a place only where it shows that
place, and only those sessions are looked at that the reader may see.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from forkhost.kit.ids import parse_id
from sessions import search_index, words
from sessions.models import Event, Home, Segment, Session, Turn, Workspace
from sessions.payloads import parse, plain
from sessions.places import Place
from sessions.querysets import SessionQuerySet
from sessions.search_matches import LogMatch
from sessions.words import Piece

# Words that more logs hold than that are looked for in the newest alone, and the answer says so.
MOST_LOGS = 500
# A database takes so many values in one condition.
MOST_SESSIONS = 5_000
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A session, and the first event it shows that holds all the words.

    ``seq`` and ``kind`` are None and "" where only the title or an id matched; ``turn_ordinal`` is None for these and
    for standalone events. ``prompt`` is the turn's. ``pieces`` are the surroundings, plain text.
    """

    session: Session
    seq: int | None = None
    kind: str = ""
    turn_ordinal: int | None = None
    prompt: str = ""
    pieces: tuple[Piece, ...] = ()

    @property
    def snippet(self) -> str:
        """The surroundings of what was found, as plain text."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. ``sessions`` are living ones the reader may see, lanes included. ``truncated``: there is more."""

    sessions: SessionQuerySet
    truncated: bool
    _wanted: list[str]
    _seqs: Mapping[int, int]

    def hits(self, sessions: Sequence[Session]) -> list[Hit]:
        """Where the words stand in some of the sessions, in their order; three queries for all of them."""
        first = self._first_places([session.pk for session in sessions])
        events = _events(first.values())
        prompts = _prompts((place.log_id, event["turn_no"]) for place, event in events.items())
        return [self._hit(session, first.get(session.pk), events, prompts) for session in sessions]

    def _first_places(self, session_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Place]:
        first: dict[uuid.UUID, Place] = {}
        for session_id, log_id, through in _shown(session_ids=session_ids):
            if self._seqs.get(log_id, through + 1) <= through:
                first.setdefault(session_id, Place(log_id, self._seqs[log_id]))
        return first

    def _hit(
        self,
        session: Session,
        place: Place | None,
        events: Mapping[Place, Mapping[str, Any]],
        prompts: Mapping[tuple[int, int], str],
    ) -> Hit:
        event = events.get(place) if place is not None else None
        if place is None or event is None:
            return Hit(session)
        text = plain(words.event_text(event["kind"], parse(event["payload"])))
        turn_no: int | None = event["turn_no"]
        prompt = prompts.get((place.log_id, turn_no), "") if turn_no is not None else ""
        return Hit(session, place.seq, event["kind"], turn_no, prompt, tuple(words.snippet(text, self._wanted)))


def find(user: User, text: str, workspace: Workspace | None = None) -> Found:
    """The sessions that ``user`` may see and that hold every word of ``text`` in one event or in the title.

    Or whose id it is. A word of three or more letters finds longer ones that begin with it. ``workspace``: only there.
    """
    visible: SessionQuerySet = Session.objects.visible_to(user).living()
    workspaces = [workspace.pk] if workspace else list(Workspace.objects.visible_to(user).values_list("pk", flat=True))
    visible = visible.filter(workspace_id__in=workspaces)
    named = list(visible.filter(_provider_id(text, workspaces)).values_list("pk", flat=True)[:_CHUNK])
    if looks_like_id(text):
        return Found(visible.filter(pk__in=[parse_id(text.strip()), *named]), False, [], {})
    wanted = words.asked(text)
    # Where the reader sees every workspace, the index need not tell them apart.
    everywhere = Workspace.objects.count() == len(workspaces)
    scope = [] if everywhere else [words.workspace_word(pk) for pk in workspaces]
    matches = search_index.logs_holding(wanted if workspaces else [], scope, MOST_LOGS)
    ids = [*named, *_sessions_showing(matches.logs)]
    seqs = {match.log_id: match.first_seq for match in matches.logs if match.first_seq is not None}
    truncated = not matches.complete or len(ids) > MOST_SESSIONS
    return Found(visible.filter(pk__in=ids[:MOST_SESSIONS]), truncated, wanted, seqs)


def looks_like_id(text: str) -> bool:
    """Whether the text is UUID-shaped, so that looking for its words would only cost time."""
    try:
        parse_id(text.strip())
    except ValueError:
        return False
    return True


def _provider_id(text: str, workspaces: Collection[uuid.UUID]) -> Q:
    """The provider's own id, byte for byte; asked a home at a time, as the index has it."""
    homes = Home.objects.filter(runner__workspace_id__in=workspaces).values_list("pk", flat=True)
    return Q(home_id__in=list(homes), provider_session_id=text.strip())


def _sessions_showing(matches: Sequence[LogMatch]) -> list[uuid.UUID]:
    """The sessions that show at least one of the places."""
    found: dict[uuid.UUID, None] = {}
    for chunk in _chunks([match.log_id for match in matches if match.titled]):
        found |= dict.fromkeys(Session.objects.filter(log_id__in=chunk).values_list("pk", flat=True))
    seqs = {match.log_id: match.first_seq for match in matches if match.first_seq is not None}
    for chunk in _chunks(list(seqs)):
        found |= dict.fromkeys(pk for pk, log_id, through in _shown(log_ids=chunk) if seqs[log_id] <= through)
    return list(found)


def _shown(
    *, session_ids: Collection[uuid.UUID] | None = None, log_ids: Collection[int] | None = None
) -> Iterable[tuple[uuid.UUID, int, int]]:
    """Session, log and the last seq it shows of it, in the order of each session's history."""
    rows = Segment.objects.order_by("session_id", "position")
    rows = rows.filter(log_id__in=log_ids or ()) if session_ids is None else rows.filter(session_id__in=session_ids)
    for session_id, log_id, last_seq, tail in rows.values_list("session_id", "log_id", "last_seq", "session__last_seq"):
        yield session_id, log_id, tail if last_seq is None else last_seq


def _events(places: Iterable[Place]) -> dict[Place, Mapping[str, Any]]:
    condition = reduce(or_, (Q(log_id=place.log_id, seq=place.seq) for place in set(places)), Q(pk__in=[]))
    rows = Event.objects.filter(condition).values("log_id", "seq", "kind", "turn_no", "payload")
    return {Place(row["log_id"], row["seq"]): row for row in rows}


def _prompts(turns: Iterable[tuple[int, int | None]]) -> dict[tuple[int, int], str]:
    wanted = {(log_id, ordinal) for log_id, ordinal in turns if ordinal is not None}
    condition = reduce(or_, (Q(log_id=log_id, ordinal=ordinal) for log_id, ordinal in wanted), Q(pk__in=[]))
    rows = Turn.objects.filter(condition).values_list("log_id", "ordinal", "prompt")
    return {(log_id, ordinal): prompt for log_id, ordinal, prompt in rows}


def _chunks(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[at : at + _CHUNK] for at in range(0, len(ids), _CHUNK))
