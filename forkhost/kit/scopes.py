"""What a caller of the public API may do, and the permission that checks it.

A view names the scope each of its methods needs in ``scopes``; a method it does not name is not answered at all, so
the permission lets it pass to the 405. A browser's session holds every scope: what the user may see and do is decided by
memberships, as on the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.db import models
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from forkhost.kit.problems import Problem

if TYPE_CHECKING:
    # Importing it loads the authentication classes, which need the models that import this module.
    from rest_framework.views import APIView

INSUFFICIENT_SCOPE = "insufficient_scope"


class Scope(models.TextChoices):
    """READ: every GET. FORK: create and acknowledge forks. OPERATE: create and change sessions and their histories."""

    READ = "read"
    FORK = "fork"
    OPERATE = "operate"


ALL_SCOPES: tuple[Scope, ...] = tuple(Scope)


def parse_scopes(names: Iterable[str]) -> list[Scope]:
    """The scopes named, each once, in their own order. Raises ValueError naming the first that does not exist."""
    wanted = list(names)
    for name in wanted:
        if name not in Scope.values:
            raise ValueError(f"There is no scope {name!r}; there are {', '.join(Scope.values)}.")
    return [scope for scope in Scope if scope.value in wanted]


class ScopePermission(BasePermission):
    """Lets signed-in callers pass whose token, if they came with one, holds the scope of the method."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not (request.user and request.user.is_authenticated):
            return False
        scopes: Mapping[str, Scope] = getattr(view, "scopes", {})
        method = "GET" if request.method == "HEAD" else str(request.method)
        needed = scopes.get(method)
        if needed is None or _held(request.auth, needed):
            return True
        raise Problem(
            INSUFFICIENT_SCOPE,
            403,
            f"This token lacks the scope {needed.value}.",
            headers={"WWW-Authenticate": f'Bearer error="{INSUFFICIENT_SCOPE}", scope="{needed.value}"'},
        )


def _held(auth: Any, needed: Scope) -> bool:
    return auth is None or needed.value in auth.scopes
