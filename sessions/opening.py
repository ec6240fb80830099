"""Told when somebody opens a session, as the moment before they go on in it: whoever keeps it fit for that listens.

Operations know which sessions were bound into their home, but sessions stand below operations.
"""

from __future__ import annotations

from collections.abc import Callable

from sessions.models import Session

Listener = Callable[[Session], None]

_listeners: dict[Listener, None] = {}


def register(listener: Listener) -> None:
    """Tell ``listener`` from now on; registering it again changes nothing. It has to be quick: a page waits for it."""
    _listeners.setdefault(listener)


def opened(session: Session) -> None:
    """Somebody looks at the session and is shown how to go on in it."""
    for listener in _listeners:
        listener(session)
