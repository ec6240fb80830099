"""Whether a provider session that was found belongs to unfinished work and must not become a session yet.

The importer finds the child of a fork as soon as the provider has made it, often before its operation is committed.
Operations know about that, but sessions stand below operations; so operations register their answer here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sessions.providers.base import DiscoveredSession


@dataclass(frozen=True, slots=True)
class Held:
    """The operation that claims a provider session, and a stable code saying why.

    The claim ends when the operation is settled, or, if it is ``lasting``, never: the provider session is a copy of one
    that is a session in another home.
    """

    operation_id: uuid.UUID
    reason: str
    lasting: bool = False


Holder = Callable[[uuid.UUID, DiscoveredSession], Held | None]
Waits = Callable[[uuid.UUID], bool]

_holders: dict[Holder, Waits] = {}


def register(holder: Holder, *, waits: Waits = lambda home_id: True) -> None:
    """Ask ``holder`` from now on; registering it again changes nothing.

    It is called with the home's id and what was found, outside of a transaction, each time the importer comes across
    the provider session again. It may hand the finding to evidence. ``waits`` says cheaply whether anything of a home
    is waited for at all; without that only sessions that bear one of our marks are asked about.
    """
    _holders.setdefault(holder, waits)


def unregister(holder: Holder) -> None:
    """Stop asking ``holder``."""
    _holders.pop(holder, None)


def held(home_id: uuid.UUID, discovered: DiscoveredSession) -> Held | None:
    """The first claim on the provider session, None when it may become a session."""
    for holder in _holders:
        claim = holder(home_id, discovered)
        if claim is not None:
            return claim
    return None


def claims(home_id: uuid.UUID, found: Sequence[DiscoveredSession]) -> dict[str, Held]:
    """The claims on these provider sessions, by their ids; the others may become sessions.

    A fork is noted as sent before its child can exist, so what was found before this is called is never missed.
    """
    waiting = bool(found) and any(waits(home_id) for waits in _holders.values())
    asked = [session for session in found if waiting or session.fork_operation_id]
    answers = {session.ref.provider_session_id: held(home_id, session) for session in asked}
    return {provider_id: claim for provider_id, claim in answers.items() if claim is not None}
