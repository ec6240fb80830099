"""Pages of sessions. They read; the only thing they set going is the import of a session somebody opens."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from sessions import attachments, history, opening, syncing, usage
from sessions.api.projections import resume_command
from sessions.capabilities import session_capability
from sessions.choices import SyncState
from sessions.errors import AttachmentMissing
from sessions.history import EventView
from sessions.models import Attachment, Session, SessionSync
from sessions.pages import family, timeline
from sessions.pages.blocks import build, is_markdown, text_of
from sessions.pages.listing import STATES, listing, provider_label, results
from sessions.pages.rendering import Renderer
from sessions.payloads import plain

RECORDS_PER_PAGE = 100
BYTES_PER_PAGE = 1_500_000
WHOLE_TEXT_LIMIT = 2_000_000
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
NOT_MODIFIED = 204


def _visible(request: HttpRequest, session_id: uuid.UUID) -> Session:
    sessions = Session.objects.visible_to(cast("User", request.user)).living()
    found: Session = get_object_or_404(
        sessions.select_related("home__runner", "sync", "workspace", "family"), pk=session_id
    )
    return found


def _sync(session: Session) -> SessionSync | None:
    try:
        return session.sync
    except ObjectDoesNotExist:
        return None


def _is_first_import(session: Session, sync: SessionSync | None) -> bool:
    """Whether the history is not complete for the first time yet; catching up with a live session is not worth saying."""
    if sync is None or sync.stamp_imported or session.seed_length:
        return False
    return sync.state in (SyncState.LISTED, SyncState.IMPORTING)


def _number(request: HttpRequest, name: str) -> int | None:
    """A positive whole number from the query; None when it is missing or anything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 16 and int(text) else None


@require_safe
def session_list(request: HttpRequest) -> HttpResponse:
    """Every session the reader may see, newest activity first."""
    context = {"nav": "sessions", "listing": listing(cast("User", request.user), request.GET), "states": STATES}
    return render(request, "sessions/list.html", context)


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """What was said in any session the reader may see; each result leads to the turn that holds it."""
    context = {"nav": "search", "results": results(cast("User", request.user), request.GET)}
    return render(request, "sessions/search.html", context)


