"""Sessions: the list, hosted ones made here, one session, its family."""

from __future__ import annotations

import uuid

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from forkhost.kit.api import body_of, caller, invalid_parameter, known_parameters
from forkhost.kit.problems import Problem
from forkhost.kit.schema import answers
from forkhost.kit.scopes import Scope
from sessions import disposal, lineage, search, store, usage
from sessions.api import projections
from sessions.api.access import deleted_session_for, session_for, workspace_for
from sessions.api.bodies import CreateSessionBody, NoBody, PatchSessionBody
from sessions.api.documentation import (
    CURSOR,
    choice_parameter,
    limit_parameter,
    text_parameter,
)
from sessions.api.errors import SessionApiView
from sessions.api.hosted import HOSTED
from sessions.api.pagination import listed, newest_first
from sessions.api.serializers import FamilyList, SessionDetailSerializer, SessionList, SessionSerializer
from sessions.choices import SessionKind, Visibility
from sessions.filters import TEXT_LIMIT, SessionFilterSet
from sessions.models import Session
from sessions.payloads import plain

NOT_YOUR_SESSION = "not_your_session"
DELETED = ["true", "false"]


class SessionsView(SessionApiView):
    """The sessions of a workspace."""

    scopes = {"GET": Scope.READ, "POST": Scope.OPERATE}

    @extend_schema(
        operation_id="listSessions",
        tags=["sessions"],
        parameters=[
            text_parameter("provider", "Of this kind of agent.", most=TEXT_LIMIT),
            text_parameter("q", "Words that all occur in the title, or in one event; or an id.", most=TEXT_LIMIT),
            text_parameter("cwd", "Working in this folder or one inside it.", most=TEXT_LIMIT),
            choice_parameter("kind", "`child` lists sub-agents' lanes instead.", SessionKind.values),
            choice_parameter("deleted", "`true` lists the deleted conversations instead.", DELETED),
            CURSOR,
            limit_parameter(),
        ],
        responses=answers({200: SessionList}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID) -> Response:
        """List conversations, newest activity first."""
        known_parameters(request, "provider", "q", "cwd", "kind", "deleted", "cursor", "limit")
        user = caller(request)
        workspace = workspace_for(user, workspace_id)
        q = plain(request.query_params.get("q", ""))
        deleted = request.query_params.get("deleted", DELETED[1])
        if deleted not in DELETED:
            raise invalid_parameter("deleted", f"deleted has to be {' or '.join(DELETED)}.")
        visible = Session.objects.visible_to(user).living().filter(workspace=workspace)
        if deleted == DELETED[0]:
            if q:
                raise invalid_parameter("q", "Deleted sessions are listed, not searched.")
            visible = disposal.bin_of(user).filter(workspace=workspace)
        elif 0 < len(q) <= TEXT_LIMIT:
            visible = search.find(user, q, workspace).sessions
        chosen = SessionFilterSet(request.query_params, queryset=visible, few=bool(q))
        if not chosen.is_valid():
            name, errors = next(iter(chosen.errors.items()))
            raise invalid_parameter(name, f"{name}: {errors[0]}")
        page, cursor = newest_first(
            projections.with_relations(chosen.qs), request, kind="sessions", time="updated_at_unix_ms"
        )
        return Response(listed(projections.sessions_page(page, user=user), cursor))

    @extend_schema(
        operation_id="createSession",
        tags=["sessions"],
        request=CreateSessionBody,
        responses=answers({201: SessionSerializer}, 400, 404, 409, 413, 415),
    )
    def post(self, request: Request, workspace_id: uuid.UUID) -> Response:
        """Create a hosted session, whose history is then appended here."""
        known_parameters(request)
        user = caller(request)
        workspace = workspace_for(user, workspace_id)
        body = body_of(request, CreateSessionBody)
        session = store.create(
            workspace=workspace,
            provider=HOSTED,
            session_id=body.get("id"),
            title=body["title"],
            cwd=body["cwd"],
            model=body["model"],
            settings=body["settings"],
            created_by=user,
            visibility=body["visibility"],
        )
        shown = projections.session_json(session_for(user, workspace.pk, session.pk), user=user)
        return Response(shown, status=201, headers={"Location": session_path(session)})


class SessionView(SessionApiView):
    """One session."""

    scopes = {"GET": Scope.READ, "PATCH": Scope.OPERATE, "DELETE": Scope.OPERATE}

    @extend_schema(
        operation_id="getSession",
        tags=["sessions"],
        responses=answers({200: SessionDetailSerializer}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Show one session, and what its turns used."""
        known_parameters(request)
        user = caller(request)
        return Response(projections.session_detail_json(session_for(user, workspace_id, agent_session_id), user=user))

    @extend_schema(
        operation_id="updateSession",
        tags=["sessions"],
        request=PatchSessionBody,
        responses=answers({200: SessionDetailSerializer}, 400, 403, 404, 409, 413, 415),
    )
    def patch(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Change title, pin, visibility, or whether it is shown apart from its source.

        All of these are free also while a fork needs the session's history unchanged.
        """
        known_parameters(request)
        user = caller(request)
        session = session_for(user, workspace_id, agent_session_id)
        body = body_of(request, PatchSessionBody)
        if body.get("visibility") == Visibility.PRIVATE and session.created_by_id != user.pk:
            raise Problem(NOT_YOUR_SESSION, 403, "Only who created a session can make it private.")
        with transaction.atomic():
            if "title" in body:
                store.rename(session.pk, body["title"])
            if "pin" in body:
                store.set_pinned(session.pk, body["pin"])
            if "visibility" in body:
                store.set_visibility(session.pk, body["visibility"])
            if "detached" in body:
                store.detach(session.pk, body["detached"], actor=user.get_username())
        return Response(projections.session_detail_json(session_for(user, workspace_id, agent_session_id), user=user))

    @extend_schema(
        operation_id="deleteSession",
        tags=["sessions"],
        request=None,
        responses=answers({204: None}, 400, 404, 409),
    )
    def delete(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Hide the session; it can be restored. Its forks stay, and so do the agent's own files."""
        known_parameters(request)
        session = session_for(caller(request), workspace_id, agent_session_id)
        store.tombstone(session.pk, actor=caller(request).get_username())
        return Response(status=204)


class RestoreView(SessionApiView):
    """The way back of a deleted session."""

    scopes = {"POST": Scope.OPERATE}

    @extend_schema(
        operation_id="restoreSession",
        tags=["sessions"],
        request=NoBody,
        responses=answers({200: SessionSerializer}, 400, 404, 413, 415),
    )
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Show a deleted session again, with all that it held."""
        known_parameters(request)
        user = caller(request)
        session = deleted_session_for(user, workspace_id, agent_session_id)
        body_of(request, NoBody)
        store.restore(session.pk, actor=user.get_username())
        return Response(projections.session_json(session_for(user, workspace_id, session.pk), user=user))


class PurgeView(SessionApiView):
    """The end of a deleted session."""

    scopes = {"POST": Scope.OPERATE}

    @extend_schema(
        operation_id="purgeSession",
        tags=["sessions"],
        request=NoBody,
        responses=answers({204: None}, 400, 403, 404, 409, 413, 415),
    )
    def post(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Remove a deleted session for good, and what of its history no other session shows.

        Its forks outlive it unchanged. 409 `session_held` or `session_fenced` while a fork of it is under way.
        """
        known_parameters(request)
        user = caller(request)
        session = deleted_session_for(user, workspace_id, agent_session_id)
        body_of(request, NoBody)
        if not disposal.may_purge(user, session):
            raise Problem(NOT_YOUR_SESSION, 403, "Only who made a session, or an operator, can remove it for good.")
        store.purge(session.pk, actor=user.get_username(), deleted_only=True)
        return Response(status=204)


class FamilyView(SessionApiView):
    """The sessions connected by forks."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="getFamily",
        tags=["sessions"],
        responses=answers({200: FamilyList}, 400, 404),
    )
    def get(self, request: Request, workspace_id: uuid.UUID, agent_session_id: uuid.UUID) -> Response:
        """Show the family as an indented list: what each session was forked from, and its forks. There is one page."""
        known_parameters(request)
        user = caller(request)
        session = session_for(user, workspace_id, agent_session_id)
        members = lineage.family(session, user)
        totals = usage.of_family([member.session for member in members])
        return Response({**listed(projections.family_page(members, user=user), None), "usage": totals})


def session_path(session: Session) -> str:
    """The path of a session in the API."""
    ids = {"workspace_id": session.workspace_id, "agent_session_id": session.pk}
    return str(reverse("sessions_api:session", kwargs=ids))
