"""What is committed survives a crash, on either database, whatever the server's own default is."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction

from sessions.models import Workspace
from tests.conftest import People

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


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_for_a_process_that_stands_still_in_a_transaction(
    vendor: str, people: People, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL ends the transaction and the waiting write goes on; on SQLite the waiting write gives up."""
    settings.FORKHOST_STALL_SECONDS = 0.5
    if vendor == "sqlite":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.5)
    connection.close()
    holds, ended = threading.Event(), threading.Event()

    def stand_still() -> None:
        try:
            with contextlib.suppress(DatabaseError), transaction.atomic():
                rename(people.workspace)
                holds.set()
                ended.wait(30)
        finally:
            connections.close_all()

    stalled = threading.Thread(target=stand_still)
    stalled.start()
    try:
        assert holds.wait(10)
        if vendor == "sqlite":
            with pytest.raises(OperationalError):
                rename(people.workspace)
        else:
            assert rename(people.workspace) == 1
    finally:
        ended.set()
        stalled.join()
        connection.close()


def rename(workspace: Workspace) -> int:
    return Workspace.objects.filter(pk=workspace.pk).update(name="Renamed")
