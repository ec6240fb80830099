"""Turns what an adapter reads into entries of the store, and writes them a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from forkhost.kit import wakeups
from sessions import history, store
from sessions.choices import EventKind, SyncState, TurnOutcome
from sessions.discovery import title_facts
from sessions.errors import BindingConflict, StaleSession, TurnConflict
from sessions.models import Session, SessionSync
from sessions.pacing import Pace
from sessions.payloads import plain
from sessions.pictures import with_stored_pictures
from sessions.providers.base import (
    Json,
    ReadBinding,
    ReadCursor,
    ReadDamage,
    ReadEvent,
    ReadItem,
    ReadTitle,
    ReadTurnEnd,
    ReadTurnStart,
    TurnBinding,
)
from sessions.recorded import Recorded
from sessions.store import Entry, NewEvent, TurnEnd, TurnStart
from sessions.store.drafts import Draft
from sessions.syncing import WAKE_UP

log = structlog.get_logger(__name__)

DAMAGE_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reading goes on: the adapter's cursor, and the session seq and revision it stands at."""

    since: Json | None
    seq: int
    revision: int

    def to_json(self) -> Json:
        """As stored in :attr:`SessionSync.cursor`."""
        return {"since": self.since, "seq": self.seq, "revision": self.revision}


class Batch:
    """Entries on their way into the store, and what goes with them."""

    def __init__(
        self, session: Session, sync: SessionSync, place: Place, save: Callable[..., None], pace: Pace
    ) -> None:
        """``save`` writes columns of the sync row under its lease, within the batch's transaction."""
        self.pace = pace
        self.session = session
        self.sync = sync
        self.place = place
        self.save = save
        self.recorded = Recorded(session, place.seq)
        self.last_seq: int = session.last_seq
        self.entries: list[Entry] = []
        self.weight = 0
        self.appender = store.Appender(session.pk)
        self.binding: TurnBinding | None = None
        self.cursor: ReadCursor | None = None
        self.cursor_seq = place.seq
        self.title = ""
        self.turn_open = _turn_open_at(session, place.seq)
        going_on = place.since is not None
        self.damage: list[dict[str, Any]] = list(sync.damage) if going_on else []
        self.damage_count: int = sync.damage_count if going_on else 0

    @property
    def full(self) -> bool:
        """Whether it is time to write."""
        return len(self.entries) >= self.pace.events or self.weight >= self.pace.characters

    def take(self, item: ReadItem) -> None:
        """One item of the stream."""
        match item:
            case ReadEvent():
                self.weight += _weight(item.payload)
                self._add(NewEvent(item.kind.value, item.at_ms, with_stored_pictures(item.payload)))
            case ReadTurnStart():
                self._start(item)
            case ReadTurnEnd():
                self._end(item)
            case ReadBinding():
                self._bind(item.binding)
            case ReadCursor():
                self.cursor, self.cursor_seq = item, self._position()
            case ReadTitle():
                self.title = item.title
            case ReadDamage():
                self._note_damage(item)

    def _start(self, item: ReadTurnStart) -> None:
        if self.turn_open:
            self._add(TurnEnd(item.at_ms, TurnOutcome.INTERRUPTED.value))
        if self.binding is not None and self.recorded.exhausted:
            self.write()
        self.turn_open = True
        start = TurnStart(
            item.at_ms,
            prompt=item.prompt,
            binding=item.binding,
            model=plain(item.model),
            effort=plain(item.effort),
            origin=item.origin,
        )
        self._add(start)

    def _end(self, item: ReadTurnEnd) -> None:
        if self.turn_open:
            self.turn_open = False
            self._add(TurnEnd(item.at_ms, item.outcome.value, usage=item.usage, binding=item.binding))

    def _bind(self, binding: TurnBinding) -> None:
        """Give the latest turn its newer binding, on its way if it has not been written yet."""
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if isinstance(entry, (TurnStart, TurnEnd)):
                self.entries[index] = replace(entry, binding=binding)
                return
        self.binding = self.recorded.binding = binding

    def _add(self, entry: Entry) -> None:
        if self.recorded.exhausted:
            self.entries.append(entry)
            return
        self.recorded.compare(entry)
        # What is stored already may have been bound less far when it was written.
        self.binding = self.recorded.binding

    def _position(self) -> int:
        """The seq that the stream has reached."""
        return self.last_seq + len(self.entries) if self.recorded.exhausted else self.recorded.position

    def _note_damage(self, item: ReadDamage) -> None:
        found = {"line": item.line, "reason": item.reason}
        if found in self.damage:
            return
        self.damage_count += 1
        if len(self.damage) < DAMAGE_SHOWN:
            self.damage.append(found)

    def write(self) -> None:
        """Append what was gathered and move the cursor, in one transaction. To leave others a moment is the caller's."""
        session = self.session
        binding = self.binding if self.recorded.exhausted else None
        facts = title_facts(session, self.title) if self.title else {}
        self._commit(binding, facts)
        session.last_seq = self.last_seq
        for name, value in facts.items():
            setattr(session, name, value)
        if binding is not None or facts:
            self.appender.forget()
        self.entries, self.weight, self.cursor, self.title = [], 0, None, ""
        self.binding = None if self.recorded.exhausted else self.binding

    def _commit(self, binding: TurnBinding | None, facts: dict[str, Any]) -> None:
        for last_try in (False, True):
            # Worked out before the transaction begins: SQLite lets nobody else write while one is open.
            draft = self._draft() if self.entries else None
            try:
                with self.pace.writing():
                    if draft is not None:
                        self.last_seq = self.appender.write(draft).last_seq
                    if binding is not None:
                        _move_binding(self.session, binding)
                    if facts:
                        store.update_facts(self.session.pk, **facts)
                    self.save(**self._progress())
                    if self.entries or facts:
                        wakeups.notify(WAKE_UP, str(self.session.pk))
            except StaleSession:
                # Somebody renamed it, say. If it was rewound, or went on, the second draft says so.
                self.appender.forget()
                if last_try:
                    raise
            else:
                return

    def _draft(self) -> Draft:
        return self.appender.draft(self.entries, expected_last_seq=self.last_seq, expected_revision=self.place.revision)

    def _progress(self) -> dict[str, Any]:
        changes: dict[str, Any] = {"damage": self.damage, "damage_count": self.damage_count}
        if not self.sync.stamp_imported:
            changes["state"] = SyncState.IMPORTING
        if self.cursor is not None:
            changes["cursor"] = Place(self.cursor.cursor, self.cursor_seq, self.place.revision).to_json()
            changes["bytes_done"] = self.cursor.done
            changes["bytes_total"] = self.cursor.total
        return changes


def _weight(payload: Json) -> int:
    """About how many characters it holds; deeper ones, which are rare, are left out."""
    return sum(len(value) for value in payload.values() if isinstance(value, str))


def _turn_open_at(session: Session, seq: int) -> bool:
    """Whether the event at ``seq`` lies in a turn that has not ended there."""
    if not seq:
        return False
    event = history.events(session, after=seq - 1, limit=1)[0]
    return event.turn_no is not None and event.kind != EventKind.TURN_END


def _move_binding(session: Session, binding: TurnBinding) -> None:
    try:
        store.bind_turn(session.pk, binding)
    except (BindingConflict, TurnConflict) as refusal:
        # An inherited turn's binding is the operation's; another turn's id stays with that turn.
        log.info("binding_not_moved", session=str(session.pk), reason=refusal.code)
