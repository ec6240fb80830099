"""Finding sessions by what was asked in them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from django.contrib.auth.models import User
from django.db.models import Exists, F, Min, OuterRef, Q

from sessions.filters import exact_id, looks_like_id, words_in_session
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
    sessions: SessionQuerySet = Session.objects.visible_to(user).living().roots()
    if looks_like_id(text):
        return sessions.filter(exact_id(text))
    # One filter call: each call on a many-valued relation would join the turns anew.
    shown = Segment.objects.filter(
        _prompt_holds(text, "log__turns__prompt"),
        Q(last_turn__isnull=True) | Q(log__turns__ordinal__lte=F("last_turn")),
        session_id=OuterRef("pk"),
    )
    return sessions.filter(words_in_session(text) | exact_id(text) | Exists(shown))


def hits(sessions: list[Session], text: str) -> list[Hit]:
    """Where the text was found in sessions that :func:`matching` returned; three queries for all of them."""
    segments = list(Segment.objects.filter(session__in=sessions).order_by("position"))
    found = Turn.objects.filter(_prompt_holds(text, "prompt"), log__in={segment.log_id for segment in segments})
    # A segment begins at its log's first turn, so only a log's first match can be the first one shown.
    ordinals = dict(found.values_list("log_id").annotate(Min("ordinal")).order_by())
    first: dict[uuid.UUID, tuple[int, int]] = {}
    for segment in segments:
        ordinal = ordinals.get(segment.log_id)
        if ordinal is not None and (segment.last_turn is None or ordinal <= segment.last_turn):
            first.setdefault(segment.session_id, (segment.log_id, ordinal))
    places = reduce(or_, (Q(log=log_id, ordinal=ordinal) for log_id, ordinal in first.values()), Q(pk__in=[]))
    prompts = {(log_id, ordinal): prompt for log_id, ordinal, prompt in _prompts(places)}
    return [_hit(session, first.get(session.pk), prompts) for session in sessions]


def _prompts(places: Q) -> Iterable[tuple[int, int, str]]:
    return Turn.objects.filter(places).values_list("log_id", "ordinal", "prompt")


def _hit(session: Session, place: tuple[int, int] | None, prompts: Mapping[tuple[int, int], str]) -> Hit:
    return Hit(session, place[1], prompts[place]) if place is not None else Hit(session, None, "")


def _prompt_holds(text: str, field: str) -> Q:
    words = text.split()
    if not words:
        return Q(pk__in=[])
    return reduce(and_, (Q(**{f"{field}__icontains": word}) for word in words))
