"""Every route of forkhost: pages at the root, the public API under ``/v1/``, the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from forkhost.api_root import OpenApiView
from forkhost.metrics import MetricsView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("v1/openapi.json", OpenApiView.as_view(), name="openapi"),
    path("v1/", include("operations.api.urls")),
    path("v1/", include("sessions.api.urls")),
    path("", include("forkhost.pages.urls")),
    path("", include("forkhost.pages.urls")),
    path("", include("operations.pages.urls")),
    path("", include("sessions.pages.urls")),
]

handler400 = "forkhost.errors.bad_request"
handler403 = "forkhost.errors.permission_denied"
handler404 = "forkhost.errors.not_found"
handler500 = "forkhost.errors.server_error"
