"""Routes of the operations' pages."""

from __future__ import annotations

from django.urls import path

from operations.pages import asking, following, lists
from operations.pages.receipt import receipt

app_name = "operations"

urlpatterns = [
    path("sessions/<id:session_id>/fork/", asking.new_fork, name="new_fork"),
    path("forks/", lists.operation_list, name="operations"),
    path("forks/<id:operation_id>/", following.operation_detail, name="operation"),
    path("forks/<id:operation_id>/open/", following.open_fork, name="open"),
    path("forks/<id:operation_id>/acknowledge/", following.acknowledge, name="acknowledge"),
    path("forks/<id:operation_id>/receipt/", receipt, name="receipt"),
    path("forks/<id:operation_id>/mark/", following.operation_mark, name="mark"),
    path("compare/", lists.compare, name="compare"),
    path("runners/", lists.runner_list, name="runners"),
]
