"""Finding sessions by what was asked in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q

from sessions.filters import exact_id, words_in_session
from sessions.models import Segment, Session, Turn
from sessions.querysets import SessionQuerySet


@dataclass(frozen=True, slots=True)
class Hit:
    """A session that matches. ``turn_ordinal`` and ``prompt`` are of its first matching turn, None and "" when the title,
    first prompt or id matched instead.
    """

    session: Session
    turn_ordinal: int | None
    prompt: str


def matching(user: User, text: str) -> SessionQuerySet:
    """Living roots the user may see, whose title, first prompt or one turn's prompt holds every word, or with that id.

    Only the first 200 characters of a prompt are searched.
    """
    # One filter call: each call on a many-valued relation would join the turns anew.
    shown = Segment.objects.filter(
        _prompt_holds(text, "log__turns__prompt"),
        Q(last_turn__isnull=True) | Q(log__turns__ordinal__lte=F("last_turn")),
        session_id=OuterRef("pk"),
    )
    sessions: SessionQuerySet = Session.objects.visible_to(user).living().roots()
    return sessions.filter(words_in_session(text) | exact_id(text) | Exists(shown))


def hits(sessions: list[Session], text: str) -> list[Hit]:
    """Where the text was found in sessions that :func:`matching` returned; one query for all of them."""
    wanted = _prompt_holds(text, "prompt")
    segments = list(Segment.objects.filter(session__in=sessions).order_by("position"))
    turns: dict[int, list[Turn]] = {}
    for turn in Turn.objects.filter(wanted, log__in={segment.log_id for segment in segments}).order_by("ordinal"):
        turns.setdefault(turn.log_id, []).append(turn)
    first: dict[object, Turn] = {}
    for segment in segments:
        for turn in turns.get(segment.log_id, ()):
            if segment.last_turn is None or turn.ordinal <= segment.last_turn:
                first.setdefault(segment.session_id, turn)
                break
    return [_hit(session, first.get(session.pk)) for session in sessions]


def _hit(session: Session, turn: Turn | None) -> Hit:
    return Hit(session, turn.ordinal, turn.prompt) if turn is not None else Hit(session, None, "")


def _prompt_holds(text: str, field: str) -> Q:
    words = text.split()
    if not words:
        return Q(pk__in=[])
    return reduce(and_, (Q(**{f"{field}__icontains": word}) for word in words))
