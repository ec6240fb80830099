"""What waits for a person, and what is unfinished on a session."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from forkhost.kit.api import StrictSerializer, body_of, caller, known_parameters
from forkhost.kit.schema import answers
from forkhost.kit.scopes import Scope
from sessions import history, store
from sessions.api import projections
from sessions.api.access import hosted_session_for, not_found, session_for
from sessions.api.bodies import AnswerBody, AskBody, ClaimBody, NoBody
from sessions.api.documentation import CURSOR, limit_parameter
from sessions.api.errors import SessionApiView
from sessions.api.pagination import listed, newest_first
from sessions.api.serializers import ClaimList, ClaimSerializer, InteractionList, InteractionSerializer
from sessions.errors import InteractionConflict
from sessions.history import InteractionView
from sessions.models import Session, WorkClaim


class WorkView(SessionApiView):
    """One kind of work: a session's is listed, and added to."""

    scopes = {"GET": Scope.READ, "POST": Scope.OPERATE}


class EndOfWorkView(SessionApiView):
    """One piece of work, which is ended."""

    scopes = {"POST": Scope.OPERATE}


def _writes(operation_id: str, body: type[StrictSerializer], status: int, shown: Any) -> Callable[[Any], Any]:
    """The documentation of a method that writes a session's work."""
    responses = answers({status: shown}, 400, 404, 409, 413, 415)
    return extend_schema(operation_id=operation_id, tags=["work"], request=body, responses=responses)


# Interactions ---------------------------------------------------------------------------------------------------------


class InteractionsView(WorkView):
    """The interactions of a session."""

    @extend_schema(operation_id="listInteractions", tags=["work"], responses=answers({200: InteractionList}, 400, 404))
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """List interactions, oldest first; one that came pending with a fork is superseded. There is one page."""
        known_parameters(request)
        session = session_for(caller(request), workspace_id, agent_session_id)
        items = [projections.interaction_json(interaction) for interaction in history.interactions(session)]
        return Response(listed(items, None))

    @_writes("askInteraction", AskBody, 201, InteractionSerializer)
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Ask for a person in a hosted session. The same `key` again is a 409 `unknown_reference`."""
        known_parameters(request)
        session = hosted_session_for(caller(request), workspace_id, agent_session_id)
        body = body_of(request, AskBody)
        asked = store.ask_interaction(session.pk, body["kind"], body["payload"], key=body["key"])
        return Response(_shown(session, asked.pk), status=201)


class AnswerView(EndOfWorkView):
    """A person's answer."""

    @_writes("answerInteraction", AnswerBody, 200, InteractionSerializer)
    def post(
        self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID, interaction_id: uuid.UUID
    ) -> Response:
        """Answer a pending interaction of a hosted session, once."""
        known_parameters(request)
        session = hosted_session_for(caller(request), workspace_id, agent_session_id)
        body = body_of(request, AnswerBody)
        interaction = _interaction(session, interaction_id)
        if interaction is None:
            raise not_found("interaction_not_found")
        if interaction.inherited:
            raise InteractionConflict("This was asked in the session that this one was forked from.")
        store.answer_interaction(session.pk, interaction.origin_id, body["payload"])
        return Response(_shown(session, interaction.origin_id))


def _interaction(session: Session, interaction_id: uuid.UUID) -> InteractionView | None:
    return next((shown for shown in history.interactions(session) if shown.id == interaction_id), None)


def _shown(session: Session, origin_id: uuid.UUID) -> dict[str, object]:
    session.refresh_from_db()
    found = next(shown for shown in history.interactions(session) if shown.origin_id == origin_id)
    return projections.interaction_json(found)


# Claims ---------------------------------------------------------------------------------------------------------------


class ClaimsView(WorkView):
    """The work claims of a session."""

    @extend_schema(
        operation_id="listClaims",
        tags=["work"],
        parameters=[CURSOR, limit_parameter()],
        responses=answers({200: ClaimList}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """List what is or was unfinished on the session, newest first."""
        known_parameters(request, "cursor", "limit")
        session = session_for(caller(request), workspace_id, agent_session_id)
        claims = WorkClaim.objects.filter(session=session)
        page, cursor = newest_first(claims, request, kind=f"claims {session.pk}", time="created_at", moment=True)
        return Response(listed([projections.claim_json(claim) for claim in page], cursor))

    @_writes("openClaim", ClaimBody, 201, ClaimSerializer)
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Say that something is unfinished on the session; under the strict contract it cannot be forked meanwhile."""
        known_parameters(request)
        session = session_for(caller(request), workspace_id, agent_session_id)
        body = body_of(request, ClaimBody)
        return Response(projections.claim_json(store.open_claim(session.pk, body["kind"], body["note"])), status=201)


class SettleClaimView(EndOfWorkView):
    """The end of a work claim."""

    @_writes("settleClaim", NoBody, 200, ClaimSerializer)
    def post(
        self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID, claim_id: uuid.UUID
    ) -> Response:
        """Settle a claim; settling it again changes nothing."""
        known_parameters(request)
        session = session_for(caller(request), workspace_id, agent_session_id)
        body_of(request, NoBody)
        if not WorkClaim.objects.filter(session=session, pk=claim_id).exists():
            raise not_found("claim_not_found")
        store.settle_claim(session.pk, claim_id)
        return Response(projections.claim_json(WorkClaim.objects.get(pk=claim_id)))
