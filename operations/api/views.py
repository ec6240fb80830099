"""Forks: create and replay, look, list, acknowledge."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.models import User
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from forkhost.kit.api import body_of, caller, invalid_parameter, known_parameters
from forkhost.kit.ids import REQUEST_ID_LIMIT, normalise_request_id, parse_id
from forkhost.kit.schema import answers
from forkhost.kit.scopes import Scope
from operations import handover, saga
from operations.api.bodies import ForkBody
from operations.api.errors import OperationApiView
from operations.api.examples import FORK_EXAMPLES, OPERATION_EXAMPLES
from operations.api.serializers import OperationList, OperationSerializer, ReceiptSerializer
from operations.api.waiting import LONGEST_WAIT_SECONDS, Waited, preferred_wait, wait_until_settled
from operations.choices import OPEN_STATUSES, PUBLIC_STATUS, PublicStatus
from operations.models import Operation, RequestAlias
from operations.projections import operation_json
from operations.querysets import OperationQuerySet
from operations.receipts import receipt_json
from operations.requests import PrepareRequest
from sessions.api.access import not_found, workspace_for
from sessions.api.bodies import NoBody
from sessions.api.documentation import CURSOR, choice_parameter, limit_parameter, text_parameter
from sessions.api.pagination import listed, newest_first

REPLAYED = "Idempotency-Replayed"
RETRY_SECONDS = 1

PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description=f"`wait=N`: hold the answer up to N seconds, {LONGEST_WAIT_SECONDS} at most, while the fork is on its way. "
    "`Preference-Applied` says that it was granted.",
)
LOCATION = OpenApiParameter(
    "Location", OpenApiTypes.URI_REF, OpenApiParameter.HEADER, response=[202], description="The operation."
)
RETRY_AFTER = OpenApiParameter(
    "Retry-After", int, OpenApiParameter.HEADER, response=[202], description="Seconds to wait before looking again."
)
REPLAYED_HEADER = OpenApiParameter(
    REPLAYED, str, OpenApiParameter.HEADER, response=[200, 202], description="`true` when the operation existed before."
)


def operation_for(user: User, workspace_id: uuid.UUID, operation_id: uuid.UUID) -> Operation:
    """An operation the user may see. Raises a 404."""
    operation: Operation | None = (
        Operation.objects.visible_to(user).filter(workspace_id=workspace_id, pk=operation_id).first()
    )
    if operation is None:
        raise not_found("operation_not_found")
    return operation


def operation_path(operation: Operation) -> str:
    """The path of an operation in the API."""
    ids = {"workspace_id": operation.workspace_id, "operation_id": operation.pk}
    return str(reverse("operations_api:operation", kwargs=ids))


def _answer(waited: Waited, *, accepted_status: int = 200) -> Response:
    """The operation as it is; 202 or 200 with Retry-After while it is on its way."""
    operation = waited.operation
    response = Response(operation_json(operation))
    if operation.status in OPEN_STATUSES:
        response.status_code = accepted_status
        response["Retry-After"] = str(RETRY_SECONDS)
        if accepted_status == 202:
            response["Location"] = operation_path(operation)
    return waited.mark(response)


class ForkView(OperationApiView):
    """Forking one session."""

    scopes = {"POST": Scope.FORK}

    @extend_schema(
        operation_id="createFork",
        tags=["forks"],
        request=ForkBody,
        parameters=[PREFER, LOCATION, RETRY_AFTER, REPLAYED_HEADER],
        examples=[*FORK_EXAMPLES, *OPERATION_EXAMPLES],
        responses=answers(
            {
                202: OpenApiResponse(OperationSerializer, "On its way."),
                200: OpenApiResponse(OperationSerializer, "A replay: committed, failed or unknown."),
            },
            *(400, 403, 404, 409, 413, 415),
        ),
    )
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Fork the session at a settled turn, through its agent's own fork, exactly once.

        The same request id and body answer with the same operation for ever; the same id with another body is a 409
        `request_conflict`. An answer that was lost is found again by sending the same request.
        """
        known_parameters(request)
        body = body_of(request, ForkBody)
        prepared = saga.prepare(
            PrepareRequest(
                workspace_id=workspace_id,
                user=caller(request),
                source_session_id=agent_session_id,
                request_id=body["requestId"],
                target_session_id=body["targetAgentSessionId"],
                point=body["point"],
                title=body.get("title"),
            )
        )
        response = _answer(wait_until_settled(prepared.operation, preferred_wait(request)), accepted_status=202)
        if prepared.replayed:
            response[REPLAYED] = "true"
        return response


