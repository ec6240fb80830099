"""How people and programs prove who they are: API tokens and one-time sign-in links.

Both are random secrets of 256 bits that are shown once and kept as SHA-256 only; a hash without a salt is enough for
secrets nobody can guess, and lets one index find them.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError, models
from django.db.models import Q

from forkhost.kit import clock
from forkhost.kit.scopes import ALL_SCOPES, Scope, parse_scopes

log = structlog.get_logger(__name__)

TOKEN_PREFIX = "fh_"  # noqa: S105  the visible start of every token, not a secret
VISIBLE_CHARACTERS = 10
LAST_USED_PRECISION = dt.timedelta(minutes=5)
SIGN_IN_LINK_LIFETIME = dt.timedelta(minutes=30)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiToken(models.Model):
    """A caller of the REST API: one user, some scopes, an end.

    ``prefix`` is the part that may be shown again. ``last_used_at`` is exact to five minutes, so that reading with a
    token almost never writes. A token ends at ``expires_at`` (null: never) or when it is revoked.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=200, blank=True, default="")
    prefix = models.CharField(max_length=VISIBLE_CHARACTERS)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name or self.user})"

    @classmethod
    def issue(
        cls,
        user: User,
        *,
        scopes: Iterable[str] = ALL_SCOPES,
        name: str = "",
        lifetime: dt.timedelta | None = None,
    ) -> str:
        """Make a token and return its secret, which nothing can show again.

        Raises ValueError for a scope that does not exist.
        """
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        cls.objects.create(
            user=user,
            name=name,
            prefix=secret[:VISIBLE_CHARACTERS],
            digest=_digest(secret),
            scopes=[scope.value for scope in parse_scopes(scopes)],
            expires_at=clock.now() + lifetime if lifetime else None,
        )
        return secret

    @classmethod
    def redeem(cls, secret: str) -> ApiToken | None:
        """The living token of an active user with this secret, with its user; None for anything else."""
        now = clock.now()
        token = (
            cls.objects.select_related("user")
            .filter(digest=_digest(secret), revoked_at__isnull=True, user__is_active=True)
            .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
            .first()
        )
        if token is not None:
            token._note_use(now)
        return token

    def revoke(self) -> bool:
        """End it now; False when it had been revoked before."""
        return bool(type(self).objects.filter(pk=self.pk, revoked_at__isnull=True).update(revoked_at=clock.now()))

    def holds(self, scope: Scope) -> bool:
        """Whether it may do what the scope stands for."""
        return scope.value in self.scopes

    def _note_use(self, now: dt.datetime) -> None:
        if self.last_used_at is not None and now - self.last_used_at < LAST_USED_PRECISION:
            return
        try:
            type(self).objects.filter(pk=self.pk).update(last_used_at=now)
        except OperationalError as error:
            # A database that is busy writing must not keep anybody from reading.
            log.warning("token_use_not_noted", token=self.prefix, error=str(error))


class SignInLink(models.Model):
    """A way into the pages that works once and for thirty minutes: printed by ``make up`` and ``manage.py up``."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"sign-in link of {self.user}"

    @classmethod
    def issue(cls, user: User) -> str:
        """Make a link's secret, which nothing can show again; ended links are removed on the way."""
        now = clock.now()
        cls.objects.filter(expires_at__lt=now - SIGN_IN_LINK_LIFETIME).delete()
        secret = secrets.token_urlsafe(32)
        cls.objects.create(user=user, digest=_digest(secret), expires_at=now + SIGN_IN_LINK_LIFETIME)
        return secret

    @classmethod
    def redeem(cls, secret: str) -> User | None:
        """The active user, exactly once however many ask at the same time; None for anything else."""
        now = clock.now()
        link = cls.objects.filter(digest=_digest(secret), used_at__isnull=True, expires_at__gt=now)
        # No join: an update through one asks whether the link was used before it waits for the others, and not after.
        if link.filter(user__in=User.objects.filter(is_active=True)).update(used_at=now) != 1:
            return None
        return User.objects.get(sign_in_links__digest=_digest(secret))
