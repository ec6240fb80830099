"""Who waits for a decision is told: in the transition's own transaction, signed, again until it arrives."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import transaction
from django.test import Client
from django.urls import reverse

from forkhost.kit.clock import HeldClock
from operations import notifications, saga
from operations.models import Notification, Operation
from operations.saga import transitions
from sessions import switches
from sessions.models import SessionAudit, Workspace
from tests.conftest import People
from tests.console.support import REASON, unknown_fork
from tests.operations.support import World
from tests.pages.support import html, words

pytestmark = pytest.mark.django_db


@dataclass
class Receiver:
    """A web server that keeps what it is sent. ``status`` is what it answers with."""

    url: str = ""
    status: int = 204
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.heard.append((dict(self.headers), body))
            self.send_response(told.status)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield told
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def secret(world: World, receiver: Receiver) -> str:
    """The secret of the workspace's webhook."""
    return switches.set_webhook(world.workspace, receiver.url, actor="user:operator", reason="We want to know.")


@pytest.fixture
def mailed(settings: Any, people: People) -> None:
    """Email is set up, and everybody has an address."""
    settings.FORKHOST_EMAIL = True
    settings.FORKHOST_PUBLIC_URL = "https://forks.example.com"
    for user in User.objects.all():
        user.email = f"{user.username}@example.com"
        user.save()


def needs_person(world: World, operation: Operation, clock: HeldClock) -> None:
    clock.advance(25 * 3600)
    world.work(operation)
    assert operation.needs_person


def deliver() -> int:
    count = 0
    while notifications.deliver_one("test"):
        count += 1
    return count


def test_operators_are_mailed_when_a_person_is_needed_and_nobody_else(
    world: World, mailed: None, unknown: Operation, held_clock: HeldClock
) -> None:
    assert deliver() == 0
    needs_person(world, unknown, held_clock)
    assert deliver() == 1
    [letter] = mail.outbox
    assert letter.to == ["operator@example.com"]
    assert unknown.title in letter.body
    assert f"https://forks.example.com/admin/operations/operation/{unknown.pk}/settle/" in letter.body


def test_whoever_asked_is_mailed_when_it_is_settled(world: World, mailed: None, unknown: Operation) -> None:
    saga.confirm_not_created(unknown.pk, actor="user:operator", reason=REASON, expected_version=unknown.version)
    assert deliver() == 1
    [letter] = mail.outbox
    assert letter.to == ["member@example.com"]
    assert "An operator confirmed that no fork was made." in letter.body
    assert f"https://forks.example.com/forks/{unknown.pk}/receipt/" in letter.body


def test_without_a_mail_server_and_a_webhook_nothing_is_written(
    world: World, unknown: Operation, held_clock: HeldClock
) -> None:
    needs_person(world, unknown, held_clock)
    saga.confirm_not_created(unknown.pk, actor="user:operator", reason=REASON, expected_version=unknown.version)
    assert not Notification.objects.exists()


def test_a_webhook_gets_a_signed_body_with_nothing_that_anybody_wrote(
    world: World, receiver: Receiver, secret: str, unknown: Operation, held_clock: HeldClock
) -> None:
    needs_person(world, unknown, held_clock)
    assert deliver() == 1
    [(headers, body)] = receiver.heard
    assert headers[notifications.EVENT] == "fork.needs_person"
    stamp, digest = (part.split("=", 1)[1] for part in headers[notifications.SIGNATURE].split(","))
    assert hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest() == digest
    message = json.loads(body)
    assert message["deliveryId"] == headers[notifications.DELIVERY]
    assert (message["operationId"], message["status"], message["act"]) == (str(unknown.pk), "unknown", "looked_up")
    assert unknown.title.encode() not in body


def test_it_is_tried_again_with_the_same_body_until_it_arrives(
    world: World, receiver: Receiver, secret: str, unknown: Operation, held_clock: HeldClock
) -> None:
    receiver.status = 500
    needs_person(world, unknown, held_clock)
    for pause in notifications.BACK_OFF[:3]:
        assert deliver() == 1
        notice = Notification.objects.get()
        assert "500" in notice.error_text
        held_clock.advance(pause - 1)
        assert deliver() == 0
        held_clock.advance(1)
    receiver.status = 200
    assert deliver() == 1
    notice.refresh_from_db()
    assert (notice.delivered_at is not None, notice.next_run_at, notice.error_text) == (True, None, "")
    assert len({body for _, body in receiver.heard}) == 1


