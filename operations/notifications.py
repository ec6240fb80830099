"""Delivers what the saga's acts left to be told: by email, and to webhooks with a signed body, until it arrives.

A message may arrive twice, when a worker dies between sending and writing that down; ``deliveryId`` tells them apart.
"""

from __future__ import annotations

import hashlib
import hmac
import smtplib
from typing import Any

import httpx
import structlog
from django.contrib.auth.models import User
from django.core.mail import send_mail

from forkhost.kit import clock
from forkhost.kit.leases import Lease, claim
from operations.choices import Channel, NotificationKind
from operations.models import Notification
from operations.saga.notices import EVENTS
from sessions import payloads
from sessions.models import Workspace

log = structlog.get_logger(__name__)

WEBHOOK_SECONDS = 10.0
# Longer than any delivery takes.
LEASE_SECONDS = 60.0
# Seconds until the next try; after the last one it is given up, and the admin lists it.
BACK_OFF = (10.0, 60.0, 300.0, 1800.0, 2 * 3600.0, 6 * 3600.0, 12 * 3600.0, 24 * 3600.0)
ERROR_LIMIT = 500

SIGNATURE = "Forkhost-Signature"
EVENT = "Forkhost-Event"
DELIVERY = "Forkhost-Delivery"

SUBJECTS = {
    NotificationKind.NEEDS_PERSON: "forkhost: a fork waits for an operator",
    NotificationKind.SETTLED: "forkhost: the outcome of a fork is known",
}


class NotDelivered(Exception):
    """It did not arrive; the message says why. ``for_good``: trying again cannot help."""

    def __init__(self, text: str, *, for_good: bool = False) -> None:
        super().__init__(text)
        self.for_good = for_good


def deliver_one(owner: str) -> bool:
    """Try the message that has been due longest; whether there was one."""
    lease = claim(Notification.objects.filter(queue=""), owner, LEASE_SECONDS)
    if lease is None:
        return False
    notice: Notification = lease.row
    try:
        _SENDERS[Channel(notice.channel)](notice)
    except NotDelivered as error:
        _postpone(notice, lease, error)
    # A mail backend or a library may raise anything; the message is neither lost nor allowed to end the worker.
    except Exception as error:
        log.exception("delivery_failed")
        _postpone(notice, lease, NotDelivered(f"{type(error).__name__}: {error}"))
    else:
        _finish(lease, delivered_at=clock.now(), error_text="")
    return True


def signature(secret: str, at: int, body: str) -> str:
    """``t=<Unix seconds>,v1=<hex HMAC-SHA-256 of "<t>.<body>">``; a receiver refuses what is old or does not match."""
    digest = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _send_email(notice: Notification) -> None:
    user = User.objects.filter(pk=notice.recipient_id, is_active=True).exclude(email="").first()
    if user is None:
        raise NotDelivered("Its recipient has no address any more.", for_good=True)
    try:
        send_mail(SUBJECTS[NotificationKind(notice.kind)], notice.body, None, [user.email])
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"The mail server: {error}") from error


def _send_webhook(notice: Notification) -> None:
    workspace = Workspace.objects.filter(pk=notice.workspace_id).exclude(webhook_url="").first()
    if workspace is None:
        raise NotDelivered("The workspace has no webhook any more.", for_good=True)
    headers = {
        "Content-Type": "application/json",
        EVENT: EVENTS[NotificationKind(notice.kind)],
        DELIVERY: str(notice.pk),
        SIGNATURE: signature(workspace.webhook_secret, clock.now_ms() // 1000, notice.body),
    }
    try:
        answer = httpx.post(
            workspace.webhook_url,
            content=notice.body.encode(),
            headers=headers,
            timeout=WEBHOOK_SECONDS,
            follow_redirects=False,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotDelivered(f"The webhook: {type(error).__name__}: {error}") from error
    if not answer.is_success:
        raise NotDelivered(f"The webhook answered with {answer.status_code}.")


_SENDERS = {Channel.EMAIL: _send_email, Channel.WEBHOOK: _send_webhook}


def _postpone(notice: Notification, lease: Lease, error: NotDelivered) -> None:
    text = payloads.clip(str(error), ERROR_LIMIT)
    log.warning("notification_not_delivered", operation_id=str(notice.operation_id), error=text, tries=notice.attempts)
    if error.for_good or notice.attempts > len(BACK_OFF):
        _finish(lease, given_up_at=clock.now(), error_text=text)
        return
    again = clock.database_now(BACK_OFF[notice.attempts - 1])
    _held(lease).update(next_run_at=again, error_text=text, lease_owner="", lease_token=None, lease_until=None)


def _finish(lease: Lease, **values: Any) -> None:
    _held(lease).update(next_run_at=None, lease_owner="", lease_token=None, lease_until=None, **values)


def _held(lease: Lease) -> Any:
    return Notification.objects.filter(pk=lease.pk, lease_token=lease.token)
