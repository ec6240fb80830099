"""Compares what an adapter reads with what the store already holds, so that reading again never doubles anything.

After :class:`~sessions.providers.base.ReadRestart`, a lost cursor or a crash between two cursors, the stream begins at a
place whose following events are stored. As long as they agree, entry by entry, nothing is written; at the first that
does not, the provider's history was changed outside.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sessions import history
from sessions.choices import EventKind
from sessions.errors import PayloadRefused
from sessions.history import EventView
from sessions.models import Session
from sessions.payloads import canonical, clip
from sessions.pictures import without_pictures
from sessions.store import Entry, NewEvent, TurnEnd

CHUNK = 200
PROMPT_LENGTH = 200


class Diverged(Exception):
    """The stream and the stored history part after ``through_seq``."""

    def __init__(self, through_seq: int) -> None:
        super().__init__(f"the histories part after {through_seq}")
        self.through_seq = through_seq


class Recorded:
    """The events stored after ``position`` when this was made. ``position`` moves with each entry that agrees."""

    def __init__(self, session: Session, position: int) -> None:
        self.session = session
        self.position = position
        self.last_seq: int = session.last_seq
        self._ahead: deque[EventView] = deque()

    @property
    def exhausted(self) -> bool:
        """Whether all of them have been compared, so that entries are new from now on."""
        return self.position >= self.last_seq

    def compare(self, entry: Entry) -> None:
        """Check that ``entry`` is the next of them. Raises :class:`Diverged` when it is not."""
        if not _agree(self._next(), entry):
            raise Diverged(self.position)
        self._ahead.popleft()
        self.position += 1

    def finish(self) -> None:
        """The stream has ended. Raises :class:`Diverged` when more than the last turn's end is stored.

        A settled turn stays settled: what proved its end (a registry, a process) may be gone by now.
        """
        if not self.exhausted and self._next().kind == EventKind.TURN_END:
            self._ahead.popleft()
            self.position += 1
        if not self.exhausted:
            raise Diverged(self.position)

    def _next(self) -> EventView:
        if not self._ahead:
            self._ahead.extend(history.events(self.session, after=self.position, limit=CHUNK))
        return self._ahead[0]


def _agree(stored: EventView, entry: Entry) -> bool:
    """Whether ``entry`` is what was stored, evidence that lies outside the transcript left aside."""
    if isinstance(entry, TurnEnd):
        return stored.kind == EventKind.TURN_END
    if stored.at_unix_ms != entry.at_unix_ms:
        return False
    if not isinstance(entry, NewEvent):
        prompt = stored.payload.get("prompt", "")
        return stored.kind == EventKind.TURN_START and prompt == clip(entry.prompt, PROMPT_LENGTH)
    if stored.kind == EventKind.NOTE and entry.kind != EventKind.NOTE:
        # The store notes what cannot stand in a history, and which kind it was.
        return stored.payload.get("kind") == entry.kind
    return stored.kind == entry.kind and _text(stored.payload) == _text(entry.payload)


def _text(payload: dict[str, Any]) -> str:
    try:
        return canonical(without_pictures(payload))
    except PayloadRefused:
        return ""