def test_it_is_given_up_in_the_end_and_listed_in_the_admin(
    console: Client, world: World, receiver: Receiver, secret: str, unknown: Operation, held_clock: HeldClock
) -> None:
    receiver.status = 404
    needs_person(world, unknown, held_clock)
    for pause in notifications.BACK_OFF:
        assert deliver() == 1
        held_clock.advance(pause)
    assert deliver() == 1
    notice = Notification.objects.get()
    assert (notice.given_up_at is not None, notice.next_run_at) == (True, None)
    assert "The webhook answered with 404." in words(console.get(reverse("admin:operations_notification_changelist")))


def test_a_redirect_is_not_followed(
    world: World, receiver: Receiver, secret: str, unknown: Operation, held_clock: HeldClock
) -> None:
    receiver.status = 302
    needs_person(world, unknown, held_clock)
    deliver()
    assert len(receiver.heard) == 1
    assert Notification.objects.get().delivered_at is None


def test_a_transition_that_is_taken_back_tells_nobody(world: World, secret: str, unknown: Operation) -> None:
    with transaction.atomic():
        saga.confirm_not_created(unknown.pk, actor="user:x", reason=REASON, expected_version=unknown.version)
        assert Notification.objects.count() == 1
        transaction.set_rollback(True)
    assert not Notification.objects.exists()


def test_a_worker_that_lost_the_message_cannot_write_its_end(world: World, secret: str, unknown: Operation) -> None:
    saga.confirm_not_created(unknown.pk, actor="user:x", reason=REASON, expected_version=unknown.version)
    lease = notifications.claim(Notification.objects.all(), "dead", 60)
    assert lease is not None
    Notification.objects.update(lease_token="00000000-0000-4000-8000-000000000001")
    notifications._finish(lease, given_up_at=None)
    assert Notification.objects.get().next_run_at is not None


def test_local_work_that_fails_on_and_on_asks_for_a_person_once(
    world: World, secret: str, held_clock: HeldClock
) -> None:
    world.agent.configure(bind="home_full")
    operation = world.fork()
    for _ in range(8):
        held_clock.advance(600)
        world.work(operation)
    assert operation.needs_person
    assert Notification.objects.count() == 1


def test_the_webhook_is_set_by_an_operator_who_sees_its_secret_once(
    console: Client, world: World, unknown: Operation
) -> None:
    page = reverse("admin:agent_sessions_workspace_webhook", args=[world.workspace.pk])
    assert console.post(page, {"url": "javascript:alert(1)", "reason": REASON}).status_code == 200
    assert Workspace.objects.get(pk=world.workspace.pk).webhook_url == ""
    shown = console.post(page, {"url": "https://hooks.example.com/forks", "reason": REASON})
    kept = Workspace.objects.get(pk=world.workspace.pk)
    assert kept.webhook_url == "https://hooks.example.com/forks"
    assert kept.webhook_secret in html(shown)
    workspace = reverse("admin:agent_sessions_workspace_change", args=[world.workspace.pk])
    for address in (page, workspace):
        assert kept.webhook_secret not in html(console.get(address))
    audit = SessionAudit.objects.get(action="webhook_set")
    assert kept.webhook_secret not in json.dumps(audit.detail)
    console.post(page, {"url": "", "reason": REASON})
    kept.refresh_from_db()
    assert (kept.webhook_url, kept.webhook_secret) == ("", "")


def test_one_act_tells_each_recipient_once_even_if_it_is_written_again(
    world: World, mailed: None, unknown: Operation, held_clock: HeldClock
) -> None:
    needs_person(world, unknown, held_clock)
    again = unknown_fork(world, held_clock)
    transitions.look_now(again.pk, actor="importer", evidence_id=1)
    assert Notification.objects.count() == 1
