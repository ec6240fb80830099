"""Numbers, logs and the doctor: the same from every process, and about the fork that is stuck."""

from __future__ import annotations

import datetime as dt
import json
import logging
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from forkhost.kit.clock import HeldClock
from forkhost.kit.scopes import Scope
from forkhost.models import ApiToken
from operations import saga
from operations.models import Operation
from tests.conftest import People
from tests.console.support import REASON
from tests.operations.support import World

pytestmark = pytest.mark.django_db


def numbers(client: Client, **extra: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by name and labels."""
    answer = client.get("/metrics", **extra)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def test_the_numbers_follow_from_the_rows(
    client: Client, world: World, unknown: Operation, held_clock: HeldClock
) -> None:
    world.fork()
    world.prepare()
    held_clock.advance(300)
    seen = numbers(client)
    assert seen["forkhost_open_operations", (("age", "under_10m"), ("state", "unknown"))] == 1
    assert seen["forkhost_open_operations", (("age", "under_10m"), ("state", "prepared"))] == 1
    assert seen["forkhost_oldest_open_operation_seconds", (("state", "unknown"),)] == 360
    assert seen["forkhost_looks_total", (("method", "lookup"),)] == 1
    assert seen["forkhost_acts_total", (("act", "committed"),)] == 1
    assert seen["forkhost_due_operations", ()] >= 1
    assert world.claim() is not None
    assert numbers(client)["forkhost_claims", (("lease", "held"),)] == 1
    held_clock.advance(61)
    assert numbers(client)["forkhost_claims", (("lease", "expired"),)] == 1


def test_settlements_and_what_needs_a_person_are_counted(
    client: Client, world: World, unknown: Operation, held_clock: HeldClock
) -> None:
    held_clock.advance(25 * 3600)
    world.work(unknown)
    seen = numbers(client)
    assert seen["forkhost_operations_needing_person", ()] == 1
    assert seen["forkhost_open_operations", (("age", "over_1d"), ("state", "unknown"))] == 1
    saga.confirm_not_created(unknown.pk, actor="user:x", reason=REASON, expected_version=unknown.version)
    seen = numbers(client)
    assert seen["forkhost_operations_needing_person", ()] == 0
    assert seen["forkhost_settlements_total", (("kind", "confirmed_not_created"),)] == 1


def test_metrics_are_for_this_machine_and_for_tokens_that_may_operate(client: Client, people: People) -> None:
    away = {"REMOTE_ADDR": "203.0.113.7"}
    assert client.get("/metrics", **away).status_code == 401
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1", HTTP_X_FORWARDED_FOR="203.0.113.7").status_code == 401
    assert client.get("/metrics", REMOTE_ADDR="::1").status_code == 200
    client.force_login(people.operator)
    assert client.get("/metrics", **away).status_code == 401
    for scope, status in ((Scope.READ, 403), (Scope.OPERATE, 200)):
        token = ApiToken.issue(people.operator, name=scope.value, scopes=[scope])
        answer = client.get("/metrics", **away, HTTP_AUTHORIZATION=f"Bearer {token}")
        assert answer.status_code == status, answer.content


def test_what_a_worker_does_with_a_fork_is_logged_with_its_id(
    world: World, held_clock: HeldClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.agent.script("explode")
    operation = world.fork()
    held_clock.advance(60)
    world.work(operation)
    lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    about_forks = [line for line in lines if str(line.get("logger", "")).startswith("operations")]
    assert {"operation_prepared", "operation_act", "fork_not_accepted"} <= {line["event"] for line in about_forks}
    assert {line.get("operation_id") for line in about_forks} == {str(operation.pk)}
    json.dumps(lines, default=str)


def test_the_doctor_names_each_stuck_fork_and_where_to_look_at_it(
    world: World, unknown: Operation, held_clock: HeldClock, settings: Any
) -> None:
    settings.FORKHOST_PUBLIC_URL = ""
    waiting = world.prepare()
    Operation.objects.filter(pk=waiting.pk).update(prepared_at=waiting.prepared_at - dt.timedelta(hours=1))
    Operation.objects.filter(pk=unknown.pk).update(needs_person=True)
    said = StringIO()
    with pytest.raises(CommandError):
        call_command("doctor", stdout=said)
    text = said.getvalue()
    assert f"!!    fork {unknown.pk}: unknown for" in text
    assert f"/admin/operations/operation/{unknown.pk}/settle/" in text
    assert f"!!    fork {waiting.pk}: prepared for 60 min" in text
    assert f"/forks/{waiting.pk}/" in text
