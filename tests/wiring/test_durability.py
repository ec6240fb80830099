"""What is committed survives a crash, on either database, whatever the server's own default is."""

from __future__ import annotations

import pytest
from django.db import connection

EXTRA = "PRAGMA synchronous=EXTRA"


@pytest.mark.django_db(transaction=True)
def test_a_commit_waits_until_it_is_on_disk() -> None:
    connection.close()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)
        else:
            cursor.execute("PRAGMA synchronous")
            assert cursor.fetchone() == (2,)


@pytest.mark.django_db(transaction=True)
def test_a_stricter_setting_of_the_server_is_left_alone(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stricter = {"postgresql": ("options", "-c synchronous_commit=remote_apply"), "sqlite": ("init_command", EXTRA)}
    name, value = stricter[vendor]
    connection.close()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], name, value)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit" if vendor == "postgresql" else "PRAGMA synchronous")
            assert cursor.fetchone() == (("remote_apply",) if vendor == "postgresql" else (3,))
    finally:
        connection.close()
