"""Whether a provider session that was found belongs to unfinished work and must not become a session yet.

The importer finds the child of a fork as soon as the provider has made it, often before its operation is committed.
Operations know about that, but sessions stand below operations; so operations register their answer here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from sessions.providers.base import DiscoveredSession


@dataclass(frozen=True, slots=True)
class Held:
    """The operation that has to be settled first, and a stable code saying why it claims the provider session."""

    operation_id: uuid.UUID
    reason: str


Holder = Callable[[uuid.UUID, DiscoveredSession], Held | None]

_holders: list[Holder] = []


def register(holder: Holder) -> None:
    """Ask ``holder`` from now on; registering it again changes nothing.

    It is called with the home's id and what was found, outside of a transaction, each time the importer comes across
    the provider session again. It may hand the finding to evidence.
    """
    if holder not in _holders:
        _holders.append(holder)


def unregister(holder: Holder) -> None:
    """Stop asking ``holder``."""
    if holder in _holders:
        _holders.remove(holder)


def held(home_id: uuid.UUID, discovered: DiscoveredSession) -> Held | None:
    """The first claim on the provider session, None when it may become a session."""
    for holder in _holders:
        claim = holder(home_id, discovered)
        if claim is not None:
            return claim
    return None