@require_safe
def session_detail(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """One conversation. ``?turn=`` shows the page that holds a turn, ``?before=`` and ``?from=`` neighbouring pages."""
    agent_session = _visible(request, session_id)
    sync = _sync(agent_session)
    if sync is not None:
        syncing.want(agent_session.pk)
    opening.opened(agent_session)
    return render(request, "sessions/detail.html", _detail(request, agent_session, sync))


def _detail(request: HttpRequest, agent_session: Session, sync: SessionSync | None) -> dict[str, Any]:
    user = cast("User", request.user)
    return {
        "nav": "sessions",
        "agent_session": agent_session,
        "sync": sync,
        "importing": _is_first_import(agent_session, sync),
        "page": _page(request, agent_session),
        "capability": session_capability(agent_session),
        "origin": family.origin_of(agent_session, user),
        "family": family.nodes(agent_session, user),
        "lanes": family.lanes_of(agent_session, user),
        "parent": family.parent_of(agent_session, user),
        "provider_label": provider_label(agent_session.provider),
        "resume_command": resume_command(agent_session),
        "usage": usage.of_session(agent_session),
        "family_usage": family.totals(agent_session, user),
        "missing": sync is not None and sync.state == SyncState.MISSING,
    }


def _page(request: HttpRequest, agent_session: Session) -> timeline.Page:
    if (ordinal := _number(request, "turn")) is not None:
        return timeline.page_around(agent_session, min(ordinal, max(1, agent_session.turn_count)))
    if (ordinal := _number(request, "before")) is not None:
        return timeline.page_before(agent_session, ordinal)
    if (ordinal := _number(request, "from")) is not None:
        return timeline.page_from(agent_session, ordinal)
    return timeline.tail_page(agent_session)


@require_safe
def tail(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """What is new below a page whose last turn is ``last`` and that shows everything through ``seq``.

    204 when there is nothing; a full reload when the history was rewound. The last turn itself is sent again,
    because it may have been open, and records may stand below it now.
    """
    agent_session = _visible(request, session_id)
    seq, last = _number(request, "seq") or 0, _number(request, "last") or 0
    if request.GET.get("revision") != str(agent_session.history_revision) or agent_session.last_seq < seq:
        return HttpResponseClientRefresh()
    if agent_session.last_seq == seq:
        return HttpResponse(status=NOT_MODIFIED)
    page = timeline.page_from(agent_session, max(1, last))
    context = {
        "agent_session": agent_session,
        "page": page,
        "again": page.rows[0] if page.rows and page.rows[0].turn.ordinal == last else None,
        "fresh": [row for row in page.rows if row.turn.ordinal > last],
        "capability": session_capability(agent_session),
        "origin": family.origin_of(agent_session, cast("User", request.user)),
    }
    return _vary(render(request, "sessions/tail.html", context))


@require_safe
def progress(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """How far the import is; a full reload of the page once it is done."""
    agent_session = _visible(request, session_id)
    sync = _sync(agent_session)
    if not _is_first_import(agent_session, sync):
        return HttpResponseClientRefresh()
    return _vary(render(request, "sessions/progress.html", {"agent_session": agent_session, "sync": sync}))


@require_safe
def turn_detail(request: HttpRequest, session_id: uuid.UUID, ordinal: int) -> HttpResponse:
    """All records of one turn, a hundred at a time: ``?after=`` a seq."""
    agent_session = _visible(request, session_id)
    turn = history.turn_by_ordinal(agent_session, ordinal) if ordinal <= agent_session.turn_count else None
    if turn is None:
        raise Http404
    last = turn.last_seq or agent_session.last_seq
    after = max(_number(request, "after") or 0, turn.first_seq - 1)
    events = history.events(agent_session, after=after, limit=RECORDS_PER_PAGE, through=last, most_bytes=BYTES_PER_PAGE)
    end = events[-1].seq if events else last
    context = {
        "nav": "sessions",
        "agent_session": agent_session,
        "turn": turn,
        "blocks": build(events, Renderer()),
        "first": after + 1,
        "end": end,
        "last": last,
        "next_after": end if end < last else None,
        "previous_after": max(turn.first_seq - 1, after - RECORDS_PER_PAGE) if after >= turn.first_seq else None,
    }
    return render(request, "sessions/turn.html", context)


@require_safe
def record(request: HttpRequest, session_id: uuid.UUID, seq: int) -> HttpResponse:
    """The whole of one record, as plain text."""
    agent_session = _visible(request, session_id)
    event = _event(agent_session, seq)
    text = text_of(event)
    context = {
        "nav": "sessions",
        "agent_session": agent_session,
        "event": event,
        "text": plain(text[:WHOLE_TEXT_LIMIT]),
        "size": len(text),
        "cut": len(text) > WHOLE_TEXT_LIMIT,
    }
    return render(request, "sessions/record.html", context)


@require_safe
def raw(request: HttpRequest, session_id: uuid.UUID, seq: int) -> HttpResponse:
    """One record as JSON, to save: never shown by the browser as anything else."""
    event = _event(_visible(request, session_id), seq)
    body = {"seq": event.seq, "kind": event.kind, "atUnixMs": event.at_unix_ms, "payload": event.payload}
    response = HttpResponse(json.dumps(body, indent=2), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="record-{event.seq}.json"'
    return response


@require_safe
def rendered(request: HttpRequest, session_id: uuid.UUID, seq: int) -> HttpResponse:
    """The Markdown of one record as HTML, for a page that had no time for it."""
    agent_session = _visible(request, session_id)
    event = _event(agent_session, seq)
    if not is_markdown(event):
        raise Http404
    context = {"html": Renderer(seconds=float("inf"))(text_of(event))}
    return _vary(render(request, "sessions/rendered.html", context))


@require_safe
def image(request: HttpRequest, session_id: uuid.UUID, seq: int, position: int) -> FileResponse:
    """A picture of a message, from the store; nothing that a browser would run."""
    event = _event(_visible(request, session_id), seq)
    kept = Attachment.objects.filter(log_id=event.log_id, seq=event.seq, position=position).first()
    listed = event.payload.get("images")
    entry = listed[position] if kept and isinstance(listed, list) and position < len(listed) else None
    media_type = entry.get("mediaType") if isinstance(entry, dict) else None
    if kept is None or media_type not in SHOWN_IMAGES:
        raise Http404
    try:
        response = FileResponse(attachments.open_blob(kept.blob_id), content_type=media_type)
    except AttachmentMissing:
        raise Http404 from None
    response["Cache-Control"] = "private, max-age=86400, immutable"
    return response


def _event(agent_session: Session, seq: int) -> EventView:
    found = history.events(agent_session, after=seq - 1, limit=1, through=seq) if seq > 0 else []
    if not found:
        raise Http404
    return found[0]


def _vary(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, ["HX-Request"])
    return response
