"""The triggers are there after a migration, and a start can tell when they are not."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection

from sessions import store, triggers
from sessions.models import Workspace
from tests.store.histories import hosted, turn


@pytest.mark.django_db
def test_all_triggers_are_installed_after_migrate() -> None:
    assert triggers.installed(connection) == triggers.EXPECTED
    assert len(triggers.EXPECTED) == 6


@pytest.mark.django_db
def test_a_missing_trigger_is_noticed(vendor: str) -> None:
    with connection.cursor() as cursor:
        if vendor == "postgresql":
            cursor.execute("DROP TRIGGER forkhost_event_update ON agent_sessions_event")
            cursor.execute("ALTER TABLE agent_sessions_turn DISABLE TRIGGER forkhost_turn_update")
        else:
            cursor.execute("DROP TRIGGER forkhost_event_update")
            cursor.execute("DROP TRIGGER forkhost_turn_update")
    assert triggers.EXPECTED - triggers.installed(connection) == {"forkhost_event_update", "forkhost_turn_update"}
    triggers.install(connection)
    assert triggers.installed(connection) == triggers.EXPECTED


@pytest.mark.django_db(transaction=True)
def test_a_migration_that_rebuilds_tables_finds_and_leaves_the_triggers_installed() -> None:
    workspace = Workspace.objects.create(name="Here", slug="here")
    session = hosted(workspace)
    store.append(session.pk, turn(1))
    triggers.drop(connection)
    call_command("migrate", verbosity=0)
    assert triggers.installed(connection) == triggers.EXPECTED


@pytest.mark.django_db(transaction=True)
def test_the_tables_can_be_rebuilt_while_history_exists() -> None:
    """Adding a column rebuilds a table on SQLite, which fails or loses triggers unless they are taken away before."""
    from django.db.models import BigIntegerField

    from sessions.models import Event, Session

    workspace = Workspace.objects.create(name="Here", slug="here")
    store.append(hosted(workspace).pk, turn(1))
    triggers.before_migration()
    try:
        for model in (Session, Event):
            field = BigIntegerField(null=True, db_default=1)
            field.set_attributes_from_name("probe")
            field.model = model
            with connection.schema_editor() as editor:
                editor.add_field(model, field)
            with connection.schema_editor() as editor:
                editor.remove_field(model, field)
    finally:
        triggers.after_migration()
    assert triggers.installed(connection) == triggers.EXPECTED
    assert Event.objects.count() == 4
