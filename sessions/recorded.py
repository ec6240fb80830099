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
from sessions.providers.base import TurnBinding
from sessions.store import Entry, NewEvent, TurnEnd

CHUNK = 200
PROMPT_LENGTH = 200


class Diverged(Exception):
    """The stream and the stored history part after ``through_seq``."""

    def __init__(self, through_seq: int) -> None:
        super().__init__(f"the histories part after {through_seq}")
        self.through_seq = through_seq


class Recorded:
    """The events stored after ``position`` when this was made. ``position`` moves with each entry that agrees.

    ``binding`` is the stream's newest one of the last turn that was compared.
    """

    def __init__(self, session: Session, position: int) -> None:
        self.session = session
        self.position = position
        self.last_seq: int = session.last_seq
        self.binding: TurnBinding | None = None
        self._turn_no: int | None = None
        self._ahead: deque[EventView] = deque()

    @property
    def exhausted(self) -> bool:
        """Whether all of them have been compared, so that entries are new from now on."""
        return self.position >= self.last_seq

    def compare(self, entry: Entry) -> None:
        """Check that ``entry`` is the next of them. Raises :class:`Diverged` when it is not."""
        stored = self._next()
        if not _agree(stored, entry):
            raise Diverged(self._common_end())
        self._take(stored)
        if not isinstance(entry, NewEvent):
            self.binding = entry.binding or self.binding

    def finish(self) -> None:
        """The stream has ended. Raises :class:`Diverged` when more than the last turn's end is stored.

        A settled turn stays settled: what proved its end (a registry, a process) may be gone by now.
        """
        if not self.exhausted and self._next().kind == EventKind.TURN_END:
            self._take(self._next())
        if not self.exhausted:
            raise Diverged(self._common_end())

    def _common_end(self) -> int:
        """The last seq that both have in common.

        A turn whose binding lies on what was given up cannot be kept: the provider could not fork there any more.
        """
        turn = history.turn_by_ordinal(self.session, self._turn_no) if self._turn_no is not None else None
        if turn is None or self.binding is None or turn.binding in (None, self.binding):
            return self.position
        return turn.first_seq - 1

    def _take(self, stored: EventView) -> None:
        self._ahead.popleft()
        self.position += 1
        self._turn_no = stored.turn_no or self._turn_no

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
    if stored.kind == entry.kind and _text(stored.payload) == _text(entry.payload):
        return True
    # The store notes what cannot stand in a history, and which kind it was.
    noted = stored.kind == EventKind.NOTE and stored.payload.get("kind") == entry.kind and "reason" in stored.payload
    return noted and (entry.kind != EventKind.NOTE or not _text(entry.payload))


def _text(payload: dict[str, Any]) -> str:
    try:
        return canonical(without_pictures(payload))
    except PayloadRefused:
        return ""
