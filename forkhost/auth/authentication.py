"""The two ways into the public API."""

from __future__ import annotations

from django.contrib.auth.models import User
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from forkhost.models import ApiToken

BEARER = "Bearer"
CHALLENGE = 'Bearer realm="forkhost"'
INVALID_TOKEN = "invalid_token"  # noqa: S105  a problem's code


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>``; anything wrong with it is a 401, never a fall-back to the browser's session."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).split()
        if not words:
            return None
        if words[0].lower() != BEARER.lower().encode() or len(words) != 2:
            raise AuthenticationFailed("The Authorization header has to be: Bearer, a space, a token.", INVALID_TOKEN)
        token = ApiToken.redeem(words[1].decode("latin-1"))
        if token is None:
            raise AuthenticationFailed("This token is unknown, expired or revoked.", INVALID_TOKEN)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class BrowserAuthentication(SessionAuthentication):
    """The browser's session; requests that change something need the CSRF token."""


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI names it."""

    target_class = BearerAuthentication
    name = "bearer"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token; its scopes: read, fork, operate."}


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI names it."""

    target_class = BrowserAuthentication
    name = "browser"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "forkhost_session",
            "description": "The browser's session, with X-CSRFToken on requests that change something.",
        }
