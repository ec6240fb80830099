"""What a caller of the public API may do. The check is ``forkhost.kit.api.ScopePermission``."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models


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
