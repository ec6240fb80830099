"""Routes of the pages that belong to neither app."""

from __future__ import annotations

from django.urls import path

from forkhost.pages import views

urlpatterns = [
    path("login/", views.SignIn.as_view(), name="sign_in"),
    path("login/<str:secret>/", views.sign_in_with_link, name="sign_in_link"),
    path("logout/", views.SignOut.as_view(), name="sign_out"),
    path("preferences/", views.preferences, name="preferences"),
]
