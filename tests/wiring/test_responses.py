"""What every response of forkhost carries, and what none lets through."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from forkhost import configuration


@pytest.mark.django_db
def test_every_page_has_a_strict_policy_and_a_request_id(client: Client) -> None:
    response = client.get("/admin/login/")
    assert response.status_code == 200
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy + ";"
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert len(response["X-Request-Id"]) == 32


@pytest.mark.django_db
def test_sqlite_connections_have_the_pragmas_that_history_needs(vendor: str) -> None:
    if vendor != "sqlite":
        assert settings.DATABASES["default"]["ENGINE"] == configuration.POSTGRESQL
        return
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}
    with connection.cursor() as cursor:
        for pragma, value in expected.items():
            cursor.execute(f"PRAGMA {pragma}")
            assert cursor.fetchone() == (value,), pragma


def test_requests_are_not_transactions() -> None:
    assert not settings.DATABASES["default"].get("ATOMIC_REQUESTS")
