"""What would be done again need not be on disk before it goes on; whatever comes after it is durable, and so is all before."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from sessions import repeatable
from sessions.models import Workspace
from sessions.repeatable import repeatable_writes

pytestmark = pytest.mark.django_db(transaction=True)

NOT_YET = {"sqlite": 1, "postgresql": "off"}
ON_DISK = {"sqlite": 2, "postgresql": "on"}


def durability() -> object:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous" if connection.vendor == "sqlite" else "SHOW synchronous_commit")
        return cursor.fetchone()[0]


def test_commits_wait_for_the_disk_again_after_the_block(vendor: str) -> None:
    connection.close()
    with repeatable_writes():
        assert durability() == NOT_YET[vendor]
    assert durability() == ON_DISK[vendor]


def test_an_error_in_the_block_changes_nothing_about_that(vendor: str) -> None:
    connection.close()
    with pytest.raises(RuntimeError), repeatable_writes():
        raise RuntimeError
    assert durability() == ON_DISK[vendor]


def test_a_connection_opened_anew_within_the_block_is_an_ordinary_one(vendor: str) -> None:
    with repeatable_writes():
        connection.close()
        assert durability() == ON_DISK[vendor]
    assert durability() == ON_DISK[vendor]


def test_within_a_transaction_of_somebody_else_nothing_is_changed(vendor: str) -> None:
    connection.close()
    with transaction.atomic():
        Workspace.objects.create(name="Other", slug="other")
        with repeatable_writes():
            assert durability() == ON_DISK[vendor]


def test_a_block_that_could_not_begin_changes_nothing_either(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    settings = repeatable._SQLITE if vendor == "sqlite" else repeatable._POSTGRESQL
    monkeypatch.setitem(settings, "no setting", "1")
    with pytest.raises(DatabaseError), repeatable_writes():
        pass
    assert durability() == ON_DISK[vendor]
