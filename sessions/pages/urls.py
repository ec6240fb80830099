"""Routes of the sessions' pages."""

from __future__ import annotations

from django.urls import path

from sessions.pages import deleting, views

app_name = "sessions"

urlpatterns = [
    path("", views.session_list, name="list"),
    path("search/", views.search, name="search"),
    path("sessions/<id:session_id>/", views.session_detail, name="detail"),
    path("deleted/", deleting.deleted, name="deleted"),
    path("sessions/<id:session_id>/delete/", deleting.delete, name="delete"),
    path("sessions/<id:session_id>/restore/", deleting.restore, name="restore"),
    path("sessions/<id:session_id>/purge/", deleting.purge, name="purge"),
    path("sessions/<id:session_id>/detach/", deleting.detach, name="detach"),
    path("sessions/<id:session_id>/tail/", views.tail, name="tail"),
    path("sessions/<id:session_id>/progress/", views.progress, name="progress"),
    path("sessions/<id:session_id>/turns/<int:ordinal>/", views.turn_detail, name="turn"),
    path("sessions/<id:session_id>/records/<int:seq>/", views.record, name="record"),
    path("sessions/<id:session_id>/records/<int:seq>/raw/", views.raw, name="raw"),
    path("sessions/<id:session_id>/records/<int:seq>/rendered/", views.rendered, name="rendered"),
    path("sessions/<id:session_id>/records/<int:seq>/images/<int:position>/", views.image, name="image"),
]
