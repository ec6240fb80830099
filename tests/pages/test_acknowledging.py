"""The fork's page says where it is to be acknowledged, and only where that is right."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from operations.choices import OperationStatus
from operations.models import Operation, OperationAudit
from operations.pages.opening import opening_url
from sessions import store
from tests.conftest import People
from tests.operations.support import World
from tests.pages.support import html


def acknowledge(reader: Client, operation: Operation) -> int:
    """What the browser posts once the fork's page is shown."""
    return reader.post(reverse("operations:acknowledge", args=[operation.pk])).status_code


def test_the_page_a_fork_leads_to_acknowledges_it_once(reader: Client, world: World) -> None:
    operation = world.fork()
    address = opening_url(operation)
    assert f'data-acknowledge="{reverse("operations:acknowledge", args=[operation.pk])}"' in html(reader.get(address))
    assert [acknowledge(reader, operation) for _ in range(3)] == [204, 204, 204]
    assert OperationAudit.objects.filter(operation_id=operation.pk, reason="acknowledged").count() == 1
    assert "data-acknowledge" not in html(reader.get(address))
    operation.refresh_from_db()
    assert "opened" not in opening_url(operation)


@pytest.mark.parametrize("opened", ["", "nonsense", "00000000-0000-0000-0000-000000000000"])
def test_what_names_no_fork_acknowledges_nothing(reader: Client, world: World, opened: str) -> None:
    page = reader.get(reverse("sessions:detail", args=[world.fork().target_session_id], query={"opened": opened}))
    assert page.status_code == 200
    assert "data-acknowledge" not in html(page)


def test_the_page_of_another_session_acknowledges_nothing(reader: Client, world: World) -> None:
    operation = world.fork()
    page = reader.get(reverse("sessions:detail", args=[world.source.pk], query={"opened": str(operation.pk)}))
    assert "data-acknowledge" not in html(page)


def test_what_is_not_committed_cannot_be_acknowledged(reader: Client, world: World) -> None:
    world.agent.script("lose")
    operation = world.fork()
    assert operation.status == OperationStatus.UNKNOWN
    assert acknowledge(reader, operation) == 409


def test_a_stranger_acknowledges_nothing(client: Client, world: World, people: People) -> None:
    client.force_login(people.stranger)
    operation = world.fork()
    assert acknowledge(client, operation) == 404
    operation.refresh_from_db()
    assert operation.observed_at is None


@pytest.mark.parametrize("gone", ["child", "source", "both"])
def test_purging_child_or_source_does_not_cancel_it(reader: Client, world: World, gone: str) -> None:
    operation = world.fork()
    if gone != "source":
        store.purge(operation.target_session_id)
    if gone != "child":
        store.purge(operation.source_session_id)
    assert acknowledge(reader, operation) == 204
    operation.refresh_from_db()
    assert operation.observed_at is not None