class OperationView(OperationApiView):
    """One fork."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="getForkOperation",
        tags=["forks"],
        parameters=[PREFER],
        examples=OPERATION_EXAMPLES,
        responses=answers({200: OperationSerializer}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, operation_id: uuid.UUID) -> Response:
        """Show the fork as it is. Looking writes nothing and acknowledges nothing."""
        known_parameters(request)
        operation = operation_for(caller(request), workspace_id, operation_id)
        return _answer(wait_until_settled(operation, preferred_wait(request)))


class ReceiptView(OperationApiView):
    """What was asked, done, seen and decided about one fork."""

    scopes = {"GET": Scope.READ}

    @extend_schema(operation_id="getForkReceipt", tags=["forks"], responses=answers({200: ReceiptSerializer}, 400, 404))
    def get(self, request: Request, workspace_id: uuid.UUID, operation_id: uuid.UUID) -> Response:
        """Show the fork's receipt: request, target, states with times, the calls made, the evidence, who settled it."""
        known_parameters(request)
        return Response(receipt_json(operation_for(caller(request), workspace_id, operation_id)))


class OperationsView(OperationApiView):
    """The forks of a workspace."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="listForkOperations",
        tags=["forks"],
        parameters=[
            choice_parameter("status", "In this state.", PublicStatus.values),
            OpenApiParameter("source", OpenApiTypes.UUID, description="Forks of this session."),
            text_parameter("requestId", "The fork this request id stands for, if any.", most=REQUEST_ID_LIMIT),
            CURSOR,
            limit_parameter(),
        ],
        responses=answers({200: OperationList}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID) -> Response:
        """List forks, newest first."""
        known_parameters(request, "status", "source", "requestId", "cursor", "limit")
        user = caller(request)
        workspace = workspace_for(user, workspace_id)
        visible = Operation.objects.visible_to(user).filter(workspace_id=workspace.pk)
        chosen = _chosen(visible, request.query_params, workspace.pk)
        page, cursor = newest_first(chosen, request, kind="operations", time="prepared_at", moment=True)
        return Response(listed([operation_json(operation) for operation in page], cursor))


def _chosen(operations: OperationQuerySet, params: Any, workspace_id: uuid.UUID) -> OperationQuerySet:
    if (status := params.get("status")) is not None:
        if status not in PublicStatus.values:
            raise invalid_parameter("status", f"status has to be one of {', '.join(PublicStatus.values)}.")
        operations = operations.filter(status__in=[own for own, public in PUBLIC_STATUS.items() if public == status])
    if (source := params.get("source")) is not None:
        try:
            operations = operations.filter(source_session_id=parse_id(source))
        except ValueError:
            raise invalid_parameter("source", "source has to be the id of a session.") from None
    if (request_id := params.get("requestId")) is not None:
        try:
            wanted = normalise_request_id(request_id)
        except ValueError as error:
            raise invalid_parameter("requestId", f"requestId: {error}.") from None
        aliases = RequestAlias.objects.filter(workspace_id=workspace_id, request_id=wanted)
        operations = operations.filter(pk__in=aliases.values("operation_id"))
    return operations


class AcknowledgeView(OperationApiView):
    """The caller has taken in a committed fork."""

    scopes = {"POST": Scope.FORK}

    @extend_schema(
        operation_id="acknowledgeFork",
        tags=["forks"],
        request=NoBody,
        examples=OPERATION_EXAMPLES,
        responses=answers({200: OperationSerializer}, 400, 404, 409, 413, 415),
    )
    def post(self, request: Request, workspace_id: uuid.UUID, operation_id: uuid.UUID) -> Response:
        """Acknowledge a committed fork; idempotent. Anything else is a 409 `not_committed`.

        Under the strict contract this lets the same point be forked again.
        """
        known_parameters(request)
        user = caller(request)
        operation = operation_for(user, workspace_id, operation_id)
        body_of(request, NoBody)
        return _answer(Waited(saga.acknowledge(operation.pk, handover.actor(user)), None))
