"""Workspaces, their runners, and search across them."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from forkhost.kit.api import ApiView, caller, invalid_parameter, known_parameters
from forkhost.kit.schema import answers
from forkhost.kit.scopes import Scope
from sessions import search
from sessions.api import projections
from sessions.api.access import workspace_for
from sessions.api.documentation import CURSOR, limit_parameter, text_parameter
from sessions.api.pagination import listed, newest_first
from sessions.api.serializers import HitList, RunnerList, WorkspaceList
from sessions.filters import TEXT_LIMIT
from sessions.models import Membership, Runner
from sessions.payloads import plain


class WorkspacesView(ApiView):
    """The caller's workspaces."""

    scopes = {"GET": Scope.READ}

    @extend_schema(operation_id="listWorkspaces", tags=["workspaces"], responses=answers({200: WorkspaceList}, 400))
    def get(self, request: Request) -> Response:
        """List the workspaces the caller is a member of, by name. There is one page."""
        known_parameters(request)
        memberships = Membership.objects.filter(user=caller(request)).select_related("workspace")
        items = [
            projections.workspace_json(membership.workspace, role=membership.role)
            for membership in memberships.order_by("workspace__name", "workspace_id")
        ]
        return Response(listed(items, None))


class RunnersView(ApiView):
    """The machines of a workspace."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="listRunners",
        tags=["workspaces"],
        responses=answers({200: RunnerList}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID) -> Response:
        """List runners with what their agents can do, as a worker last proved it. There is one page."""
        known_parameters(request)
        workspace = workspace_for(caller(request), workspace_id)
        runners = Runner.objects.filter(workspace=workspace).prefetch_related("homes").order_by("name", "pk")
        items = [
            projections.runner_json(runner, sorted(runner.homes.all(), key=lambda home: (home.provider, home.path)))
            for runner in runners
        ]
        return Response(listed(items, None))


class SearchView(ApiView):
    """Every session the caller may see, by words."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="search",
        tags=["sessions"],
        parameters=[
            text_parameter(
                "q", "Words that all occur in the title, or in one event; or an id.", least=1, most=TEXT_LIMIT
            ),
            CURSOR,
            limit_parameter(),
        ],
        responses=answers({200: HitList}, 400),
    )
    def get(self, request: Request) -> Response:
        """Find sessions by title, prompts, answers, tool output or id, newest activity first.

        A word of three or more letters also finds longer ones that begin with it. The index follows a second or two
        behind what was just written.
        """
        known_parameters(request, "q", "cursor", "limit")
        text = plain(request.query_params.get("q", ""))
        if not 1 <= len(text) <= TEXT_LIMIT:
            raise invalid_parameter("q", f"q has to be text of 1 to {TEXT_LIMIT} characters.")
        user = caller(request)
        found = search.find(user, text)
        page, cursor = newest_first(
            projections.with_relations(found.sessions.roots()), request, kind="search", time="updated_at_unix_ms"
        )
        sessions = projections.sessions_page(page, user=user)
        items = [projections.hit_json(hit, session) for hit, session in zip(found.hits(page), sessions, strict=True)]
        return Response({**listed(items, cursor), "truncated": found.truncated})
