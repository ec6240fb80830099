"""What a session's history holds: turns, events, the whole of it."""

from __future__ import annotations

import uuid

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from forkhost.kit.api import body_of, caller, invalid_parameter, known_parameters, query_integer
from forkhost.kit.schema import answers
from forkhost.kit.scopes import Scope
from sessions import history
from sessions.api import hosted, projections
from sessions.api.access import hosted_session_for, session_for
from sessions.api.bodies import AppendBody
from sessions.api.documentation import CURSOR, choice_parameter, integer_parameter, limit_parameter
from sessions.api.errors import SessionApiView
from sessions.api.export import CONTENT_TYPES, ExportFormat, stream
from sessions.api.pagination import bad_cursor, decode_cursor, encode_cursor, limit_of, listed
from sessions.api.serializers import AppendedSerializer, EventList, ExportSerializer, TurnList
from sessions.errors import StaleSession
from sessions.models import Session

TURNS = "turns"
EVENTS = "events"
DEFAULT_EVENTS = 200
MOST_EVENTS = 1000
MOST_BYTES = 4_000_000
REPLAYED = "Idempotency-Replayed"


def _after_cursor(session: Session, text: str, kind: str) -> int:
    """Where the page before ended. Raises StaleSession when the history was rewound since."""
    session_id, revision, after = decode_cursor(text, kind, uuid.UUID, int, int)
    if session_id != str(session.pk):
        raise bad_cursor()
    if revision != session.history_revision:
        raise StaleSession("The history was rewound since the page before; begin again without a cursor.")
    return int(after)


def _next(session: Session, kind: str, after: int) -> str:
    return encode_cursor(kind, str(session.pk), session.history_revision, after)


class TurnsView(SessionApiView):
    """The turns of a session."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="listTurns",
        tags=["history"],
        parameters=[CURSOR, limit_parameter()],
        responses=answers({200: TurnList}, 400, 404, 409),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """List turns, oldest first, each with whether it can be forked at."""
        known_parameters(request, "cursor", "limit")
        user = caller(request)
        session = session_for(user, workspace_id, agent_session_id)
        limit = limit_of(request)
        cursor = request.query_params.get("cursor")
        after = _after_cursor(session, cursor, TURNS) if cursor is not None else 0
        turns = history.turns(session, first=after + 1, limit=limit)
        more = bool(turns) and turns[-1].ordinal < session.turn_count
        next_cursor = _next(session, TURNS, turns[-1].ordinal) if more else None
        return Response(listed(projections.turns_page(session, turns, user=user), next_cursor))


class EventsView(SessionApiView):
    """The events of a session."""

    scopes = {"GET": Scope.READ, "POST": Scope.OPERATE}

    @extend_schema(
        operation_id="listEvents",
        tags=["history"],
        parameters=[
            integer_parameter("after", "Only events with a greater seq. Not together with `cursor`."),
            CURSOR,
            limit_parameter(default=DEFAULT_EVENTS, most=MOST_EVENTS),
        ],
        responses=answers({200: EventList}, 400, 404, 409),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """List events, oldest first. A cursor notices when the history was rewound (409); `after` does not.

        A page ends before `limit` where its payloads would be more than 4 MB together; an event larger than that is a
        page of its own. `nextCursor` says whether there is more, the number of items does not.
        """
        known_parameters(request, "after", "cursor", "limit")
        session = session_for(caller(request), workspace_id, agent_session_id)
        limit = limit_of(request, default=DEFAULT_EVENTS, most=MOST_EVENTS)
        after = query_integer(request, "after", default=0)
        if (cursor := request.query_params.get("cursor")) is not None:
            if "after" in request.query_params:
                raise invalid_parameter("after", "Give either after or cursor.")
            after = _after_cursor(session, cursor, EVENTS)
        events = history.events(session, after=after, limit=limit, most_bytes=MOST_BYTES)
        more = bool(events) and events[-1].seq < session.last_seq
        next_cursor = _next(session, EVENTS, events[-1].seq) if more else None
        return Response(listed([projections.event_json(event) for event in events], next_cursor))

    @extend_schema(
        operation_id="appendEvents",
        tags=["history"],
        request=AppendBody,
        responses=answers({200: AppendedSerializer}, 400, 404, 409, 413, 415),
    )
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Append events to a hosted session, all or none.

        Give `expectedLastSeq` to be able to send the same request again: the answer then says
        `Idempotency-Replayed: true`, and nothing is written twice.
        """
        known_parameters(request)
        session = hosted_session_for(caller(request), workspace_id, agent_session_id)
        appended, replayed = hosted.append(session, body_of(request, AppendBody))
        shown = {
            "firstSeq": appended.first_seq,
            "lastSeq": appended.last_seq,
            "turnCount": appended.turn_count,
        }
        return Response(shown, headers={REPLAYED: "true"} if replayed else None)


class ExportView(SessionApiView):
    """A whole session as a download."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="exportSession",
        tags=["history"],
        parameters=[
            choice_parameter("format", "The kind of file.", list(ExportFormat), default=ExportFormat.NDJSON.value)
        ],
        responses={
            **answers({200: ExportSerializer}, 400, 404),
            (200, CONTENT_TYPES[ExportFormat.NDJSON]): OpenApiResponse(
                OpenApiTypes.STR, "One JSON object a line; the last has the type `end`, otherwise the file is cut off."
            ),
        },
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> StreamingHttpResponse:
        """Download session and events, as NDJSON or one JSON document."""
        known_parameters(request, "format")
        wanted = request.query_params.get("format", ExportFormat.NDJSON.value)
        if wanted not in list(ExportFormat):
            raise invalid_parameter("format", f"format has to be one of {', '.join(ExportFormat)}.")
        form = ExportFormat(wanted)
        user = caller(request)
        session = session_for(user, workspace_id, agent_session_id)
        response = StreamingHttpResponse(stream(session, form, user=user), content_type=CONTENT_TYPES[form])
        response["Content-Disposition"] = f'attachment; filename="session-{session.pk}.{form.value}"'
        return response
