"""Routes of workspaces, sessions and their histories under ``/v1/``."""

from __future__ import annotations

from django.urls import path

from sessions.api.views import history, sessions, work, workspaces

app_name = "sessions_api"

WORKSPACE = "workspaces/<id:workspace_id>"
SESSION = f"{WORKSPACE}/agent-sessions/<id:agent_session_id>"

urlpatterns = [
    path("workspaces", workspaces.WorkspacesView.as_view(), name="workspaces"),
    path(f"{WORKSPACE}/runners", workspaces.RunnersView.as_view(), name="runners"),
    path("search", workspaces.SearchView.as_view(), name="search"),
    path(f"{WORKSPACE}/agent-sessions", sessions.SessionsView.as_view(), name="sessions"),
    path(SESSION, sessions.SessionView.as_view(), name="session"),
    path(f"{SESSION}/restore", sessions.RestoreView.as_view(), name="restore"),
    path(f"{SESSION}/purge", sessions.PurgeView.as_view(), name="purge"),
    path(f"{SESSION}/family", sessions.FamilyView.as_view(), name="family"),
    path(f"{SESSION}/turns", history.TurnsView.as_view(), name="turns"),
    path(f"{SESSION}/events", history.EventsView.as_view(), name="events"),
    path(f"{SESSION}/export", history.ExportView.as_view(), name="export"),
    path(f"{SESSION}/interactions", work.InteractionsView.as_view(), name="interactions"),
    path(f"{SESSION}/interactions/<id:interaction_id>/answer", work.AnswerView.as_view(), name="answer_interaction"),
    path(f"{SESSION}/claims", work.ClaimsView.as_view(), name="claims"),
    path(f"{SESSION}/claims/<id:claim_id>/settle", work.SettleClaimView.as_view(), name="settle_claim"),
]
