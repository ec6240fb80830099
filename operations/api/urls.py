"""Routes of forks under ``/v1/``."""

from __future__ import annotations

from django.urls import path

from operations.api import views

app_name = "operations_api"

WORKSPACE = "workspaces/<id:workspace_id>"
OPERATIONS = f"{WORKSPACE}/agent-session-fork-operations"

urlpatterns = [
    path(f"{WORKSPACE}/agent-sessions/<id:agent_session_id>/fork", views.ForkView.as_view(), name="fork"),
    path(OPERATIONS, views.OperationsView.as_view(), name="operations"),
    path(f"{OPERATIONS}/<id:operation_id>", views.OperationView.as_view(), name="operation"),
    path(f"{OPERATIONS}/<id:operation_id>/receipt", views.ReceiptView.as_view(), name="receipt"),
    path(f"{OPERATIONS}/<id:operation_id>/acknowledge", views.AcknowledgeView.as_view(), name="acknowledge"),
]
